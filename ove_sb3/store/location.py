"""Location of a log: a directory of the local or of another file system."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from ove_sb3._validation import is_uri, local_path
from ove_sb3.errors import InvalidInputError, StorageError

from .index import INDEX

_COPY_BYTES = 1 << 20


@dataclass(frozen=True)
class Location:
    """Directory of a log.

    Attributes
    ----------
    root : Path
        Path of the directory in its file system.
    filesystem : pyarrow.fs.FileSystem, optional
        File system that holds the directory; None for the local one.
    """

    root: Path
    filesystem: Any = None

    @classmethod
    def of(cls, path: str | PathLike[str], filesystem: Any = None) -> Location:
        """Location of a local path, of a URI such as ``s3://bucket/log``, or in a file system."""
        if filesystem is None and not is_uri(local_path(path)):
            return cls(local_path(path).absolute())
        from pyarrow import fs

        if filesystem is None:
            text = os.fspath(path)
            if "://" not in text:  # a Path leaves one slash of two
                text = text.replace(":/", "://", 1)
            try:
                filesystem, path = fs.FileSystem.from_uri(text)
            except (pa.ArrowException, OSError) as error:
                raise InvalidInputError(
                    f"`path` must be a directory or a URI that pyarrow.fs knows, got "
                    f"{text}: {error}."
                ) from error
        if isinstance(filesystem, fs.LocalFileSystem):
            return cls(Path(path).absolute())
        if not isinstance(filesystem, fs.FileSystem):
            raise InvalidInputError(
                "`filesystem` must be a file system of pyarrow.fs, got "
                f"{type(filesystem).__name__}. Wrap one of fsspec by "
                "pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(filesystem))."
            )
        return cls(Path(path), filesystem)

    def path(self, name: str) -> Path:
        """Path of a file."""
        return self.root / name

    def open(self, name: str) -> Any:
        """Open a file for random access."""
        if self.filesystem is None:
            return pa.OSFile(str(self.path(name)), "rb")
        return self.filesystem.open_input_file(self.path(name).as_posix())

    def sizes(self) -> dict[str, int]:
        """Sizes of all files in bytes, by name."""
        if self.filesystem is None:
            with _accessible(self.root), os.scandir(self.root) as entries:
                return {entry.name: size for entry in entries if (size := _size(entry)) is not None}
        from pyarrow import fs

        with _accessible(self.root):
            selector = fs.FileSelector(self.root.as_posix(), allow_not_found=True)
            files = self.filesystem.get_file_info(selector)
        return {file.base_name: int(file.size) for file in files if file.is_file}

    @contextmanager
    def index(self) -> Iterator[Path]:
        """Local directory with the index: that of the log, or of a copy that is removed again."""
        if self.filesystem is None:
            yield self.root
            return
        with tempfile.TemporaryDirectory(prefix="ove_sb3-") as folder:
            with _accessible(self.root):
                sizes = self.sizes()
                # A journal belongs to the index: it may hold what a killed process left to undo.
                for name in sizes.keys() & {INDEX, f"{INDEX}-journal"}:
                    self._fetch(name, Path(folder) / name)
            if INDEX not in sizes:
                raise StorageError(
                    f"`{self.root}` must be a directory of logged episodes, but {INDEX} does "
                    "not exist. Check the path and the file system.",
                    path=self.root,
                )
            yield Path(folder)

    def _fetch(self, name: str, target: Path) -> None:
        with (
            self.filesystem.open_input_stream(self.path(name).as_posix()) as source,
            target.open("wb") as file,
        ):
            while content := source.read(_COPY_BYTES):
                file.write(content)


def _size(entry: os.DirEntry[str]) -> int | None:
    try:
        return entry.stat().st_size
    except FileNotFoundError:  # removed in the meantime
        return None


@contextmanager
def _accessible(root: Path) -> Iterator[None]:
    """Translate errors of a file system into `StorageError`."""
    try:
        yield
    except StorageError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise StorageError(
            f"`{root}` must be accessible: {str(error).strip().rstrip('.')}. Check the path, the "
            "permissions and the connection.",
            path=root,
        ) from error
