"""Writing episodes to a log directory as they end."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path

from ove_sb3._validation import check_integer
from ove_sb3.store.writer import BatchWriter, compact_directory

from .log_ids import new_log_id
from .metadata import Metadata, merge_dicts
from .trajectories import Trajectories

_MOST_SOURCES = 64


class EpisodeWriter:
    """Appends episodes to a directory, a few at a time.

    Parameters
    ----------
    path : path
        Directory, created if need be. Several writers may share it.
    metadata : Metadata
    flush_every : int
        Number of episodes written together. If the process is killed, at most the episodes since
        the last flush are lost; `flush` writes immediately.
    fsync : bool
        Wait until the disk has every flush, to survive a power failure as well.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        metadata: Metadata,
        *,
        flush_every: int = 64,
        fsync: bool = False,
    ) -> None:
        self.flush_every = check_integer(flush_every, "flush_every", 1)
        if not metadata.log_ids:
            metadata = replace(metadata, log_ids=(new_log_id(),))
        self.metadata = metadata
        self.path = Path(path)
        self._pending: list[Trajectories] = []
        self._sources: set[str] = set()  # identifiers of the episodes added
        self._writer = BatchWriter(self.path, metadata.to_dict(), fsync=fsync)
        self.n_written = 0

    def add(self, episodes: Trajectories) -> None:
        """Take over whole episodes; written by the next flush."""
        self._pending.append(episodes)
        if sum(map(len, self._pending)) >= self.flush_every:
            self.flush()

    def flush(self) -> None:
        """Write what is pending: from here on it is safe from a kill of the process."""
        if not self._pending:
            return
        data = Trajectories.concat(self._pending)
        self._sources.update(data.metadata.log_ids)
        log_ids = list(self.metadata.log_ids)
        if len(self._sources) <= _MOST_SOURCES:  # else one for every few episodes
            log_ids += data.metadata.log_ids
        metadata = replace(data.metadata, log_ids=tuple(log_ids))
        self._writer.append(data.to_batch(), metadata.to_dict())
        self.n_written += len(data)
        self._pending.clear()

    def close(self, *, compact: bool = True) -> None:
        """Flush, and turn the file into Parquet."""
        self.flush()
        self._writer.close(merge_dicts if compact else None)


def compact(path: str | PathLike[str]) -> int:
    """Turn the files of finished or killed writers into Parquet; return how many there were.

    Files that a living process is still writing are left alone.
    """
    return compact_directory(Path(path), merge_dicts)
