"""Rows of data files, a part at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ove_sb3.errors import StorageError

from . import files
from .columns import Arrays, to_arrays
from .segments import Segment, read_segment

Columns = Mapping[str, np.dtype[Any]]


@dataclass(frozen=True)
class Source:
    """A data file as it was when the log was opened.

    Attributes
    ----------
    file : Path
    first : int
        Index in the log of the file's first step.
    n_steps : int
    segments : tuple of Segment
        Segments of a file that was still being written; empty for Parquet.
    """

    file: Path
    first: int
    n_steps: int
    segments: tuple[Segment, ...] = ()

    @property
    def last(self) -> int:
        """Index in the log of the step after the file's last."""
        return self.first + self.n_steps

    def rows(self, columns: Columns, begin: int, end: int, batch: int) -> Iterator[Arrays]:
        """The steps of the file from `begin` to `end`, in the order of logging."""
        last = 0
        for table in self._tables(list(columns), begin, end, batch):
            arrays = to_arrays(table)
            last = int(arrays["done"][-1]) if len(arrays["done"]) else last
            yield {name: arrays[name].astype(kind, copy=False) for name, kind in columns.items()}
        if end == self.n_steps and last == 0:
            raise StorageError(files.unfinished(self.file))

    def whole(self) -> Iterator[pa.Table]:
        """All columns of all steps."""
        file = self._there()
        if file.suffix == ".segments":
            for segment in self.segments:
                yield read_segment(file, segment)
            return
        try:
            table = pq.read_table(file, page_checksum_verification=True, memory_map=True)
        except FileNotFoundError as error:
            raise StorageError(files.vanished(file)) from error
        except (pa.ArrowException, OSError) as error:
            raise StorageError(files.damaged(file, error)) from error
        self._check(file, table.num_rows)
        yield table.slice(0, self.n_steps)

    def _tables(self, names: list[str], begin: int, end: int, batch: int) -> Iterator[pa.Table]:
        file = self._there()
        if file.suffix == ".parquet":
            yield from self._parquet(file, names, begin, end, batch)
            return
        at = 0
        for segment in self.segments:
            first, last = max(begin - at, 0), min(end - at, segment.n_steps)
            if first < last:
                yield read_segment(file, segment).select(names).slice(first, last - first)
            at += segment.n_steps

    def _parquet(
        self, file: Path, names: list[str], begin: int, end: int, batch: int
    ) -> Iterator[pa.Table]:
        reader = files.open_parquet(file)
        self._check(file, reader.metadata.num_rows)
        sizes = [reader.metadata.row_group(i).num_rows for i in range(reader.num_row_groups)]
        ends = np.cumsum(sizes)
        groups = [i for i, stop in enumerate(ends) if stop > begin and stop - sizes[i] < end]
        fields = pa.schema([reader.schema_arrow.field(name) for name in names])
        at = int(ends[groups[0]]) - sizes[groups[0]]
        try:
            for part in reader.iter_batches(
                batch, row_groups=groups, columns=names, use_threads=False
            ):
                first, last = max(begin - at, 0), min(end - at, part.num_rows)
                if first < last:
                    table = pa.Table.from_batches([part]).select(names).cast(fields)
                    yield table.slice(first, last - first)
                at += part.num_rows
        except (pa.ArrowException, OSError) as error:
            raise StorageError(files.damaged(file, error)) from error

    def _there(self) -> Path:
        """The file, or the Parquet file that its writer has turned it into since."""
        if self.segments and not self.file.exists():
            finished = self.file.with_suffix(".parquet")
            if finished.exists():
                return finished
            raise StorageError(files.vanished(self.file))
        return self.file

    def _check(self, file: Path, n_steps: int) -> None:
        grown = bool(self.segments) and n_steps > self.n_steps  # written on, then finished
        if n_steps != self.n_steps and not grown:
            raise StorageError(files.changed(file))


def cut_rows(arrays: Arrays, rows: slice) -> Arrays:
    """Some rows of all columns."""
    return {name: values[rows] for name, values in arrays.items()}


def join(parts: Sequence[Arrays]) -> Arrays:
    """The rows of all parts, in order; no copy of a single one."""
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
