"""Contents of a log directory at the moment it is opened."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ove_sb3.errors import LogChangedError, StorageError

from . import messages
from .columns import Arrays, Schema
from .index import INDEX, Reading, reading
from .location import Location
from .reader import Source, parse_schema, read_all
from .shards import check_shard
from .tables import BatchRow, Info, SchemaRow, ShardRow, WriterRow, damaged

T = TypeVar("T")
_ATTEMPTS = 20
Header = dict[str, Any]
"""Metadata of a log as plain values that JSON can hold, by name."""


@dataclass(frozen=True)
class Contents:
    """Sources of a log and their common properties.

    Attributes
    ----------
    sources : tuple of Source
        Writers in the order in which they began, the steps of each in the order of logging.
    columns : dict of str to dtype
        All columns with an entry per step.
    headers : tuple of dict
        Latest metadata of every writer, as plain values.
    info : dict
        Facts about the whole log, from the index.
    bytes_per_step : int
        Size of an observation and an action together.
    """

    sources: tuple[Source, ...]
    columns: dict[str, np.dtype[Any]]
    headers: tuple[Header, ...]
    info: dict[str, Any]
    bytes_per_step: int

    @property
    def n_episodes(self) -> int:
        """Number of episodes."""
        return sum(source.n_episodes for source in self.sources)

    @property
    def n_shards(self) -> int:
        """Number of Parquet files."""
        return sum(source.shard is not None for source in self.sources)


def list_sources(location: Location) -> Contents:
    """List the contents of the log, checked against the index, without reading steps."""
    return _retry(lambda: _list(location))


def load_all(location: Location, *, progress: bool | None = False) -> tuple[Contents, Arrays]:
    """Load all rows of the log: as before or after a concurrent overwrite, never a mixture."""

    def load() -> tuple[Contents, Arrays]:
        contents = _list(location)
        return contents, read_all(contents.sources, progress=progress)

    return _retry(load)


def _retry(read: Callable[[], T]) -> T:
    """Call `read`, and call it again if the log was overwritten in the meantime."""
    for _ in range(_ATTEMPTS):
        try:
            return read()
        except LogChangedError as error:
            last = error
    raise last


def _list(location: Location) -> Contents:
    path = location.path(INDEX)
    with location.index() as directory, reading(directory, path) as view:
        rows = Rows.read(view)
    if location.filesystem is not None and rows.batches:
        raise messages.unfinished(location.root, sum(row.episodes for row in rows.batches))
    sources: list[Source] = []
    n_steps = 0
    for writer in rows.writers:
        for source in rows.sources(location, writer, n_steps, path):
            sources.append(source)
            n_steps = source.last
    if not sources:
        raise messages.empty(location.root)
    sizes = location.sizes()
    for row in rows.shards:
        check_shard(location, row, path, sizes)
    columns, bytes_per_step = _shared_columns(sources)
    parsed = [(writer.steps, _parse(writer.metadata, path)) for writer in rows.writers]
    # One without steps may have begun episodes, which count although none of them ended.
    headers = tuple(header for steps, header in parsed if steps or header.get("begun"))
    return Contents(tuple(sources), columns, headers, rows.info, bytes_per_step)


@dataclass(frozen=True)
class Rows:
    """All rows of an index, checked."""

    info: dict[str, Any]
    schemas: dict[int, Schema]
    writers: list[WriterRow]
    shards: list[ShardRow]
    batches: list[BatchRow]

    @classmethod
    def read(cls, view: Reading) -> Rows:
        """Read and check them."""
        infos, schemas = view.rows(Info), view.rows(SchemaRow)
        writers, shards, batches = view.rows(WriterRow), view.rows(ShardRow), view.rows(BatchRow)
        view.check_state([*infos, *schemas, *writers, *shards, *batches])
        parsed = {row.id: parse_schema(row, view.path) for row in schemas}
        return cls(view.info(), parsed, writers, shards, batches)

    def sources(
        self, location: Location, writer: WriterRow, first: int, path: Path
    ) -> list[Source]:
        """Steps of a writer: shards, and runs of batches with the same columns."""
        sources: list[Source] = []
        pieces: list[ShardRow | BatchRow] = [
            *(row for row in self.shards if row.writer == writer.id),
            *(row for row in self.batches if row.writer == writer.id),
        ]
        pieces.sort(key=lambda row: row.first_step)
        steps = episodes = 0
        run: list[BatchRow] = []
        for row in pieces:
            fits = row.first_step == steps and 0 < row.episodes <= row.steps
            if not fits or row.schema not in self.schemas:
                raise damaged(path, f"the steps of writer {writer.id} are not complete")
            steps, episodes = steps + row.steps, episodes + row.episodes
            if isinstance(row, BatchRow) and (not run or run[0].schema == row.schema):
                run.append(row)
                continue
            sources += self._run(location, writer, run)
            run = [row] if isinstance(row, BatchRow) else []
            if isinstance(row, ShardRow):
                schema = self.schemas[row.schema]
                sources.append(Source(location, writer, 0, row.steps, row.episodes, schema, row))
        sources += self._run(location, writer, run)
        if (steps, episodes) != (writer.steps, writer.episodes):
            raise damaged(path, f"the steps of writer {writer.id} are not complete")
        return _numbered(sources, first)

    def _run(self, location: Location, writer: WriterRow, run: list[BatchRow]) -> list[Source]:
        if not run:
            return []
        steps, episodes = sum(row.steps for row in run), sum(row.episodes for row in run)
        schema = self.schemas[run[0].schema]
        return [Source(location, writer, 0, steps, episodes, schema, None, tuple(run))]


def _numbered(sources: list[Source], first: int) -> list[Source]:
    placed = []
    for source in sources:
        placed.append(replace(source, first=first))
        first = placed[-1].last
    return placed


def _parse(text: str, path: Path) -> Header:
    header = json.loads(text)
    if not isinstance(header, dict):
        raise damaged(path, "the metadata of a writer are not a JSON object")
    return header


def _shared_columns(sources: Sequence[Source]) -> tuple[dict[str, np.dtype[Any]], int]:
    """Columns with an entry per step, and the bytes of observation and action together."""
    columns: dict[str, np.dtype[Any]] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    first = sources[0]
    seen: set[Schema] = set()
    partial: set[str] = set()  # per-episode columns that some sources lack
    for source in sources:
        if source.schema in seen:
            continue
        seen.add(source.schema)
        entries = {column.name: column for column in source.schema if not column.sparse}
        differ = set(entries) ^ set(columns) if columns else set()
        partial |= {name for name in differ if name.startswith("episode/")}
        if differ - partial:
            raise StorageError(
                f"`{source.file}` must hold the same columns as {first.file}, but only one of them "
                f"has {sorted(differ - partial)}. They belong to different environments: log each "
                "in a directory of its own.",
                path=source.file,
            )
        for name, column in entries.items():
            if shapes.setdefault(name, column.shape) != column.shape:
                raise StorageError(
                    f"`{source.file}` must have the column {name} of shape {shapes[name]} as "
                    f"{first.file} has, got {column.shape}. They belong to different "
                    "environments: log each in a directory of its own.",
                    path=source.file,
                )
            columns[name] = np.result_type(columns.get(name, column.dtype), column.dtype)
    for name in partial:
        del columns[name]
    size = sum(
        columns[name].itemsize * int(np.prod(shapes[name], dtype=np.int64))
        for name in columns
        if name == "action" or name.split("/")[0] == "observation"
    )
    return columns, size
