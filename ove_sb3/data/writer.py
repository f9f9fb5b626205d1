"""Writing episodes to a log directory as they end."""

from __future__ import annotations

import math
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from os import PathLike
from types import TracebackType
from typing import Any

from typing_extensions import Self

from ove_sb3._validation import check_integer, check_path, check_progress
from ove_sb3.errors import InvalidInputError, OveError
from ove_sb3.store.index import Durability, check_durability
from ove_sb3.store.writer import BatchWriter, agree_on_plan, amend_plan, compact_directory

from . import open_writers
from .log_ids import is_content_id, new_log_id
from .metadata import Metadata, merge
from .places import Taken
from .trajectories import Trajectories, join_parts

FLUSH_SECONDS = 5.0
"""Time after which `EpisodeWriter.tick` flushes."""
_MOST_DIGESTS = 64
"""Identifiers that are digests of few episodes; those of logs that were written are all kept."""


@dataclass
class _Pending:
    """Episodes that are not on disk, and the number of steps that are."""

    episodes: list[Trajectories] = field(default_factory=list)
    n: int = 0
    after: int = 0


class EpisodeWriter:
    """Appends episodes to a directory, a few at a time.

    Use it as a context manager, or call `close`. Pending episodes are also written when the process
    ends, unless it is killed, and some seconds after the last flush.

    Parameters
    ----------
    path : path
        Directory, created if need be. Several writers may share it.
    metadata : Metadata
    flush_every : int
        Number of episodes written together. If the process is killed, at most the episodes since
        the last flush are lost; `flush` writes immediately.
    durability : {"full", "normal"}
        Flushed episodes survive a power loss, or only the end of the process. "normal" is faster.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import ove_sb3 as ove
    >>> data = ove.Trajectories.from_arrays(
    ...     observations=np.zeros((3, 1)),
    ...     actions=np.zeros(3, dtype=int),
    ...     log_probs=np.zeros(3),
    ...     rewards=np.ones(3),
    ...     lengths=[1, 2],
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ove.EpisodeWriter(folder, data.metadata) as writer:
    ...         writer.add(data)
    ...     len(ove.Trajectories.load(folder))
    2
    """

    def __init__(
        self,
        path: str | PathLike[str],
        metadata: Metadata,
        *,
        flush_every: int = 256,
        durability: Durability = "full",
    ) -> None:
        self.flush_every = check_integer(flush_every, "flush_every", 1)
        self.durability = check_durability(durability)
        self.path = check_path(path)
        if not isinstance(metadata, Metadata):
            raise InvalidInputError(
                f"`metadata` must be Metadata, got {metadata!r}. Use Metadata.from_dict for a dict."
            )
        if not metadata.log_ids:
            metadata = replace(metadata, log_ids=(new_log_id(),))
        self.n_written = 0
        self.metadata = metadata
        self._stored: Metadata | None = None  # that of all episodes so far
        self._latest: Metadata | None = None  # not on disk yet
        self._pending = _Pending()
        self._taken = Taken("episodes")
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self.lock = threading.RLock()  # a thread may flush, see `open_writers`
        self._writer = BatchWriter(self.path, self.metadata.to_dict(), self.durability)
        self._last_flush = time.monotonic()
        open_writers.register(self)

    def add(self, episodes: Trajectories) -> None:
        """Add whole episodes; the next flush writes them."""
        self._check_process()
        if not isinstance(episodes, Trajectories):
            raise InvalidInputError(
                f"`episodes` must be Trajectories, got {type(episodes).__name__}. Make them by "
                "Trajectories.from_arrays."
            )
        with self.lock:
            if episodes.places is not None or len(episodes) > 1:
                self._taken.add(episodes)
            self._pending.episodes.append(episodes)
            self._pending.n += len(episodes)
            if self._pending.n >= self.flush_every:
                self.flush()

    def update(self, metadata: Metadata) -> None:
        """Set the metadata; the next flush writes them, even without new episodes."""
        self._check_process()
        with self.lock:
            self._latest = metadata

    def tick(self) -> None:
        """Flush if the last flush was some seconds ago; cheap enough to call at every step."""
        if time.monotonic() - self._last_flush > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write all pending episodes; they survive if the process is killed afterward."""
        self._check_process()
        with self.lock:
            self._flush()

    def seconds_left(self) -> float:
        """Time until pending episodes and metadata are due; infinite if there are none."""
        due = self._last_flush + FLUSH_SECONDS
        return due - time.monotonic() if self._unwritten else math.inf

    @property
    def _unwritten(self) -> bool:
        return self._pending.n > 0 or self._latest is not None

    def _flush(self) -> None:
        self._last_flush = time.monotonic()
        pending = self._pending
        data = join_parts(pending.episodes) if pending.episodes else None
        metadata = self._merge(data)
        if data is None and metadata == (self._stored or self.metadata):
            self._latest = None
            return
        batch = None if data is None else data.to_batch()
        self._writer.append(batch, metadata.to_dict(), pending.after)
        # One assignment: an interrupt finds the episodes pending, or written.
        self._pending = _Pending(after=pending.after + (0 if batch is None else batch[0].num_rows))
        self._stored, self._latest = metadata, None
        self.n_written += 0 if data is None else len(data)

    def _merge(self, data: Trajectories | None) -> Metadata:
        """Metadata of all episodes so far, merged with the latest update."""
        # Changes in between count as well, such as a behavior that began to learn.
        known = [] if self._stored is None else [self._stored]
        known += [] if data is None else [data.metadata]
        known += [] if self._latest is None else [self._latest]
        if not known:
            return self.metadata
        merged = merge(known)
        log_ids = {*self.metadata.log_ids, *merged.log_ids}
        digests = [one for one in log_ids if is_content_id(one)]
        if len(digests) > _MOST_DIGESTS:  # one for every few episodes
            log_ids -= {*digests} - {*(self._stored or self.metadata).log_ids}
        return replace(merged, log_ids=tuple(log_ids)).marked(**self._taken.flags)

    def close(self, *, compact: bool = True) -> None:
        """Flush, and turn the episodes into a Parquet shard."""
        self._check_process()
        with self.lock:
            self._flush()
            self._writer.close(compact=compact)
        open_writers.discard(self)

    def _check_process(self) -> None:
        """After a fork, begin as a new writer: pending episodes belong to the parent."""
        if os.getpid() != self._pid:
            self._pending = _Pending()
            self._begin()

    def __getstate__(self) -> dict[str, Any]:
        """A copy is a writer of its own, as after a fork."""
        state = {**self.__dict__, "_pid": None}
        del state["lock"]
        return state

    def __del__(self) -> None:
        if hasattr(self, "_pending") and self._unwritten and self._pid == os.getpid():
            with suppress(OveError):
                self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def begin_collection(path: str | PathLike[str], plan: dict[str, Any]) -> dict[str, Any]:
    """Plan of the collection in a directory: the one it began with, or `plan` if it is new."""
    return agree_on_plan(check_path(path), plan)


def note_error(path: str | PathLike[str]) -> None:
    """Record in the plan of a collection that its environment raised an error."""
    amend_plan(check_path(path), raised=True)


def compact(path: str | PathLike[str], *, progress: bool | None = None) -> int:
    """Turn all episodes of a log into Parquet shards; return how many writers they are from.

    Writers may go on writing meanwhile. Files left behind by killed processes are removed.
    By default a progress bar appears in a terminal or notebook after two seconds; `progress`
    forces or hides it.
    """
    return compact_directory(check_path(path), progress=check_progress(progress))
