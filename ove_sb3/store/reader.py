"""Reading the rows of a log, one part at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ove_sb3._progress import tracked

from . import messages, payloads
from .columns import Arrays, Schema, schema_from_json, to_arrays
from .index import INDEX, Reading, reading
from .location import Location
from .shards import read_shard
from .tables import BatchRow, SchemaRow, ShardRow, WriterRow, damaged

Columns = Mapping[str, np.dtype[Any]]
_FETCH_BYTES = 1 << 22  # of payloads that are read in one transaction
_ALL = 1 << 17  # rows decoded together when everything is loaded


@dataclass(frozen=True)
class Source:
    """Consecutive steps of a writer as they were when the log was opened.

    Attributes
    ----------
    location : Location
    writer : WriterRow
    first : int
        Index in the log of the first step.
    n_steps, n_episodes : int
    schema : tuple of Column
    shard : ShardRow or None
        Shard that holds them; None if they were in the index.
    batches : tuple of BatchRow
        Rows of the index that held them.
    """

    location: Location
    writer: WriterRow
    first: int
    n_steps: int
    n_episodes: int
    schema: Schema
    shard: ShardRow | None = None
    batches: tuple[BatchRow, ...] = ()

    @property
    def last(self) -> int:
        """Index in the log of the step after the last."""
        return self.first + self.n_steps

    @property
    def file(self) -> Path:
        """Shard, or the index."""
        return self.location.path(INDEX if self.shard is None else self.shard.name)

    def rows(self, columns: Columns, begin: int, end: int, batch: int) -> Iterator[Arrays]:
        """The steps from `begin` to `end`, in the order of logging."""
        last, names = 0, list(columns)
        for arrays in self.read(names, begin, end, batch):
            last = int(arrays["done"][-1])
            yield {name: arrays[name].astype(kind, copy=False) for name, kind in columns.items()}
        if end == self.n_steps and last == 0:
            raise damaged(self.file, "its last episode does not end")

    def whole(self) -> Iterator[Arrays]:
        """All columns of all steps."""
        last = 0
        for arrays in self.read(None, 0, self.n_steps, _ALL):
            last = int(arrays["done"][-1])
            yield arrays
        if last == 0:
            raise damaged(self.file, "its last episode does not end")

    def read(self, names: list[str] | None, begin: int, end: int, batch: int) -> Iterator[Arrays]:
        """Columns of the steps from `begin` to `end`."""
        schema = tuple(c for c in self.schema if names is None or c.name in names)
        for table in self._tables(names, begin, end, batch):
            try:
                arrays = to_arrays(table, schema)
            except (ValueError, TypeError, KeyError) as error:
                raise damaged(self.file, f"a column cannot be decoded: {error}") from error
            yield arrays

    def tables(self) -> Iterator[pa.Table]:
        """All columns of all steps, as Arrow tables."""
        return self._tables(None, 0, self.n_steps, _ALL)

    def _tables(
        self, names: list[str] | None, begin: int, end: int, batch: int
    ) -> Iterator[pa.Table]:
        if self.shard is not None:
            yield from read_shard(
                self.location, self.shard, self.schema, names, (begin, end), batch
            )
            return
        at = 0
        wanted: list[tuple[BatchRow, int, int]] = []
        for row in self.batches:
            first, last = max(begin - at, 0), min(end - at, row.steps)
            if first < last:
                wanted.append((row, first, last))
            at += row.steps
        while wanted:
            contents, replacement = self._fetch([row for row, _, _ in wanted])
            for (row, first, last), content in zip(wanted, contents, strict=False):
                table = payloads.decode(row, content, self.schema, self.file)
                yield (table if names is None else table.select(names)).slice(first, last - first)
            wanted = wanted[len(contents) :]
            if wanted and replacement is not None:
                row, first, last = wanted.pop(0)
                shard, schema = replacement
                offset = row.first_step - shard.first_step
                steps = (offset + first, offset + last)
                yield from read_shard(self.location, shard, schema, names, steps, batch)

    def _fetch(
        self, rows: Sequence[BatchRow]
    ) -> tuple[list[bytes], tuple[ShardRow, Schema] | None]:
        """Payloads of the first rows; also the shard that has replaced the next row, if it has."""
        contents: list[bytes] = []
        size = 0
        with reading(self.location.root) as index:
            for row in rows:
                if index.row(BatchRow, row.id) != row:
                    return contents, self._moved(index, row)
                content = index.payload(row)
                assert content is not None
                contents.append(content)
                size += row.size
                if size >= _FETCH_BYTES:
                    break
        return contents, None

    def _moved(self, index: Reading, row: BatchRow) -> tuple[ShardRow, Schema]:
        writer = index.row(WriterRow, self.writer.id)
        if writer is None or writer.name != self.writer.name:
            raise messages.overwritten(self.location.root)
        where = "writer = ? AND first_step <= ? AND first_step + steps >= ?"
        values = (row.writer, row.first_step, row.first_step + row.steps)
        for shard in index.rows(ShardRow, where, values):
            schema = index.row(SchemaRow, shard.schema)
            if schema is not None:
                return shard, parse_schema(schema, self.file)
        raise messages.overwritten(self.location.root)


def parse_schema(row: SchemaRow, path: Path) -> Schema:
    """Columns of a row of the table of schemas."""
    try:
        return schema_from_json(row.columns)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise damaged(path, f"schema {row.id} is not a list of columns: {error}") from error


def cut_rows(arrays: Arrays, rows: slice) -> Arrays:
    """Some rows of all columns."""
    return {name: values[rows] for name, values in arrays.items()}


def join(parts: Sequence[Arrays]) -> Arrays:
    """Concatenate the rows of all parts; a single part is not copied."""
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def read_all(sources: Sequence[Source], *, progress: bool | None = False) -> Arrays:
    """All rows of the sources, in memory; columns that some sources lack are left out."""
    shared = set.intersection(*({column.name for column in source.schema} for source in sources))
    arrays = {c.name: _room(c.name, sources) for c in sources[0].schema if c.name in shared}
    filled = dict.fromkeys(arrays, 0)
    parts = ((source, part) for source in sources for part in source.whole())
    total = sum(source.n_steps for source in sources)
    for source, part in tracked(parts, progress, total=total, unit="step", size=_size, scale=True):
        for name, values in arrays.items():
            begin, filled[name] = filled[name], filled[name] + len(part[name])
            if values[begin : filled[name]].shape != part[name].shape:
                raise damaged(source.file, f"the entries of {name} are not those of its row")
            values[begin : filled[name]] = part[name]
    for name, values in arrays.items():
        if filled[name] != len(values):
            raise damaged(sources[-1].file, f"entries of {name} are missing")
    return arrays


def _size(read: tuple[Source, Arrays]) -> int:
    return int(read[1]["done"].size)


def _room(name: str, sources: Sequence[Source]) -> NDArray[Any]:
    """Array for a column of all sources; the system provides the memory as it is filled."""
    columns = [next(c for c in source.schema if c.name == name) for source in sources]
    n = sum(source.n_episodes if columns[0].sparse else source.n_steps for source in sources)
    dtype = np.result_type(*(column.dtype for column in columns))
    try:
        return np.empty((n, *columns[0].shape), dtype)
    except (MemoryError, ValueError) as error:
        raise messages.too_large(sources[0].location.root, n * columns[0].width) from error
