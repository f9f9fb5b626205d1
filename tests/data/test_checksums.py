"""Each checksum on its own: damage that only it detects, and forged values."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ove_sb3 as ove
from ove_sb3.data.writer import EpisodeWriter
from ove_sb3.store import shards
from ove_sb3.store.index import INDEX, reading, writing
from ove_sb3.store.tables import (
    TABLES,
    BatchRow,
    SchemaRow,
    ShardRow,
    StateRow,
    WriterRow,
    check_row,
)

from .test_storage import same, some


def write(path: Path) -> None:
    """A log with a shard and two rows in the index."""
    data = some(12)
    with EpisodeWriter(path, data.metadata) as writer:
        writer.add(data[:6])
    writer = EpisodeWriter(path, data.metadata, flush_every=3)
    writer.add(data[6:9])
    writer.add(data[9:])


def change(path: Path, statement: str) -> None:
    """Change a row without updating its checksum."""
    connection = sqlite3.connect(path / INDEX)
    with connection:
        assert connection.execute(statement).rowcount == 1
    connection.close()


@pytest.mark.parametrize(
    ("table", "statement"),
    [
        ("writers", "UPDATE writers SET metadata = replace(metadata, 'false', 'true') WHERE id=1"),
        ("info", "UPDATE info SET value = replace(value, '}', ',\"lost_episodes\":0}')"),
        ("schemas", "UPDATE schemas SET columns = replace(columns, 'reward', 'rewarD')"),
        ("shards", "UPDATE shards SET episodes = episodes - 1"),
        ("batches", "UPDATE batches SET crc = crc + 1 WHERE id = 1"),
        ("batches", "UPDATE batches SET checksum = upper(checksum) WHERE id = 1"),
        ("state", "UPDATE state SET n_rows = n_rows + 0, digest = upper(digest)"),
    ],
)
def test_a_row_is_held_to_its_checksum(tmp_path: Path, table: str, statement: str) -> None:
    """Without the checksum, most of these rows would give other data or another label."""
    write(tmp_path)
    change(tmp_path, statement)
    with pytest.raises(ove.StorageError, match=f"row . of the table {table} does not match"):
        ove.open_log(tmp_path)


@pytest.mark.parametrize("kind", [WriterRow, ShardRow, BatchRow, SchemaRow, StateRow])
def test_every_value_of_a_row_counts(tmp_path: Path, kind: Any) -> None:
    write(tmp_path)
    with reading(tmp_path) as view:
        row = view.rows(kind)[0]
        query = f"SELECT checksum FROM {TABLES[kind]} WHERE id = ?"
        total = view.connection.execute(query, (row.id,)).fetchone()[0]
    assert check_row(kind, (*row, total), tmp_path) == row
    for k, value in enumerate(row):
        other = [*row]
        other[k] = value + type(value)(b"x" if isinstance(value, bytes) else "1")
        with pytest.raises(ove.StorageError, match="does not match its checksum"):
            check_row(kind, (*other, total), tmp_path)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM batches WHERE id = 2",
        "DELETE FROM shards",
        "INSERT INTO schemas SELECT 9, columns, checksum FROM schemas LIMIT 1",
    ],
)
def test_rows_that_come_or_go_are_noticed(tmp_path: Path, statement: str) -> None:
    write(tmp_path)
    change(tmp_path, statement)
    with pytest.raises(ove.StorageError, match=r"log\.sqlite"):
        ove.open_log(tmp_path)


def test_an_earlier_row_with_its_checksum_is_noticed(tmp_path: Path) -> None:
    """A page that was not written would leave this; only the state row reveals it."""
    data = some(6)
    writer = EpisodeWriter(tmp_path, data.metadata, flush_every=3)
    writer.add(data[:3])
    connection = sqlite3.connect(tmp_path / INDEX)
    before = connection.execute("SELECT * FROM writers").fetchone()
    writer.update(ove.Metadata(adaptive=True))
    writer.flush()
    assert ove.open_log(tmp_path).metadata.adaptive
    marks = ", ".join("?" * len(before))
    with connection:
        connection.execute(f"INSERT OR REPLACE INTO writers VALUES ({marks})", before)
    connection.close()
    with pytest.raises(ove.StorageError, match="rows, not the"):
        ove.open_log(tmp_path)


def test_blocks_are_checked_before_parquet_sees_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parquet's own checksums are correct here; they do not cover page headers and the footer."""
    data = some(12)
    data.save(tmp_path)
    (shard,) = tmp_path.glob("part-*")
    whole = shard.read_bytes()
    for at in range(0, len(whole), 41):
        broken = bytearray(whole)
        broken[at] ^= 1
        shard.write_bytes(broken)
        with pytest.raises(ove.StorageError, match="bytes 0 to 65536 are not"):
            ove.Trajectories.load(tmp_path)
    other = some(12, seed=8)
    other.save(tmp_path / "other")
    shard.write_bytes(next((tmp_path / "other").glob("part-*")).read_bytes()[: len(whole)])
    with pytest.raises(ove.StorageError):
        ove.Trajectories.load(tmp_path)
    # The last block of a file of many, which is shorter.
    monkeypatch.setattr(shards, "BLOCK", 512)
    data.save(tmp_path / "blocks")
    (shard,) = (tmp_path / "blocks").glob("part-*")
    whole = shard.read_bytes()
    for k in range(-(-len(whole) // 512)):
        broken = bytearray(whole)
        broken[min(k * 512 + 511, len(whole) - 1)] ^= 128
        shard.write_bytes(broken)
        with pytest.raises(ove.StorageError, match=f"bytes {k * 512} to {k * 512 + 512} are not"):
            ove.Trajectories.load(tmp_path / "blocks")
    shard.write_bytes(whole)
    same(ove.Trajectories.load(tmp_path / "blocks"), data)


def test_a_payload_is_held_to_its_checksum(tmp_path: Path) -> None:
    """A valid payload of the same size in the place of another."""
    data = some(6)
    writer = EpisodeWriter(tmp_path, data.metadata, flush_every=3)
    writer.add(data[:3])
    connection = sqlite3.connect(tmp_path / INDEX)
    content, size = connection.execute("SELECT payload, raw_size FROM batches").fetchone()
    raw = bytearray(pa.decompress(content, size, "lz4", asbytes=True))
    at = bytes(raw).find(data[:3].rewards.tobytes())
    raw[at] ^= 1
    forged = pa.compress(bytes(raw), "lz4", asbytes=True)
    assert at > 0
    assert len(forged) == len(content)
    with connection:
        connection.execute("UPDATE batches SET payload = ?", (forged,))
    connection.close()
    with pytest.raises(ove.StorageError, match="batch 1 does not match its checksum"):
        ove.Trajectories.load(tmp_path)


@pytest.mark.parametrize("steps", [10**6, 10**12, 2**60])
@pytest.mark.parametrize("kind", [ShardRow, BatchRow])
def test_sizes_that_are_made_up_take_no_memory(tmp_path: Path, kind: Any, steps: int) -> None:
    """Numbers of steps with valid checksums, but without data."""
    writer = EpisodeWriter(tmp_path, some(3).metadata)
    writer.add(some(3))
    writer.close(compact=kind is ShardRow)
    with writing(tmp_path) as index:
        (row,) = index.rows(kind)
        (owner,) = index.rows(WriterRow)
        index.replace(row, row._replace(steps=steps))
        index.replace(owner, owner._replace(steps=steps))
    with pytest.raises(ove.StorageError, match=r"memory|columns and steps"):
        ove.Trajectories.load(tmp_path)
    with pytest.raises(ove.StorageError, match="columns and"):
        next(ove.open_log(tmp_path).chunks())


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"raw_size": 1 << 40}, "declares 1099511627776 bytes of lz4"),
        ({"raw_size": 0}, "declares 0 bytes"),
        ({"raw_size": 64}, "cannot be decoded"),
        ({"codec": "zstd"}, "bytes of zstd"),
        ({"steps": 1, "episodes": 1}, "declared columns and steps"),
    ],
)
def test_payloads_that_are_not_as_declared(
    tmp_path: Path, changes: dict[str, Any], match: str
) -> None:
    writer = EpisodeWriter(tmp_path, some(3).metadata, flush_every=1)
    writer.add(some(3))
    with writing(tmp_path) as index:
        (row,), (owner,) = index.rows(BatchRow), index.rows(WriterRow)
        index.replace(row, row._replace(**changes))
        totals = {name: value for name, value in changes.items() if name in owner._fields}
        index.replace(owner, owner._replace(**totals))
    with pytest.raises(ove.StorageError, match=match):
        ove.Trajectories.load(tmp_path)


def test_entries_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """A forged number of episodes with valid checksums."""
    writer = EpisodeWriter(tmp_path, some(3).metadata)
    writer.add(some(3))
    writer.close()
    for episodes in (2, 4):
        with writing(tmp_path) as index:
            (row,), (owner,) = index.rows(ShardRow), index.rows(WriterRow)
            index.replace(row, row._replace(episodes=episodes))
            index.replace(owner, owner._replace(episodes=episodes))
        with pytest.raises(ove.StorageError, match="entries of final_observation"):
            ove.Trajectories.load(tmp_path)
