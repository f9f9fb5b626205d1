"""Logs gone through a chunk at a time: on disk, where memory does not grow with them, or in memory.

A log is cut by its steps alone: the episodes that begin in steps ``[k b, (k+1) b)`` belong
together, with a number b that depends on the size of a step only. What is computed block by block
is therefore the same to the last bit wherever the log is and however many processes share the work.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ove_sb3._validation import check_integer
from ove_sb3.errors import EmptyLogError, InvalidInputError

from .metadata import Metadata
from .trajectories import Trajectories

if TYPE_CHECKING:
    from .reading import DiskPart, Source

_MOST_STEPS = 1 << 18
_MOST_BYTES = 1 << 26
_FEWEST_STEPS = 1 << 12
_BLOCKS_PER_CHUNK = 4


class Part(Protocol):
    """Consecutive episodes of a log; it can be sent to another process."""

    def windows(self, width: int) -> Iterator[tuple[int, Trajectories]]:
        """Runs of the episodes that begin in the same `width` steps, and where those begin."""


class Log(Protocol):
    """Episodes that can be gone through part by part."""

    metadata: Metadata
    n_steps: int
    block_steps: int
    chunk_steps: int

    def part(self, first: int, last: int) -> Part:
        """The episodes that begin from step `first` on and before step `last`."""

    def episodes_before(self, step: int) -> int:
        """Number of episodes that end before a step."""

    def episode_end(self, step: int) -> int:
        """Index of the first step after the episode that a step belongs to."""

    def place(self, step: int) -> str:
        """Where a step of the log is found, in words; empty if there is nothing to say."""


def open_log(path: str | PathLike[str], *, chunk_steps: int | None = None) -> DiskLog:
    """A log directory, read as it is gone through.

    Parameters
    ----------
    path : path
        Directory written by a logging wrapper, `collect` or `Trajectories.save`; writers may
        still be at work in it. What they write after this call is not part of the log.
    chunk_steps : int, optional
        About how many steps a chunk has: what `DiskLog.chunks` yields, and what `evaluate` gives
        to a process at a time. It changes the memory and the time, never a result.

    Returns
    -------
    DiskLog
        Goes wherever Trajectories go: `evaluate`, `compare`.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import ove_sb3 as ove
    >>> data = ove.Trajectories.from_arrays(
    ...     observations=np.zeros((6, 1)),
    ...     actions=np.zeros(6, dtype=int),
    ...     log_probs=np.zeros(6),
    ...     rewards=np.ones(6),
    ...     lengths=[1, 2, 3],
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     data.save(folder)
    ...     log = ove.open_log(folder, chunk_steps=2)
    ...     len(log), log.n_steps, [len(chunk) for chunk in log.chunks()]
    (3, 6, [2, 1])
    """
    if not isinstance(path, (str, PathLike)):
        raise InvalidInputError(
            f"`path` must be the path of a log directory, got {type(path).__name__}. Trajectories "
            "in memory need not be opened."
        )
    return DiskLog(path, chunk_steps=chunk_steps)


def as_log(data: Trajectories | DiskLog | str | PathLike[str]) -> Log:
    """Whatever holds a log, ready to be gone through."""
    if isinstance(data, Trajectories):
        return MemoryLog(data)
    if isinstance(data, DiskLog):
        return data
    if isinstance(data, (str, PathLike)):
        return DiskLog(data)
    raise InvalidInputError(
        "`data` must be Trajectories, a log opened by open_log, or the path of a log directory, "
        f"got {type(data).__name__}. Use ove.collect, ove.open_log or Trajectories.from_arrays."
    )


class DiskLog:
    """A directory of logged episodes, as it was when it was opened; made by `open_log`.

    Only the names and sizes of the files are held in memory.

    Attributes
    ----------
    path : Path
    metadata : Metadata
    n_steps : int
        Number of steps of all episodes together; ``len`` is the number of episodes.
    chunk_steps : int
        About how many steps a chunk has.
    block_steps : int
        Steps that `evaluate` works on at a time; the same for the same data in memory.
    """

    def __init__(self, path: str | PathLike[str], *, chunk_steps: int | None = None) -> None:
        from .opening import list_sources

        self.path = Path(path)
        found = list_sources(self.path.absolute())
        self._sources, self._columns, self.metadata = found.sources, found.columns, found.metadata
        self._n_episodes = found.n_episodes
        self.n_steps = self._sources[-1].last
        self.block_steps = steps_per_block(found.bytes_per_step)
        self.chunk_steps = _chunk_steps(chunk_steps, self.block_steps)

    def __len__(self) -> int:
        return self._count

    @cached_property
    def _count(self) -> int:
        counts = (
            self._ends(source, source.n_steps) if known is None else known
            for source, known in zip(self._sources, self._n_episodes, strict=True)
        )
        return sum(counts)

    def __repr__(self) -> str:
        env = f" of {self.metadata.env_id}" if self.metadata.env_id else ""
        adaptive = ", adaptive" if self.metadata.adaptive else ""
        n_files = len(self._sources)
        return (
            f"DiskLog: {self.n_steps} steps{env} in {n_files} file{'s' * (n_files != 1)} of "
            f"{self.path}{adaptive}"
        )

    def chunks(self) -> Iterator[Trajectories]:
        """All episodes in the order of logging, about `chunk_steps` steps at a time.

        About one chunk is in memory at a time. Final observations are left out, see `load`.
        """
        from .reading import ChunkError

        try:
            for _, chunk in self.part(0, self.n_steps).windows(self.chunk_steps):
                yield chunk
        except ChunkError as error:
            raise located(error, self) from error

    def load(self) -> Trajectories:
        """All of it, in memory."""
        from .opening import read_all

        return read_all(self.path, self._sources, self.metadata)

    def part(self, first: int, last: int) -> DiskPart:
        """The episodes that begin from step `first` on and before step `last`."""
        from .reading import DiskPart

        whole = DiskPart(self._sources, self._columns, self.metadata, 0, self.n_steps)
        return whole.of(first, last)

    def episodes_before(self, step: int) -> int:
        """Number of episodes that end before a step of the log."""
        return sum(
            self._ends(source, min(step - source.first, source.n_steps))
            for source in self._sources
            if source.first < step
        )

    def episode_end(self, step: int) -> int:
        """Index of the first step after the episode that a step of the log belongs to."""
        source = next(source for source in self._sources if step < source.last)
        done = {"done": self._columns["done"]}
        for arrays in source.rows(done, step - source.first, source.n_steps, _FEWEST_STEPS):
            ends = np.flatnonzero(arrays["done"])
            if ends.size:
                return step + int(ends[0]) + 1
            step += arrays["done"].size
        return step

    def place(self, step: int) -> str:
        """The file a step of the log is in, and its row there."""
        source = next(source for source in self._sources if step < source.last)
        return f"in {source.file}, row {step - source.first}"

    def _ends(self, source: Source, end: int) -> int:
        done = {"done": self._columns["done"]}
        rows = source.rows(done, 0, end, _MOST_STEPS)
        return sum(int(np.count_nonzero(arrays["done"])) for arrays in rows)


class MemoryLog:
    """Trajectories, gone through in views of some episodes each."""

    def __init__(self, data: Trajectories, *, chunk_steps: int | None = None) -> None:
        self.data, self.metadata, self.n_steps = data, data.metadata, data.n_steps
        self._starts = data.starts
        self.block_steps = steps_per_block(_bytes_per_step(data))
        self.chunk_steps = _chunk_steps(chunk_steps, self.block_steps)

    def part(self, first: int, last: int) -> MemoryPart:
        """The episodes that begin from step `first` on and before step `last`, no copy."""
        begin, end = np.searchsorted(self._starts, [first, last])
        step = int(self._starts[begin]) if begin < self._starts.size else self.n_steps
        return MemoryPart(self.data[begin:end], step)

    def episodes_before(self, step: int) -> int:
        """Number of episodes that end before a step of the log."""
        return int(np.searchsorted(self._starts, step))

    def episode_end(self, step: int) -> int:
        """Index of the first step after the episode that a step of the log belongs to."""
        following = int(np.searchsorted(self._starts, step, side="right"))
        return int(self._starts[following]) if following < self._starts.size else self.n_steps

    def place(self, step: int) -> str:
        """Nothing to say: episodes are found by their number."""
        del step
        return ""


@dataclass(frozen=True)
class MemoryPart:
    """Consecutive episodes, of which the first begins at step `first_step` of the log."""

    data: Trajectories
    first_step: int

    def windows(self, width: int) -> Iterator[tuple[int, Trajectories]]:
        """Runs of the episodes that begin in the same `width` steps, and where those begin."""
        starts = self.data.starts + self.first_step
        first = 0
        while first < starts.size:
            target = (starts[first] // width + 1) * width
            last = int(np.searchsorted(starts, target))
            yield int(starts[first]), self.data[first:last]
            first = last


def steps_per_block(bytes_per_step: float) -> int:
    """Number of steps that is quick to work on and small in memory."""
    return int(min(_MOST_STEPS, max(_FEWEST_STEPS, _MOST_BYTES / max(bytes_per_step, 1.0))))


def located(error: Any, log: Log) -> InvalidInputError:
    """The error with episodes and steps numbered in the whole log, and the file they are in."""
    first_step, before = error.first_step, log.episodes_before(error.first_step)
    message, n_places = re.subn(
        r"\b(E|e)pisode (\d+)", lambda m: f"{m[1]}pisode {int(m[2]) + before}", error.message
    )
    if not n_places:
        message, n_places = re.subn(
            r"\brow (\d+)", lambda m: f"step {int(m[1]) + first_step} of the log", message
        )
    where = log.place(first_step)
    if n_places and where:
        message = f"{message} (In the part of the log that begins with episode {before}, {where}.)"
    return InvalidInputError(message)


def empty(directory: Path) -> EmptyLogError:
    """What to say of a directory without episodes."""
    return EmptyLogError(
        f"`{directory}` must hold at least one complete episode, got none. Episodes are written "
        "when `flush_every` of them are complete, or when the logger is closed."
    )


def _chunk_steps(chunk_steps: int | None, block_steps: int) -> int:
    if chunk_steps is None:
        return _BLOCKS_PER_CHUNK * block_steps
    return check_integer(chunk_steps, "chunk_steps", 1)


def _bytes_per_step(data: Trajectories) -> int:
    observations = data.observations
    arrays = list(observations.values()) if isinstance(observations, dict) else [observations]
    return sum(array[:1].nbytes for array in [*arrays, data.actions])
