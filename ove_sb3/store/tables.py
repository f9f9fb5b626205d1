"""Tables of the index, and the checksums of their rows.

=============  ==================================================================================
``info``       one row: identity of the log, spaces, episodes lost to damage
``schemas``    columns of batches and shards: names, dtypes, shapes
``writers``    one row per writer: metadata, numbers of steps and episodes
``shards``     Parquet files: place in the writer's steps, size, CRC-32 of every block
``batches``    one row per flush that is not in a shard yet: an Arrow IPC stream, see `payloads`
``state``      one row: number of rows of the other tables, and sum of their checksums
=============  ==================================================================================

SQLite does not notice a flipped bit in a page. Therefore every row carries a checksum of its table
and values, and the state row changes in the same transaction as any other.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ove_sb3.errors import StorageError

APPLICATION_ID = 0x4F564553
VERSION = 3
_MODULUS = 1 << 128


class Info(NamedTuple):
    """Identity and spaces of the log, as JSON."""

    id: int
    value: str


class SchemaRow(NamedTuple):
    """Columns of batches and shards, as JSON."""

    id: int
    columns: str


class WriterRow(NamedTuple):
    """A writer; `metadata` is JSON."""

    id: int
    name: str
    steps: int
    episodes: int
    metadata: str


class ShardRow(NamedTuple):
    """A Parquet file; `blocks` are CRC-32 checksums, 4 bytes each, little-endian."""

    id: int
    writer: int
    first_step: int
    steps: int
    episodes: int
    schema: int
    name: str
    size: int
    blocks: bytes


class BatchRow(NamedTuple):
    """A flush; `raw_size` is the size of the payload once decompressed."""

    id: int
    writer: int
    first_step: int
    steps: int
    episodes: int
    schema: int
    codec: str
    raw_size: int
    size: int
    crc: int


class StateRow(NamedTuple):
    """Number of rows of the other tables, and sum of their checksums, hexadecimal."""

    id: int
    n_rows: int
    digest: str


Row = Info | SchemaRow | WriterRow | ShardRow | BatchRow | StateRow
R = TypeVar("R", Info, SchemaRow, WriterRow, ShardRow, BatchRow, StateRow)
TABLES: dict[type[Any], str] = {
    Info: "info",
    SchemaRow: "schemas",
    WriterRow: "writers",
    ShardRow: "shards",
    BatchRow: "batches",
    StateRow: "state",
}
_SQL_TYPES = {"int": "INTEGER", "str": "TEXT", "bytes": "BLOB"}
_PYTHON_TYPES = {"int": int, "str": str, "bytes": bytes}


def _create(kind: type[Any]) -> str:
    columns = [
        f"{name} {_SQL_TYPES[annotation]}{' PRIMARY KEY' if name == 'id' else ' NOT NULL'}"
        for name, annotation in _annotations(kind).items()
    ]
    columns.append("checksum TEXT NOT NULL")
    if kind is BatchRow:
        columns.append("payload BLOB NOT NULL")
    return f"CREATE TABLE {TABLES[kind]} ({', '.join(columns)})"


def _annotations(kind: type[Any]) -> dict[str, str]:
    return {
        name: str(getattr(hint, "__forward_arg__", hint))
        for name, hint in kind.__annotations__.items()
    }


CREATE = {TABLES[kind]: _create(kind) for kind in TABLES}
"""Statement that creates each table, as SQLite keeps it."""


def checksum(row: Row) -> str:
    """BLAKE2b of the table's name and the row's values, 32 hexadecimal digits."""
    values = [value.hex() if isinstance(value, bytes) else value for value in row]
    text = json.dumps([TABLES[type(row)], *values], separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def check_row(kind: type[R], values: tuple[Any, ...], path: Path) -> R:
    """Row from the values of its columns and its checksum."""
    names = _annotations(kind)
    fits = len(values) == len(names) + 1 and all(
        type(value) is _PYTHON_TYPES[hint]
        for value, hint in zip(values, names.values(), strict=False)
    )
    if fits:
        row = kind(*values[:-1])
        if checksum(row) == values[-1]:
            return row
    key = values[0] if values and type(values[0]) is int else None
    raise damaged(
        path, f"row {key} of the table {TABLES[kind]} does not match its checksum", row=key
    )


def add_digests(digest: str, added: str = "0", removed: str = "0") -> str:
    """Sum of checksums after a row was added and another removed."""
    try:
        total = int(digest, 16) + int(added, 16) - int(removed, 16)
    except ValueError:
        total = 0
    return f"{total % _MODULUS:032x}"


def damaged(path: Path, what: str, *, row: int | None = None) -> StorageError:
    """Error about a file that is not what was written."""
    return StorageError(
        f"`{path}` must be as it was written, but {what}. The file was damaged or changed: restore "
        "it from a copy, or see what can be saved with `ove-sb3 inspect --verify` and `ove-sb3 "
        "repair`.",
        row=row,
        path=path,
    )
