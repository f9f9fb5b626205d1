"""Logs read piece by piece, whole episodes at a time, so that memory does not grow with them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ove_sb3.core.errors import InvalidInputError, StorageError

from .metadata import Metadata
from .trajectories import Trajectories

_MOST_STEPS = 1 << 18
_MOST_BYTES = 1 << 26
_FEWEST_STEPS = 1 << 12


class Log(Protocol):
    """Episodes that can be gone through in chunks of at least two."""

    @property
    def metadata(self) -> Metadata:
        """What is known of the whole log."""

    @property
    def n_steps(self) -> int:
        """Number of steps of all episodes together."""

    def chunks(self) -> Iterator[Trajectories]:
        """All episodes, in the order of logging."""


def open_log(data: Trajectories | str | PathLike[str], *, chunk_steps: int | None = None) -> Log:
    """A log in memory, or one on disk that is read as it is gone through.

    Parameters
    ----------
    data : Trajectories or path
    chunk_steps : int, optional
        About how many steps a chunk has; chosen from the size of a step unless given.
    """
    if isinstance(data, Trajectories):
        return MemoryLog(data, chunk_steps)
    if isinstance(data, (str, PathLike)):
        return DiskLog(data, chunk_steps)
    raise InvalidInputError(
        "`data` must be Trajectories or the path of a log directory, got "
        f"{type(data).__name__}. Use ove.collect, Trajectories.load or Trajectories.from_arrays."
    )


class MemoryLog:
    """Trajectories in views of some episodes each."""

    def __init__(self, data: Trajectories, chunk_steps: int | None = None) -> None:
        self.data, self.metadata, self.n_steps = data, data.metadata, data.n_steps
        self._chunk_steps = chunk_steps or steps_per_chunk(_bytes_per_step(data))

    def chunks(self) -> Iterator[Trajectories]:
        """Views of the data, no copies."""
        n, ends = len(self.data), np.cumsum(self.data.lengths)
        first = 0
        while first < n:
            done = ends[first - 1] if first else 0
            last = int(np.searchsorted(ends, done + self._chunk_steps, side="right"))
            last = max(last, first + 2)
            if last > n - 2:  # no chunk of a single episode is left over
                last = n
            yield self.data[first:last]
            first = last


class DiskLog:
    """A directory of logged episodes; what follows the time of opening is not read."""

    def __init__(self, path: str | PathLike[str], chunk_steps: int | None = None) -> None:
        import pyarrow.parquet as pq

        from . import storage
        from .segments import read_segments

        self.path = Path(path)
        storage._read_manifest(self.path)
        self._sources: list[tuple[Path, int]] = []
        headers: list[dict[str, Any]] = []
        self.n_steps, n_bytes = 0, 0
        for file in storage._live_files(self.path):
            n_tables = 0
            if file.suffix == ".parquet":
                whole = pq.read_metadata(file)
                headers.append(storage._header(storage._parquet_schema(file), file))
                self.n_steps += whole.num_rows
                groups = (whole.row_group(i) for i in range(whole.num_row_groups))
                n_bytes += sum(group.total_byte_size for group in groups)
            else:
                for table in read_segments(file):
                    headers.append(storage._header(table.schema, file))
                    self.n_steps += table.num_rows
                    n_bytes += table.nbytes
                    n_tables += 1
            self._sources.append((file, n_tables))
        if not self.n_steps:
            raise StorageError(
                f"`{self.path}` must hold at least one complete episode, got none. Episodes are "
                "written when `flush_every` of them are complete, or when the logger is closed."
            )
        self.metadata = storage._merge(headers)
        self._chunk_steps = chunk_steps or steps_per_chunk(n_bytes / self.n_steps)

    def chunks(self) -> Iterator[Trajectories]:
        """Read on; at most about one chunk is held in memory."""
        from .columns import Arrays, to_trajectories

        held: Arrays | None = None
        for arrays in self._batches():
            held = arrays if held is None else _join(held, arrays, self.path)
            ends = np.flatnonzero(held["done"])
            if held["done"].size >= self._chunk_steps and ends.size >= 4:
                cut = int(ends[-3]) + 1  # two episodes stay back, for the last chunk
                yield to_trajectories({k: v[:cut] for k, v in held.items()}, self.metadata)
                held = {k: v[cut:].copy() for k, v in held.items()}
        if held is not None:
            yield to_trajectories(held, self.metadata)

    def _batches(self) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        from . import storage
        from .columns import to_arrays
        from .segments import read_segments

        for file, n_tables in self._sources:
            last = 0
            if file.suffix == ".parquet":
                try:
                    reader = pq.ParquetFile(file, page_checksum_verification=True)
                    schema = reader.schema_arrow
                    names = [name for name in schema.names if not name.startswith("final_")]
                    for batch in reader.iter_batches(self._chunk_steps, columns=names):
                        table = pa.Table.from_batches([batch]).select(names)
                        fields = pa.schema([schema.field(name) for name in names])
                        arrays = to_arrays(table.cast(fields))
                        last = int(arrays["done"][-1])
                        yield arrays
                except (pa.ArrowException, OSError) as error:
                    raise StorageError(storage._damaged(file, error)) from error
            else:
                for table in islice(read_segments(file), n_tables):
                    names = [name for name in table.column_names if not name.startswith("final_")]
                    arrays = to_arrays(table.select(names))
                    last = int(arrays["done"][-1])
                    yield arrays
            if last == 0:
                raise StorageError(
                    f"`{file}` must hold whole episodes, but its last one does not end. The file "
                    "was changed after it was written: restore it from a copy."
                )


def steps_per_chunk(bytes_per_step: float) -> int:
    """Number of steps that is quick to work on and small in memory."""
    return int(min(_MOST_STEPS, max(_FEWEST_STEPS, _MOST_BYTES / max(bytes_per_step, 1.0))))


def _bytes_per_step(data: Trajectories) -> float:
    observations = data.observations
    arrays = list(observations.values()) if isinstance(observations, dict) else [observations]
    return sum(array.nbytes for array in [*arrays, data.actions]) / max(data.n_steps, 1) + 16.0


def _join(first: Any, second: Any, directory: Path) -> Any:
    if set(first) != set(second):
        raise StorageError(
            f"`{directory}` must hold the same columns in all files, but "
            f"{sorted(set(first) ^ set(second))} are missing in some. They belong to different "
            "environments?"
        )
    return {name: np.concatenate([first[name], second[name]]) for name in first}
