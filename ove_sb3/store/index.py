"""Transactions on the SQLite index of a log directory.

Every operation opens a connection of its own and holds it for one short transaction, so that
nothing is shared between processes or after a fork, and readers never keep writers waiting for
long. The journal is a rollback journal: the write-ahead log silently drops everything after a
damaged frame, and cannot be read in a read-only directory.
"""

from __future__ import annotations

import json
import sqlite3
import struct
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from ove_sb3.errors import StorageError

from . import messages
from .tables import (
    APPLICATION_ID,
    CREATE,
    TABLES,
    VERSION,
    BatchRow,
    Info,
    R,
    Row,
    StateRow,
    add_digests,
    check_row,
    checksum,
    damaged,
)

INDEX = "log.sqlite"
PAGE_BYTES = 1 << 14
"""Size of a page: larger ones make payloads cheaper, smaller ones make short logs smaller."""
Durability = Literal["full", "normal"]
_BUSY_SECONDS = 120.0
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
_LARGEST_INDEX = 1 << 36  # bytes; SQLite extends the file to what a damaged journal says
_NAMES = {kind: ", ".join((*kind._fields, "checksum")) for kind in TABLES}


class Reading:
    """Consistent view of the index."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.connection, self.path = connection, path

    def rows(self, kind: type[R], where: str = "1", values: tuple[Any, ...] = ()) -> list[R]:
        """Rows of a table by id, each checked against its checksum."""
        query = f"SELECT {_NAMES[kind]} FROM {TABLES[kind]} WHERE {where} ORDER BY id"
        return [check_row(kind, row, self.path) for row in self.connection.execute(query, values)]

    def row(self, kind: type[R], key: int) -> R | None:
        """One row by its id."""
        rows = self.rows(kind, "id = ?", (key,))
        return rows[0] if rows else None

    def payload(self, row: BatchRow) -> bytes | None:
        """Payload of a batch; None if the row no longer exists."""
        query = "SELECT payload FROM batches WHERE id = ? AND writer = ?"
        size = "SELECT length(payload) FROM batches WHERE id = ? AND writer = ?"
        key = (row.id, row.writer)
        length = self.connection.execute(size, key).fetchone()
        if length is None:
            return None
        if length[0] != row.size:
            raise damaged(self.path, f"the payload of batch {row.id} has a wrong size", row=row.id)
        content = self.connection.execute(query, key).fetchone()[0]
        if not isinstance(content, bytes):
            raise damaged(self.path, f"the payload of batch {row.id} is not a blob", row=row.id)
        return content

    def info(self) -> dict[str, Any]:
        """Identity and spaces of the log."""
        return dict(json.loads(self._single(Info).value))

    def state(self) -> StateRow:
        """Number of rows and sum of their checksums."""
        return self._single(StateRow)

    def _single(self, kind: type[R]) -> R:
        row = self.row(kind, 1)
        if row is None:
            raise damaged(self.path, f"the table {TABLES[kind]} is empty")
        return row

    def check_state(self, rows: list[Row]) -> None:
        """Compare all rows with the state of the index."""
        digest = "0"
        for row in rows:
            digest = add_digests(digest, checksum(row))
        state = self.state()
        if state.n_rows != len(rows) or state.digest != add_digests(digest):
            raise damaged(
                self.path,
                f"it holds {len(rows)} rows, not the {state.n_rows} that were written",
            )


class Writing(Reading):
    """Transaction that changes the index."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        super().__init__(connection, path)
        state = self.state()
        self._count, self._digest = state.n_rows, state.digest

    def insert(self, row: Row, payload: Any = None) -> None:
        """Add a row; `payload` are the bytes of a batch."""
        total = checksum(row)
        values: list[Any] = [*row, total]
        names = _NAMES[type(row)]
        if payload is not None:
            values.append(payload)
            names += ", payload"
        marks = ", ".join("?" * len(values))
        self.connection.execute(
            f"INSERT INTO {TABLES[type(row)]} ({names}) VALUES ({marks})", values
        )
        self._count += 1
        self._digest = add_digests(self._digest, total)

    def replace(self, old: R, new: R) -> None:
        """Change the values of a row."""
        total = checksum(new)
        names = [*new._fields[1:], "checksum"]
        self.connection.execute(
            f"UPDATE {TABLES[type(old)]} SET {', '.join(f'{name} = ?' for name in names)} "
            "WHERE id = ?",
            [*new[1:], total, old.id],
        )
        self._digest = add_digests(self._digest, total, checksum(old))

    def delete(self, row: Row) -> None:
        """Remove a row."""
        self.connection.execute(f"DELETE FROM {TABLES[type(row)]} WHERE id = ?", (row.id,))
        self._count -= 1
        self._digest = add_digests(self._digest, removed=checksum(row))

    def clear(self) -> None:
        """Remove all rows."""
        for table in TABLES.values():
            if table != "state":
                self.connection.execute(f"DELETE FROM {table}")
        self._count, self._digest = 0, add_digests("0")

    def next_id(self, kind: type[Any]) -> int:
        """Id of a new row."""
        query = f"SELECT max(id) FROM {TABLES[kind]}"
        largest = self.connection.execute(query).fetchone()[0]
        return 1 if largest is None else int(largest) + 1

    def store_state(self) -> None:
        """Write the state row."""
        _put_state(self.connection, StateRow(1, self._count, self._digest))


@contextmanager
def reading(directory: Path, shown: Path | None = None) -> Iterator[Reading]:
    """Read the index in one transaction; `shown` is its path in errors, if it is a copy."""
    path = directory / INDEX
    shown = shown or path
    with _guarded(shown), _connect(path, "normal") as connection:
        connection.execute("BEGIN")
        _check_format(connection, shown)
        try:
            yield Reading(connection, shown)
        finally:
            connection.execute("ROLLBACK")


@contextmanager
def writing(directory: Path, durability: Durability = "full") -> Iterator[Writing]:
    """Change the index in one transaction; an exception undoes it."""
    path = directory / INDEX
    with _guarded(path), _locked(path, durability) as connection:
        _check_format(connection, path)
        transaction = Writing(connection, path)
        try:
            yield transaction
            transaction.store_state()
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def create(directory: Path, info: dict[str, Any]) -> None:
    """Create the directory and its index, unless they exist."""
    path = directory / INDEX
    with _guarded(path):
        directory.mkdir(parents=True, exist_ok=True)
        new = not path.exists() or not path.stat().st_size
        if new:
            messages.refuse_leftovers(directory, path)
        with _connect(path, "full", create=True) as connection:
            if new:
                set_layout(connection)
            connection.execute("BEGIN IMMEDIATE")
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                connection.execute("ROLLBACK")  # another writer was first
                return
            fill(connection, {"log": uuid.uuid4().hex, **info})
            connection.execute("COMMIT")


def set_layout(connection: sqlite3.Connection) -> None:
    """Choose page size and vacuuming of a new index, before its tables are created."""
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    connection.execute("PRAGMA auto_vacuum = FULL")


def fill(connection: sqlite3.Connection, info: dict[str, Any]) -> None:
    """Create the tables of a new index."""
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    for statement in CREATE.values():
        connection.execute(statement)
    _put_state(connection, StateRow(1, 0, add_digests("0")))
    transaction = Writing(connection, Path(INDEX))
    transaction.insert(Info(1, json.dumps(info)))
    transaction.store_state()


def _put_state(connection: sqlite3.Connection, state: StateRow) -> None:
    query = f"INSERT OR REPLACE INTO state ({_NAMES[StateRow]}) VALUES (?, ?, ?, ?)"
    connection.execute(query, (*state, checksum(state)))


@contextmanager
def _connect(path: Path, durability: Durability, *, create: bool = False) -> Iterator[Any]:
    if not create and not path.exists():
        raise messages.no_log(path)
    _check_journal(path)
    mode = "rwc" if create else "rw"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        timeout=_BUSY_SECONDS,
    )
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA mmap_size = 0")
        connection.execute("PRAGMA cache_size = -65536")  # no spilling, which syncs once more
        connection.execute(f"PRAGMA synchronous = {durability.upper()}")
        connection.execute("PRAGMA journal_size_limit = 1048576")
        connection.execute("PRAGMA journal_mode = PERSIST")
        yield connection
    finally:
        connection.close()


def _check_journal(path: Path) -> None:
    """Refuse a journal that would make the index enormous when it is rolled back."""
    journal = path.with_name(f"{path.name}-journal")
    try:
        with journal.open("rb") as file:
            header = file.read(28)
    except FileNotFoundError:
        return
    if header[:8] == _JOURNAL_MAGIC and len(header) == 28:
        n_pages, _, page_size = struct.unpack(">III", header[16:])
        if n_pages * page_size > _LARGEST_INDEX:
            raise damaged(journal, f"it declares an index of {n_pages * page_size} bytes")


@contextmanager
def _locked(path: Path, durability: Durability) -> Iterator[sqlite3.Connection]:
    """Connection that holds the write lock of the file that is at `path` now."""
    while True:
        before = path.stat().st_ino if path.exists() else None
        with _connect(path, durability) as connection:
            connection.execute("BEGIN IMMEDIATE")
            if path.exists() and path.stat().st_ino == before:
                yield connection
                return
            connection.execute("ROLLBACK")  # replaced by a repair while this one waited


def _check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse an index that this version did not write, before using any of its contents."""
    tables = dict(connection.execute("SELECT name, sql FROM sqlite_master").fetchall())
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if not tables and application == 0 and version == 0:
        raise messages.empty(path.parent)
    if application != APPLICATION_ID:
        raise StorageError(
            f"`{path}` must be the index of a log of ove_sb3, but it is another database. Check "
            "the path.",
            path=path,
        )
    if version != VERSION:
        raise StorageError(
            f"`{path}` must have version {VERSION} of the format, got {version}. Read it with the "
            "version of ove_sb3 that wrote it.",
            path=path,
        )
    if tables != CREATE:
        raise damaged(path, "its tables are not those of a log")


@contextmanager
def _guarded(path: Path) -> Iterator[None]:
    """Translate errors of SQLite into `StorageError`, with the file and a remedy."""
    try:
        yield
    except sqlite3.Error as error:
        raise messages.from_sqlite(path, error) from error
    except (MemoryError, OverflowError, UnicodeError, json.JSONDecodeError) as error:
        raise damaged(path, f"reading it gives {type(error).__name__}: {error}") from error
    except StorageError:
        raise
    except OSError as error:
        raise messages.from_os(path, error) from error


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Connection that holds the write lock without changing anything."""
    with _guarded(path), _locked(path, "full") as connection:
        _check_format(connection, path)
        yield connection


def raw_rows(
    connection: sqlite3.Connection, kind: type[Any], *, descending: bool
) -> Iterator[tuple[Any, ...]]:
    """Values of the rows of a table that may be damaged, as far as they can be read."""
    order = "DESC" if descending else "ASC"
    try:
        yield from connection.execute(
            f"SELECT {_NAMES[kind]} FROM {TABLES[kind]} ORDER BY id {order}"
        )
    except (sqlite3.Error, MemoryError, UnicodeError, OverflowError):
        return


def check_durability(durability: object) -> Durability:
    """Return `durability` if it is valid."""
    if durability == "full":
        return "full"
    if durability == "normal":
        return "normal"
    raise messages.bad_durability(durability)
