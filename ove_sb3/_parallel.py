"""Parallel map of a function: in this process, in local processes, or on a Dask cluster.

Results come in the order of the tasks. An object `shared` by all tasks is sent once to every
worker. If a worker dies, only its unfinished tasks are redone.
"""

from __future__ import annotations

import hashlib
import pickle
import tempfile
import threading
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

from ove_sb3.errors import InvalidInputError, WorkerError

MOST_FAILURES = 3
_WAIT_SECONDS = 30
_HEAVY = 1 << 20  # bytes of a task
_here = threading.local()  # models are not safe to share between threads


class Indexed(Protocol):
    """Collection with a length and access by index."""

    def __len__(self) -> int: ...

    def __getitem__(self, k: int, /) -> Any: ...


def run(
    function: Callable[..., Any],
    tasks: Indexed,
    *,
    shared: Any = None,
    n_jobs: int = 1,
    scheduler: Any = None,
) -> Generator[Any, None, None]:
    """Yield ``function(task, shared)`` for every task, in order.

    Parameters
    ----------
    function : callable
        Defined in a module that the workers can import.
    tasks : sequence
        Requested one by one, and again if a worker is lost, so they may be created lazily.
    shared : object
        Second argument of every call.
    n_jobs : int
        Processes of this machine, unless a cluster is given.
    scheduler : str or distributed.Client, optional
        Dask cluster, whose workers are all used; by default that of an enclosing
        ``joblib.parallel_config(backend="dask")``.
    """
    if is_local(n_jobs, scheduler):
        for k in range(len(tasks)):
            yield function(tasks[k], shared)
        return
    with _cluster(scheduler) as client:
        payload = _pickled(shared)
        attempt = _on_cluster if client is not None else _in_processes
        done = 0
        for failures in range(1, MOST_FAILURES + 2):
            try:
                with closing(attempt(function, tasks, done, payload, client or n_jobs)) as results:
                    for result in results:
                        yield result
                        done += 1
                return
            except _lost_workers() as error:
                if failures > MOST_FAILURES:
                    cause = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
                    raise WorkerError(
                        f"workers must stay alive, but some were lost {failures} times, the last "
                        f"time with {done} of {len(tasks)} tasks done: {cause}. They may have run "
                        "out of memory: use fewer at a time (`n_jobs`), or smaller chunks "
                        "(`chunk_steps` of open_log)."
                    ) from error


def is_local(n_jobs: int, scheduler: Any = None) -> bool:
    """Whether this process does all the work itself."""
    return n_jobs == 1 and scheduler is None and _client_of_joblib() is None


def _in_processes(
    function: Callable[..., Any], tasks: Indexed, done: int, payload: bytes, n_jobs: Any
) -> Generator[Any, None, None]:
    """The tasks from number `done` on, by joblib."""
    from joblib import Parallel, delayed

    digest = hashlib.sha256(payload).hexdigest()
    with tempfile.TemporaryDirectory(prefix="ove_sb3-") as folder:
        file = Path(folder) / "shared"
        file.write_bytes(payload)
        pool = Parallel(n_jobs=n_jobs, return_as="generator", batch_size=1)
        calls = (delayed(_call)(function, tasks[k], digest, file) for k in range(done, len(tasks)))
        with warnings.catch_warnings():
            # joblib replaces a worker that has grown, and warns. Where warnings are errors, that
            # would end the thread that manages the workers, and the tasks would never end.
            warnings.filterwarnings("ignore", "A worker stopped", UserWarning)
            results = pool(calls)
            try:
                for result in results:  # noqa: UP028 (closing must come after the filter below)
                    yield result
            finally:
                warnings.simplefilter("ignore", UserWarning)  # tasks are canceled on purpose
                results.close()


def _on_cluster(
    function: Callable[..., Any], tasks: Indexed, done: int, payload: bytes, client: Any
) -> Generator[Any, None, None]:
    """The tasks from number `done` on, by dask.distributed.

    Not by joblib's backend for it: that waits forever for the result of a worker that is lost for
    good.
    """
    digest = hashlib.sha256(payload).hexdigest()
    client.wait_for_workers(1, timeout=_WAIT_SECONDS)  # after a loss, until one is there again
    sent = _scattered(client, payload, broadcast=True)
    waiting: deque[Any] = deque()
    following = iter(range(done, len(tasks)))
    try:
        while True:
            ahead = 2 * max(sum(client.nthreads().values()), 1)
            while len(waiting) < ahead and (k := next(following, None)) is not None:
                task: Any = _pickled(tasks[k])
                if len(task) > _HEAVY:  # directly to a worker, not through the scheduler
                    task = _scattered(client, task)
                call = client.submit(_call_pickled, function, task, digest, sent, pure=False)
                waiting.append(call)
            if not waiting:
                return
            result = waiting[0].result()
            waiting.popleft()
            yield result
    finally:
        client.cancel(list(waiting))


def _scattered(client: Any, content: bytes, *, broadcast: bool = False) -> Any:
    """Content on a worker, or on all of them."""
    from distributed.comm.core import CommClosedError

    try:
        return client.scatter(content, broadcast=broadcast, hash=False)
    except KeyError as error:  # the scheduler looks up a worker that has just gone
        raise CommClosedError(f"the worker {error.args[0]} has gone") from error


def _call_pickled(function: Callable[..., Any], task: bytes, digest: str, payload: bytes) -> Any:
    return _call(function, pickle.loads(task), digest, payload)


def _call(function: Callable[..., Any], task: Any, digest: str, payload: bytes | Path) -> Any:
    """Run a task in a worker; the shared object is unpickled at the first task only."""
    if getattr(_here, "digest", None) != digest:
        content = payload if isinstance(payload, bytes) else payload.read_bytes()
        _here.shared, _here.digest = pickle.loads(content), digest
    return function(task, _here.shared)


def _pickled(shared: Any) -> bytes:
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps(shared))
    except Exception as error:  # pickling can raise anything
        raise InvalidInputError(
            "`n_jobs` must be 1, and `scheduler` None, for a candidate that cannot be sent to "
            f"another process: {type(error).__name__}: {error}"
        ) from error


@contextmanager
def _cluster(scheduler: Any) -> Iterator[Any]:
    """A client of the cluster; None if there is no cluster."""
    if scheduler is None:
        yield _client_of_joblib()
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise InvalidInputError(
            f"`scheduler` must be None without dask.distributed, got {scheduler!r}. Install it: "
            "pip install distributed."
        ) from error
    if isinstance(scheduler, Client):
        yield scheduler
        return
    if not isinstance(scheduler, str):
        raise InvalidInputError(
            "`scheduler` must be the address of a Dask scheduler or a distributed.Client, got "
            f"{type(scheduler).__name__}."
        )
    try:
        client = Client(  # type: ignore[no-untyped-call]
            scheduler, timeout=_WAIT_SECONDS, set_as_default=False
        )
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"`scheduler` must be the address of a running Dask scheduler, got {scheduler!r}: "
            f"{error}. Start one: dask scheduler, and dask worker {scheduler}."
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=_WAIT_SECONDS)
        except TimeoutError as error:
            raise InvalidInputError(
                f"`scheduler` must have workers, but {scheduler} has none after {_WAIT_SECONDS} "
                f"seconds. Start some: dask worker {scheduler}."
            ) from error
        yield client


def _client_of_joblib() -> Any:
    """The client of an enclosing ``joblib.parallel_config(backend="dask")``."""
    from joblib.parallel import get_active_backend

    return getattr(get_active_backend()[0], "client", None)


def _lost_workers() -> tuple[type[BaseException], ...]:
    """Error for a worker process that has died."""
    from concurrent.futures.process import BrokenProcessPool

    from joblib.externals.loky.process_executor import BrokenProcessPool as BrokenLoky

    kinds: list[type[BaseException]] = [BrokenProcessPool, BrokenLoky]
    try:
        from distributed import CancelledError, KilledWorker
        from distributed import TimeoutError as NoWorkerError
        from distributed.comm.core import CommClosedError

        # The last three: data sent to the worker are lost with it, or it dies during a transfer.
        kinds += [KilledWorker, CancelledError, CommClosedError, NoWorkerError]
    except ImportError:
        pass
    return tuple(kinds)
