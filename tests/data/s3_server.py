"""A local S3 server that records its requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from pyarrow import fs
from werkzeug.serving import make_server


class Request(NamedTuple):
    method: str
    path: str
    bytes: tuple[int, int] | None
    """First and last byte of the range that was asked for."""


class S3:
    """Address of a server, and the requests it has received."""

    def __init__(self, port: int) -> None:
        self.endpoint, self.requests = f"127.0.0.1:{port}", list[Request]()

    def uri(self, path: str, user: str = "me:secret@") -> str:
        options = f"endpoint_override={self.endpoint}&scheme=http&region=us-east-1"
        return f"s3://{user}{path}?{options}"

    def filesystem(self) -> fs.S3FileSystem:
        return fs.S3FileSystem(
            access_key="me",
            secret_key="secret",
            region="us-east-1",
            scheme="http",
            endpoint_override=self.endpoint,
            allow_bucket_creation=True,
        )

    def upload(self, folder: Path, path: str) -> None:
        remote = self.filesystem()
        remote.create_dir(path)
        fs.copy_files(str(folder), path, destination_filesystem=remote)
        self.requests.clear()

    def gets(self, name: str) -> list[Request]:
        """Requests for the contents of a file."""
        return [r for r in self.requests if r.method == "GET" and r.path.endswith(name)]


@contextmanager
def s3_server() -> Iterator[S3]:
    service = DomainDispatcherApplication(create_backend_app)
    address: list[S3] = []

    def record(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        given = environ.get("HTTP_RANGE", "")
        first, _, last = given.removeprefix("bytes=").partition("-")
        span = (int(first), int(last)) if first and last else None
        request = Request(environ["REQUEST_METHOD"], environ["PATH_INFO"], span)
        address[0].requests.append(request)
        answer: Iterable[bytes] = service(environ, start)
        return answer

    server = make_server("127.0.0.1", 0, record, threaded=True)
    address.append(S3(server.server_port))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield address[0]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
