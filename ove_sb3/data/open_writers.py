"""Open writers of this process: pending episodes are written in time, and when it ends.

Wrappers check the clock at every step. A thread does so where no step follows: after an exception
out of `learn`, in a long update of a model, in a notebook that is left alone.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from contextlib import suppress
from typing import Any, Protocol

from ove_sb3.errors import OveError

_SHORTEST_PAUSE = 0.05


class OpenWriter(Protocol):
    """Writer with episodes that may be pending."""

    lock: Any

    def flush(self) -> None:
        """Write all pending episodes."""

    def seconds_left(self) -> float:
        """Time until pending episodes are due."""


_WRITERS: weakref.WeakSet[OpenWriter] = weakref.WeakSet()
_GUARD = threading.Lock()
_clock: threading.Thread | None = None
_held: list[OpenWriter] = []  # while this process forks


def register(writer: OpenWriter) -> None:
    """Look after a writer until it is discarded or no longer used."""
    global _clock
    with _GUARD:
        _WRITERS.add(writer)
        if _clock is None or not _clock.is_alive():
            _clock = threading.Thread(target=_keep_time, name="ove_sb3-flush", daemon=True)
            _clock.start()


def discard(writer: OpenWriter) -> None:
    """Forget a writer."""
    with _GUARD:
        _WRITERS.discard(writer)


def flush_all() -> None:
    """Write all pending episodes; called when the interpreter ends."""
    for writer in _writers():
        writer.flush()


def _writers() -> list[OpenWriter]:
    with _GUARD:
        return list(_WRITERS)


def _keep_time() -> None:
    pause = _SHORTEST_PAUSE
    while True:
        time.sleep(max(pause, _SHORTEST_PAUSE))
        pause = _flush_due()


def _flush_due() -> float:
    """Write what is due; return the time until more may be."""
    pause = 1.0
    for writer in _writers():
        if writer.seconds_left() <= 0.0:
            with suppress(OveError):  # the next flush of the writer's own thread tells
                writer.flush()
        pause = min(pause, writer.seconds_left())
    return pause


def _before_fork() -> None:
    """Wait until no thread is writing: a child must not inherit locks in the middle of a flush."""
    _GUARD.acquire()
    _held.extend(_WRITERS)
    for writer in _held:
        writer.lock.acquire()


def _after_fork() -> None:
    for writer in _held:
        writer.lock.release()
    _held.clear()
    _GUARD.release()


def _after_fork_in_child() -> None:
    _after_fork()
    _WRITERS.clear()  # they are the parent's; each registers again when it is used


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child
)
atexit.register(flush_all)
