"""Writing log directories, safe against crashes at any moment.

A flush is one row of the index. Once a writer has many of them, and when it is closed, they are
turned into a shard: the file is written and synced under a temporary name, then one transaction
gives it its name, adds its row and removes the rows it replaces. Whenever a process ends, every
flushed episode is stored exactly once.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from ove_sb3._progress import progress_bar
from ove_sb3.errors import EmptyLogError, InvalidInputError, StorageError

from . import messages, payloads
from .columns import Schema, count_episodes, schema_to_json
from .directory import Header, Rows
from .index import INDEX, Durability, Writing, create, reading, writing
from .location import Location
from .reader import Source, parse_schema
from .shards import ShardFile, remove_leftovers, remove_shards, write_shard
from .tables import BatchRow, Info, SchemaRow, ShardRow, WriterRow, damaged

SPACES = ("observation_space", "action_space")
_ROLL_ROWS, _ROLL_BYTES = 4096, 1 << 26  # in the index, before they become a shard
_PIECE = 1 << 20  # steps written between two updates of a progress bar
Batch = tuple[pa.RecordBatch, Schema]


class _AlreadyStoredError(Exception):
    """The first steps of a batch are stored: an earlier call failed after that."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps


class BatchWriter:
    """Appends batches of whole episodes to a directory.

    Parameters
    ----------
    directory : Path
        Created if need be. Several writers may share it.
    metadata : dict
        Metadata as plain values.
    durability : {"full", "normal"}
        A flush survives a power loss, or only the end of the process.
    """

    def __init__(self, directory: Path, metadata: Header, durability: Durability) -> None:
        self.directory, self.durability = directory.absolute(), durability
        create(self.directory, {name: metadata.get(name) for name in SPACES})
        self._name = uuid.uuid4().hex
        self._rows = self._bytes = 0  # in the index
        self._offset = 0  # steps of the caller before those of the row of this writer
        with writing(self.directory, durability) as index:
            self._log = index.info()["log"]
            self._id = self._register(index, metadata).id

    def append(self, batch: Batch | None, metadata: Header, after: int) -> None:
        """Write a batch, if any, and the metadata; they are safe once this returns.

        `after` is the number of steps of all earlier batches. If a call fails or is interrupted
        once its batch is stored, a later one with the same `after` does not store it again.
        """
        try:
            self._append(batch, metadata, after)
        except _AlreadyStoredError as stored:
            if batch is not None:
                left = batch[0].slice(stored.steps)
                batch = (left, batch[1]) if left.num_rows else None
            self._append(batch, metadata, after + stored.steps)

    def _append(self, batch: Batch | None, metadata: Header, after: int) -> None:
        columns = None if batch is None else batch[0]
        if batch is not None and batch[0].nbytes > payloads.LARGEST_BATCH:
            self._append_shard(batch, metadata, after)
            return
        payload = None if columns is None else payloads.encode(columns)
        with writing(self.directory, self.durability) as index:
            writer = self._current(index, metadata, after)
            changed = writer._replace(metadata=json.dumps(metadata))
            if batch is not None and payload is not None:
                episodes = count_episodes(batch[0])
                row = BatchRow(
                    index.next_id(BatchRow),
                    writer.id,
                    writer.steps,
                    batch[0].num_rows,
                    episodes,
                    _schema_id(index, batch[1]),
                    payload.codec,
                    payload.raw_size,
                    payload.content.size,
                    payload.crc,
                )
                index.insert(row, payload.content)
                changed = _grown(changed, row)
            if changed != writer:
                index.replace(writer, changed)
        if payload is not None:
            self._rows, self._bytes = self._rows + 1, self._bytes + payload.content.size
            if self._rows >= _ROLL_ROWS or self._bytes >= _ROLL_BYTES:
                self.compact()

    def _append_shard(self, batch: Batch, metadata: Header, after: int) -> None:
        file = write_shard(self.directory, [pa.Table.from_batches([batch[0]])], batch[1])
        with (
            _publishing(self.directory, [file]),
            writing(self.directory, self.durability) as index,
        ):
            writer = self._current(index, metadata, after)
            row = _add_shard(index, file, writer.id, writer.steps, _schema_id(index, batch[1]))
            changed = writer._replace(metadata=json.dumps(metadata))
            index.replace(writer, _grown(changed, row))

    def compact(self) -> None:
        """Turn the rows of this writer into a shard."""
        self._rows = self._bytes = 0
        _compact(self.directory, self._id, self._name)

    def close(self, *, compact: bool) -> None:
        """Turn the rows into a shard, if `compact`; forget a writer that wrote nothing."""
        with reading(self.directory) as index:
            row = index.row(WriterRow, self._id)
        if row is None or row.name != self._name:
            return  # overwritten
        if compact and row.steps:
            self.compact()

    def _current(self, index: Writing, metadata: Header, after: int) -> WriterRow:
        """The row of this writer; a new one if the log was overwritten."""
        if index.info().get("log") != self._log:
            raise damaged(index.path, "it is not the index that this writer began with")
        row = index.row(WriterRow, self._id)
        if row is None or row.name != self._name:
            self._name = uuid.uuid4().hex
            row = self._register(index, metadata)
            self._id, self._rows, self._bytes, self._offset = row.id, 0, 0, after
        if self._offset + row.steps > after:
            raise _AlreadyStoredError(self._offset + row.steps - after)
        return row

    def _register(self, index: Writing, metadata: Header) -> WriterRow:
        _check_spaces(index, metadata)
        row = WriterRow(index.next_id(WriterRow), self._name, 0, 0, json.dumps(metadata))
        index.insert(row)
        return row


def write_log(
    batch: Batch,
    metadata: Header,
    directory: Path,
    *,
    overwrite: bool = False,
    durability: Durability = "full",
    progress: bool | None = False,
) -> None:
    """Write one batch as the only shard of a directory."""
    directory = directory.absolute()
    spaces = {name: metadata.get(name) for name in SPACES}
    create(directory, spaces)
    if not overwrite:
        _refuse_episodes(directory)
    with closing(progress_bar(progress, total=batch[0].num_rows, unit="step", scale=True)) as bar:
        file = write_shard(directory, _counted(_pieces(batch[0]), bar.update), batch[1])
    with _publishing(directory, [file]):
        with writing(directory, durability) as index:
            if not overwrite and any(map(_has_begun, index.rows(WriterRow))):
                raise _occupied(directory)
            log = index.info()["log"]
            old = {name for (name,) in index.connection.execute("SELECT name FROM shards")}
            index.clear()
            index.insert(Info(1, json.dumps({"log": log, **spaces})))
            name, text = uuid.uuid4().hex, json.dumps(metadata)
            index.insert(WriterRow(1, name, file.steps, file.episodes, text))
            _add_shard(index, file, 1, 0, _schema_id(index, batch[1]))
        remove_shards(directory, old)


def agree_on_plan(directory: Path, plan: Header) -> Header:
    """Plan in the index of a collection that may have begun earlier; `plan` if there is none."""
    directory = directory.absolute()
    create(directory, dict.fromkeys(SPACES))
    with writing(directory) as index:
        info = index.info()
        if "plan" in info:
            return dict(info["plan"])
        if any(map(_has_begun, index.rows(WriterRow))):
            raise _occupied(directory)
        index.replace(index.rows(Info)[0], Info(1, json.dumps({**info, "plan": plan})))
    return plan


def amend_plan(directory: Path, **entries: object) -> None:
    """Add entries to the plan in the index of a collection."""
    with writing(directory.absolute()) as index:
        info = index.info()
        if "plan" in info:  # not overwritten meanwhile
            plan = {**info["plan"], **entries}
            index.replace(index.rows(Info)[0], Info(1, json.dumps({**info, "plan": plan})))


def has_episodes(directory: Path) -> bool:
    """Whether a directory holds episodes, or the remains of a log."""
    if not (directory / INDEX).exists():
        messages.refuse_leftovers(directory, directory / INDEX)
        return False
    try:
        with reading(directory) as index:
            return any(map(_has_begun, index.rows(WriterRow)))
    except EmptyLogError:
        return False


def _has_begun(writer: WriterRow) -> bool:
    """Whether a writer has written episodes, or has begun some that count."""
    return writer.steps > 0 or bool(json.loads(writer.metadata).get("begun"))


def compact_directory(directory: Path, *, progress: bool | None = False) -> int:
    """Turn all rows of the index into shards; return the number of writers that had any.

    Writers may go on writing. Files left behind by killed processes are removed.
    """
    directory = directory.absolute()
    with reading(directory) as index:
        rows = Rows.read(index)
    writers = [w for w in rows.writers if any(row.writer == w.id for row in rows.batches)]
    total = sum(row.steps for row in rows.batches)
    with closing(progress_bar(progress, total=total, unit="step", scale=True)) as bar:
        for writer in writers:
            _compact(directory, writer.id, writer.name, bar.update)
    with writing(directory) as index:
        remove_leftovers(directory, {row.name for row in index.rows(ShardRow)})
    return len(writers)


def _compact(
    directory: Path,
    writer_id: int,
    name: str,
    advance: Callable[[int], object] = lambda n_steps: None,
) -> None:
    """Replace the rows of a writer by shards; `advance` is told the number of steps written."""
    with reading(directory) as index:
        writer = index.row(WriterRow, writer_id)
        rows = index.rows(BatchRow, "writer = ?", (writer_id,))
        schemas = {row.id: parse_schema(row, index.path) for row in index.rows(SchemaRow)}
    if writer is None or writer.name != name:
        return
    runs = _runs(rows)
    files: list[ShardFile] = []
    with _publishing(directory, files):
        for run in runs:
            steps, schema = sum(row.steps for row in run), schemas[run[0].schema]
            source = Source(Location(directory), writer, 0, steps, 0, schema, batches=tuple(run))
            files.append(write_shard(directory, _counted(source.tables(), advance), schema))
        with writing(directory) as index:
            there = {row.id: row for row in index.rows(BatchRow, "writer = ?", (writer_id,))}
            if any(there.get(row.id) != row for row in rows):
                raise _Beaten
            for run, file in zip(runs, files, strict=True):
                for row in run:
                    index.delete(row)
                _add_shard(index, file, writer_id, run[0].first_step, run[0].schema)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.Table]:
    """A batch in parts, no copy."""
    for first in range(0, batch.num_rows, _PIECE):
        yield pa.Table.from_batches([batch.slice(first, _PIECE)])


def _counted(tables: Iterable[pa.Table], advance: Callable[[int], object]) -> Iterator[pa.Table]:
    for table in tables:
        yield table
        advance(table.num_rows)


def _runs(rows: Sequence[BatchRow]) -> list[list[BatchRow]]:
    """Rows that can share a shard: consecutive, with the same columns."""
    runs: list[list[BatchRow]] = []
    for row in sorted(rows, key=lambda row: row.first_step):
        last = runs[-1][-1] if runs else None
        if last and (last.schema, last.first_step + last.steps) == (row.schema, row.first_step):
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs


class _Beaten(Exception):  # noqa: N818
    """Another process has compacted or overwritten the same rows first."""


@contextmanager
def _publishing(directory: Path, files: Sequence[ShardFile]) -> Iterator[None]:
    """Remove files that did not make it into the index."""
    try:
        yield
    except BaseException as error:
        for file in files:
            file.temporary.unlink(missing_ok=True)
        with suppress(StorageError):
            with reading(directory) as index:
                listed = {row.name for row in index.rows(ShardRow)}
            remove_shards(directory, {file.name for file in files} - listed)
        if not isinstance(error, _Beaten):
            raise


def _add_shard(
    index: Writing, file: ShardFile, writer: int, first_step: int, schema: int
) -> ShardRow:
    key = index.next_id(ShardRow)
    row = ShardRow(
        key,
        writer,
        first_step,
        file.steps,
        file.episodes,
        schema,
        file.name,
        file.size,
        file.blocks,
    )
    file.publish()
    index.insert(row)
    return row


def _grown(writer: WriterRow, row: BatchRow | ShardRow) -> WriterRow:
    return writer._replace(steps=writer.steps + row.steps, episodes=writer.episodes + row.episodes)


def _schema_id(index: Writing, schema: Schema) -> int:
    text = schema_to_json(schema)
    for row in index.rows(SchemaRow):
        if row.columns == text:
            return row.id
    row = SchemaRow(index.next_id(SchemaRow), text)
    index.insert(row)
    return row.id


def _check_spaces(index: Writing, metadata: Header) -> None:
    """Refuse another environment; the first writer that knows the spaces sets them."""
    info = index.info()
    for name in SPACES:
        ours, theirs = metadata.get(name), info.get(name)
        if ours is not None and theirs is not None and json.loads(json.dumps(ours)) != theirs:
            raise InvalidInputError(
                f"`path` must hold logs of the same environment, got {index.path.parent} with the "
                f"{name} {theirs}, not {ours}. Choose another directory."
            )
        info[name] = theirs if ours is None else ours
    new = Info(1, json.dumps(info))
    if new.value != index.rows(Info)[0].value:
        index.replace(index.rows(Info)[0], new)


def _refuse_episodes(directory: Path) -> None:
    if has_episodes(directory):
        raise _occupied(directory)


def _occupied(directory: Path) -> InvalidInputError:
    return InvalidInputError(
        f"`path` must not hold a log already, got {directory}. Choose another directory, or pass "
        "overwrite=True."
    )
