"""Logs streamed in chunks, from disk or from memory, without holding all steps at once.

The episodes that begin in steps ``[k b, (k+1) b)`` form a block, where b depends only on the size
of a step. Results computed block by block are therefore the same to the last bit, wherever the log
is and however many processes work on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ove_sb3._escape import html_facts
from ove_sb3._validation import check_integer, local_path
from ove_sb3.errors import InvalidInputError, OveError
from ove_sb3.store.columns import Arrays
from ove_sb3.store.directory import list_sources
from ove_sb3.store.location import Location
from ove_sb3.store.reader import Columns, Source, cut_rows, join, read_all

from .columns import from_columns
from .metadata import Metadata, stored_metadata
from .trajectories import Trajectories

_MOST_STEPS = 1 << 18
_MOST_BYTES = 1 << 23
_FEWEST_STEPS = 1 << 8
_BLOCKS_PER_CHUNK = 4
_SMALLEST_BATCH, _LARGEST_BATCH = 1 << 10, 1 << 18  # rows that are decoded together


class Part(Protocol):
    """Consecutive episodes of a log; it can be sent to another process."""

    def windows(self, width: int) -> Iterator[tuple[int, Trajectories]]:
        """Runs of the episodes that begin in the same `width` steps, and where those begin."""


class LogLike(Protocol):
    """Episodes that can be streamed part by part."""

    metadata: Metadata
    n_steps: int
    block_steps: int
    chunk_steps: int

    def __len__(self) -> int:
        """Number of episodes."""

    def part(self, first: int, last: int) -> Part:
        """The episodes that begin from step `first` on and before step `last`."""

    def episodes_before(self, step: int) -> int:
        """Number of episodes that end before a step."""

    def episode_end(self, step: int) -> int:
        """Index of the first step after the episode that a step belongs to."""

    def file_of(self, step: int) -> Path | None:
        """File that holds a step of the log; None in memory."""


class ChunkError(InvalidInputError):
    """Invalid data in a part of a log that begins at step `first_step`.

    Positions of its cause count from the beginning of that part.
    """

    def __init__(self, cause: OveError, first_step: int = 0) -> None:
        super().__init__(cause.args[0])
        self.cause, self.first_step = cause, first_step

    def in_log(self, log: LogLike) -> OveError:
        """The cause, with positions that count from the beginning of the log."""
        cause, first = self.cause, self.first_step
        episode = None if cause.episode is None else cause.episode + log.episodes_before(first)
        row = None if cause.row is None else cause.row + first
        path = None if episode is None and row is None else log.file_of(first)
        return cause.at(episode=episode, step=cause.step, row=row, path=path)

    def __reduce__(self) -> tuple[Any, ...]:
        return ChunkError, (self.cause, self.first_step)


@dataclass(frozen=True)
class DiskPart:
    """The episodes of a log that begin from step `first` on and before step `last`.

    Small, whatever the size of the log, so that it can be sent to another process.
    """

    sources: tuple[Source, ...]
    columns: Columns
    metadata: Metadata
    first: int
    last: int

    def windows(self, width: int) -> Iterator[tuple[int, Trajectories]]:
        """Runs of episodes, those that begin in the same `width` steps of the log together.

        The runs depend on the lengths of the episodes alone, not on the files nor on the part.
        About one run is held in memory. Comes with the index of each run's first step.
        """
        held: list[Arrays] = []
        position = self.first
        for start, arrays in self._batches(width):
            while arrays["done"].size:
                if not held:
                    position = start
                target = min((position // width + 1) * width, self.last)
                begin = max(target - 1 - start, 0)
                ends = np.flatnonzero(arrays["done"][begin:])
                if not ends.size:
                    held.append(arrays)
                    break
                cut = begin + int(ends[0]) + 1
                held.append(cut_rows(arrays, slice(None, cut)))
                yield position, self._episodes(held, position)
                held, arrays, start = [], cut_rows(arrays, slice(cut, None)), start + cut
                if start >= self.last:
                    return
        if held:
            yield position, self._episodes(held, position)

    def _batches(self, width: int) -> Iterator[tuple[int, Arrays]]:
        """Rows from the first episode of the part on, with the index of their first step."""
        batch = min(max(width, _SMALLEST_BATCH), _LARGEST_BATCH)
        for source in self.sources:
            # Whether an episode begins at step `first` is seen from the step before.
            begin = max(self.first - 1 - source.first, 0)
            within = source.first < self.first
            start = source.first + begin
            for arrays in source.rows(self.columns, begin, source.n_steps, batch):
                if within:
                    ends = np.flatnonzero(arrays["done"])
                    skipped = int(ends[0]) + 1 if ends.size else arrays["done"].size
                    within = not ends.size
                    start += skipped
                    arrays = cut_rows(arrays, slice(skipped, None))
                    if start >= self.last:
                        return
                yield start, arrays
                start += arrays["done"].size

    def _episodes(self, held: Sequence[Arrays], first_step: int) -> Trajectories:
        try:
            return Trajectories(**from_columns(join(held)), metadata=self.metadata)
        except InvalidInputError as error:
            raise ChunkError(error, first_step) from error

    def of(self, first: int, last: int) -> DiskPart:
        """A part of this one."""
        needed = tuple(s for s in self.sources if s.first < last and s.last > first)
        return replace(self, sources=needed, first=first, last=last)


def open_log(
    path: str | PathLike[str], *, chunk_steps: int | None = None, filesystem: Any = None
) -> Log:
    """Open a log directory for streaming.

    Parameters
    ----------
    path : path
        Directory written by a logging wrapper, `collect` or `Trajectories.save`; writers may
        still be adding to it. Episodes written after this call are not part of the log. A URI is
        also accepted.
    chunk_steps : int, optional
        Approximate number of steps of a chunk, as `Log.chunks` yields them and as `evaluate`
        sends them to a process. It changes memory and time, never a result.
    filesystem : pyarrow.fs.FileSystem, optional
        File system of `path`, by default the local one. A URI such as ``"s3://bucket/log"`` names
        it, too. Logs in other file systems must be finished: every writer closed, or compacted.
        Their index is fetched once, their shards are read by ranges of bytes.

    Returns
    -------
    Log
        Accepted wherever Trajectories are: `evaluate`, `compare`.

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
    return Log(path, chunk_steps=chunk_steps, filesystem=filesystem)


def as_log(data: Trajectories | Log | str | PathLike[str]) -> LogLike:
    """Log from trajectories, an opened log or a path."""
    if isinstance(data, Trajectories):
        return MemoryLog(data)
    if isinstance(data, Log):
        return data
    if isinstance(data, (str, PathLike)):
        return Log(data)
    raise InvalidInputError(
        "`data` must be Trajectories, a log opened by open_log, or the path of a log directory, "
        f"got {type(data).__name__}. Use ove.collect, ove.open_log or Trajectories.from_arrays."
    )


class Log:
    """A directory of logged episodes, as it was when it was opened; made by `open_log`.

    Only the names and sizes of the files are held in memory.

    Attributes
    ----------
    path : Path
        The directory, in its file system.
    metadata : Metadata
    n_steps : int
        Number of steps of all episodes together; ``len`` is the number of episodes.
    chunk_steps : int
        About how many steps a chunk has.
    block_steps : int
        Steps that `evaluate` works on at a time; the same for the same data in memory.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        chunk_steps: int | None = None,
        filesystem: Any = None,
    ) -> None:
        location = Location.of(path, filesystem)
        self.path = local_path(path) if location.filesystem is None else location.root
        self._contents = contents = list_sources(location)
        self._sources, self._columns = contents.sources, contents.columns
        self.metadata = stored_metadata(contents.headers, contents.info, contents.n_episodes)
        self.n_steps = self._sources[-1].last
        self.block_steps = steps_per_block(contents.bytes_per_step)
        self.chunk_steps = _chunk_steps(chunk_steps, self.block_steps)

    def __len__(self) -> int:
        return sum(source.n_episodes for source in self._sources)

    @property
    def n_shards(self) -> int:
        """Number of Parquet files."""
        return self._contents.n_shards

    @property
    def writers(self) -> tuple[tuple[str, int], ...]:
        """Names of the writers in the order in which they began, and their episodes."""
        counts: dict[str, int] = {}
        for source in self._sources:
            name = source.writer.name
            counts[name] = counts.get(name, 0) + source.n_episodes
        return tuple(counts.items())

    def __repr__(self) -> str:
        env = f" of {self.metadata.env_id}" if self.metadata.env_id else ""
        adaptive = ", adaptive" if self.metadata.adaptive else ""
        n = self.n_shards
        return (
            f"Log: {self.n_steps} steps{env} in {n} shard{'s' * (n != 1)} of {self.path}{adaptive}"
        )

    def _repr_html_(self) -> str:
        """Content of the log for a notebook."""
        size = {"episodes": len(self), "steps": self.n_steps, "shards": self.n_shards}
        return html_facts(f"Log {self.path}", size | self.metadata.facts)

    def chunks(self) -> Iterator[Trajectories]:
        """All episodes in the order of logging, about `chunk_steps` steps at a time.

        About one chunk is in memory at a time. Final observations are left out, see `load`.
        """
        try:
            for _, chunk in self.part(0, self.n_steps).windows(self.chunk_steps):
                yield chunk
        except ChunkError as error:
            raise error.in_log(self) from error

    def load(self, *, progress: bool | None = None) -> Trajectories:
        """Load the whole log into memory; for `progress` see `evaluate`."""
        columns = read_all(self._sources, progress=progress)
        return Trajectories.from_contents(self._contents, columns)

    def part(self, first: int, last: int) -> DiskPart:
        """The episodes that begin from step `first` on and before step `last`."""
        whole = DiskPart(self._sources, self._columns, self.metadata, 0, self.n_steps)
        return whole.of(first, last)

    def episodes_before(self, step: int) -> int:
        """Number of episodes that end before a step of the log."""
        return sum(
            source.n_episodes if source.last <= step else self._ends(source, step - source.first)
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

    def file_of(self, step: int) -> Path:
        """File that holds a step of the log."""
        return next(source for source in self._sources if step < source.last).file

    def _ends(self, source: Source, end: int) -> int:
        done = {"done": self._columns["done"]}
        rows = source.rows(done, 0, end, _MOST_STEPS)
        return sum(int(np.count_nonzero(arrays["done"])) for arrays in rows)


class MemoryLog:
    """Trajectories in memory, streamed as views."""

    def __init__(self, data: Trajectories, *, chunk_steps: int | None = None) -> None:
        self.data, self.metadata, self.n_steps = data, data.metadata, data.n_steps
        self._starts = data.starts
        self.block_steps = steps_per_block(_bytes_per_step(data))
        self.chunk_steps = _chunk_steps(chunk_steps, self.block_steps)

    def __len__(self) -> int:
        return len(self.data)

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

    def file_of(self, step: int) -> None:
        """None: there is no file."""
        del step


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


def _chunk_steps(chunk_steps: int | None, block_steps: int) -> int:
    if chunk_steps is None:
        return _BLOCKS_PER_CHUNK * block_steps
    return check_integer(chunk_steps, "chunk_steps", 1)


def _bytes_per_step(data: Trajectories) -> int:
    observations = data.observations
    arrays = list(observations.values()) if isinstance(observations, dict) else [observations]
    return sum(array[:1].nbytes for array in [*arrays, data.actions])
