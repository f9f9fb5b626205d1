"""Verification and repair of a log."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ove_sb3._files import sync
from ove_sb3._progress import tracked
from ove_sb3.errors import LogChangedError, StorageError

from . import payloads
from .columns import Schema, to_arrays
from .directory import Rows
from .index import INDEX, Reading, Writing, fill, locked, raw_rows, reading, set_layout
from .location import Location
from .reader import parse_schema
from .shards import check_shard, is_shard_name, read_shard
from .tables import BatchRow, Info, R, SchemaRow, ShardRow, WriterRow, check_row

_ALL = 1 << 16
Piece = ShardRow | BatchRow


@dataclass
class Verification:
    """Result of reading the whole log.

    Attributes
    ----------
    problems : list of str
        Each damaged row or shard; empty if the log is intact.
    n_episodes : int
        Episodes that can be read.
    lost_episodes : int
        Episodes that cannot be read.
    damaged_shards : list of Path
    """

    problems: list[str] = field(default_factory=list)
    n_episodes: int = 0
    lost_episodes: int = 0
    damaged_shards: list[Path] = field(default_factory=list)


@dataclass
class _Intact:
    """Rows that can be read."""

    info: dict[str, Any]
    schemas: dict[int, SchemaRow]
    writers: list[WriterRow]
    pieces: dict[int, list[Piece]]


def verify(directory: Path, *, progress: bool | None = False) -> Verification:
    """Read the whole log and report each damaged row or shard."""
    with reading(directory) as view:
        return _scan(view, directory, progress)[0]


def repair(directory: Path, *, progress: bool | None = False) -> Verification:
    """Drop the damaged rows and shards that `verify` reports, and nothing else; return its result.

    A new index takes the place of the old one, which is kept as ``damaged-log.sqlite``; shards that
    are damaged are renamed to ``damaged-part-*``.
    """
    directory = directory.absolute()
    path = directory / INDEX
    with locked(path) as connection:
        view = Reading(connection, path)
        report, intact = _scan(view, directory, progress)
        if not report.problems:
            return report
        temporary = directory / f".{INDEX}.{uuid.uuid4().hex[:8]}"
        try:
            _rebuild(temporary, view, intact, report)
            sync(temporary)
            shutil.copyfile(path, directory / f"damaged-{INDEX}")
            os.replace(temporary, path)  # this process holds the write lock of the old one
            sync(directory)
        finally:
            temporary.unlink(missing_ok=True)
    for shard in report.damaged_shards:
        if shard.exists():
            os.replace(shard, shard.with_name(f"damaged-{shard.name}"))
    return report


def _scan(view: Reading, directory: Path, progress: bool | None) -> tuple[Verification, _Intact]:
    report = Verification()
    if not _state_fits(view):
        report.problems.append(f"{view.path}: the rows are not those that were written")
    schemas = {row.id: row for row in _salvage(view, SchemaRow, report)}
    n_problems = len(report.problems)
    infos = _salvage(view, Info, report)
    writers = _salvage(view, WriterRow, report)
    evidence_lost = not infos or len(report.problems) > n_problems
    pieces: dict[int, list[Piece]] = {writer.id: [] for writer in writers}
    rows: list[Piece] = [*_salvage(view, ShardRow, report), *_salvage(view, BatchRow, report)]
    sizes = Location(directory).sizes()
    total = sum(row.episodes for row in rows)
    for row in tracked(rows, progress, total=total, unit="episode", size=_n_episodes, scale=True):
        problem = _problem(view, directory, row, schemas, sizes)
        if problem is None and row.writer in pieces:
            pieces[row.writer].append(row)
            report.n_episodes += row.episodes
            continue
        report.problems.append(
            problem or f"{view.path}: {row.episodes} episodes belong to a writer that is lost"
        )
        if row.writer not in pieces:
            report.lost_episodes += row.episodes
        if isinstance(row, ShardRow) and problem is not None and is_shard_name(row.name):
            report.damaged_shards.append(directory / row.name)
    written = sum(writer.episodes for writer in writers)
    report.lost_episodes += max(written - report.n_episodes, 0)
    if evidence_lost:  # nothing tells which episodes were begun, or lost before
        report.lost_episodes = max(report.lost_episodes, 1)
    info = json.loads(infos[0].value) if infos else {}
    return report, _Intact(info, schemas, writers, pieces)


def _n_episodes(row: Piece) -> int:
    return row.episodes


def _state_fits(view: Reading) -> bool:
    try:
        Rows.read(view)
    except (StorageError, sqlite3.Error, ValueError, MemoryError):
        return False
    return True


def _salvage(view: Reading, kind: type[R], report: Verification) -> list[R]:
    """Rows that match their checksums, wherever the others are."""
    rows: dict[int, R] = {}
    damaged: set[str] = set()
    for descending in (False, True):
        for values in raw_rows(view.connection, kind, descending=descending):
            try:
                row = check_row(kind, values, view.path)
            except StorageError as error:
                damaged.add(str(error).split(", but ")[-1].split(". The file")[0])
            else:
                rows[row.id] = row
    report.problems += [f"{view.path}: {text}" for text in sorted(damaged)]
    return [rows[key] for key in sorted(rows)]


def _problem(
    view: Reading,
    directory: Path,
    row: Piece,
    schemas: dict[int, SchemaRow],
    sizes: Mapping[str, int],
) -> str | None:
    """Description of the damage to a batch or shard; None if all of it can be read."""
    place = f"{directory / row.name}" if isinstance(row, ShardRow) else f"{view.path}"
    try:
        if row.schema not in schemas:
            raise StorageError(f"the columns of {row.episodes} episodes are unknown")
        schema = parse_schema(schemas[row.schema], view.path)
        ends = 0
        for table in _read(view, directory, row, schema, sizes):
            arrays = to_arrays(table, schema)
            ends += int((arrays["done"] != 0).sum())
        if ends != row.episodes:
            raise StorageError(f"it holds {ends} episodes where {row.episodes} were written")
    except (StorageError, sqlite3.Error, ValueError, MemoryError, KeyError, TypeError) as error:
        text = str(error).split(", but ")[-1].split(". The file")[0]
        missing = isinstance(error, LogChangedError)
        text = "the file does not exist" if missing else text
        return f"{place}: {text} ({row.episodes} episodes)"
    return None


def _read(
    view: Reading, directory: Path, row: Piece, schema: Schema, sizes: Mapping[str, int]
) -> Iterator[Any]:
    if isinstance(row, ShardRow):
        location = Location(directory)
        check_shard(location, row, view.path, sizes)
        yield from read_shard(location, row, schema, None, (0, row.steps), _ALL)
        return
    content = view.payload(row)
    if content is None:
        raise StorageError(f"batch {row.id} is missing")
    yield payloads.decode(row, content, schema, view.path)


def _rebuild(path: Path, old: Reading, intact: _Intact, report: Verification) -> None:
    """Write a new index of the rows that can be read."""
    lost = int(intact.info.get("lost_episodes", 0)) + report.lost_episodes
    info = {"log": uuid.uuid4().hex, **intact.info, "lost_episodes": lost}
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        set_layout(connection)
        connection.execute("PRAGMA journal_mode = MEMORY")
        connection.execute("BEGIN IMMEDIATE")
        fill(connection, info)
        new = Writing(connection, path)
        for schema in intact.schemas.values():
            new.insert(schema)
        for writer in intact.writers:
            _copy_writer(new, old, writer, intact.pieces[writer.id])
        new.store_state()
        connection.execute("COMMIT")
    finally:
        connection.close()


def _copy_writer(new: Writing, old: Reading, writer: WriterRow, pieces: list[Piece]) -> None:
    steps = episodes = 0
    for row in sorted(pieces, key=lambda row: row.first_step):
        moved = row._replace(first_step=steps)
        new.insert(moved, old.payload(row) if isinstance(row, BatchRow) else None)
        steps, episodes = steps + row.steps, episodes + row.episodes
    # A new name, so that readers and writers that opened the log before notice the repair.
    name = writer.name if steps == writer.steps else uuid.uuid4().hex
    new.insert(writer._replace(name=name, steps=steps, episodes=episodes))
