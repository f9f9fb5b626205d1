"""Logs that are opened, not loaded: their properties, and detection of missing parts."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ove_sb3 as ove
from ove_sb3.data.writer import EpisodeWriter
from ove_sb3.store import shards as storage
from ove_sb3.store.index import writing
from ove_sb3.store.tables import ShardRow

from .test_storage import same, some


def shards(path: Path) -> list[Path]:
    return sorted(path.glob("*.parquet"))


def write(path: Path, *parts: ove.Trajectories) -> list[Path]:
    """One shard per part; return their files."""
    for part in parts:
        writer = EpisodeWriter(path, part.metadata)
        writer.add(part)
        writer.close()
    return shards(path)


def change(file: Path, name: str, row: int, value: float) -> None:
    """Write another number into a shard, with valid checksums."""
    table = pq.read_table(file)
    at = table.schema.get_field_index(name)
    values = table.column(name).to_numpy().copy()
    values[row] = value
    changed = table.set_column(at, table.schema.field(name), pa.array(values))
    pq.write_table(changed, file, write_page_checksum=True)
    update_index(file)


def update_index(file: Path) -> None:
    """Make the index agree with a shard that was changed."""
    with writing(file.parent) as index:
        (row,) = index.rows(ShardRow, "name = ?", (file.name,))
        blocks = storage._checksums(file)
        index.replace(row, row._replace(size=file.stat().st_size, blocks=blocks))


@pytest.mark.parametrize("kind", ["vector", "image", "dict", "scalar"])
def test_an_open_log_is_the_log(tmp_path: Path, kind: str) -> None:
    data = some(20, kind=kind, env_id="Test-v0")
    write(tmp_path, data[:9], data[9:])
    log = ove.open_log(tmp_path, chunk_steps=7)
    assert (len(log), log.n_steps, log.metadata) == (20, data.n_steps, data.metadata)
    assert repr(log) == (f"Log: {data.n_steps} steps of Test-v0 in 2 shards of {tmp_path}")
    same(log.load(), data)
    chunks = list(log.chunks())
    assert len(chunks) > 3
    without_final = ove.Trajectories.concat(chunks)
    assert without_final.final_observations is None
    np.testing.assert_array_equal(without_final.rewards, data.rewards)
    opened = ove.open_log(tmp_path, chunk_steps=7)
    assert isinstance(opened, ove.Log)
    assert [len(chunk) for chunk in opened.chunks()] == [len(chunk) for chunk in chunks]


def test_a_log_is_what_it_was_when_it_was_opened(tmp_path: Path) -> None:
    data = some(30)
    writer = EpisodeWriter(tmp_path, data.metadata, flush_every=5)
    writer.add(data[:10])
    log = ove.open_log(tmp_path)
    writer.add(data[10:20])
    assert len(log) == 10
    same(log.load(), data[:10])
    writer.close()  # the file that was open has become a shard with more episodes
    assert len(log) == 10
    same(log.load(), data[:10])
    (chunk,) = log.chunks()
    np.testing.assert_array_equal(chunk.rewards, data[:10].rewards)
    same(ove.open_log(tmp_path).load(), data[:20])


def test_a_shard_that_vanishes_or_changes_after_opening_is_named(tmp_path: Path) -> None:
    data = some(20)
    first, second = write(tmp_path, data[:10], data[10:])
    log = ove.open_log(tmp_path)
    kept = second.read_bytes()
    second.write_bytes(first.read_bytes())
    for read in (log.load, lambda: list(log.chunks())):
        with pytest.raises(ove.StorageError, match=f"{second.name}.*must be as it was written"):
            read()
    second.unlink()
    for read in (log.load, lambda: list(log.chunks())):
        with pytest.raises(ove.StorageError, match=f"{second.name}.*must be there"):
            read()
    second.write_bytes(kept)
    same(log.load(), data)


def test_an_index_that_vanishes_is_named(tmp_path: Path) -> None:
    writer = EpisodeWriter(tmp_path, ove.Metadata(), flush_every=1)
    writer.add(some(5))
    log = ove.open_log(tmp_path)
    (tmp_path / "log.sqlite").unlink()
    for use in (lambda: list(log.chunks()), lambda: writer.add(some(5))):
        with pytest.raises(ove.StorageError, match=r"log\.sqlite"):
            use()


def test_damage_anywhere_is_found_when_going_through(tmp_path: Path) -> None:
    (file,) = write(tmp_path, some(200, kind="scalar"))  # without final observations
    log, whole = ove.open_log(tmp_path, chunk_steps=50), file.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    for at in np.linspace(4, len(whole) - footer - 1, 25).astype(int):
        broken = bytearray(whole)
        broken[at] ^= 0xFF
        file.write_bytes(broken)
        with pytest.raises(ove.StorageError, match=file.name):
            list(log.chunks())


def test_a_shard_that_was_deleted_is_missed(tmp_path: Path) -> None:
    data = some(30)
    _, second, third = write(tmp_path, data[:10], data[10:20], data[20:])
    second.unlink()
    for read in (ove.open_log, ove.Trajectories.load):
        with pytest.raises(ove.StorageError, match=rf"{second.name}.*of 10 episodes"):
            read(tmp_path)
    third.unlink()
    data.save(tmp_path, overwrite=True)  # what is replaced need not be complete
    same(ove.Trajectories.load(tmp_path), data)
    data[:4].save(tmp_path, overwrite=True)
    same(ove.Trajectories.load(tmp_path), data[:4])
    assert len(ove.open_log(tmp_path)) == 4
    assert len(shards(tmp_path)) == 1


def test_a_shard_that_is_not_what_was_written_is_named(tmp_path: Path) -> None:
    data = some(30)
    first, second = write(tmp_path, data[:10], data[10:])
    first.write_bytes(second.read_bytes())
    with pytest.raises(ove.StorageError, match=rf"{first.name}.*bytes where"):
        ove.open_log(tmp_path)


def test_shards_of_another_environment_are_named(tmp_path: Path) -> None:
    write(tmp_path, some(5), some(5, kind="image"))
    with pytest.raises(ove.StorageError, match="observation of shape"):
        ove.open_log(tmp_path)


def test_bad_numbers_are_placed_in_the_whole_log(tmp_path: Path) -> None:
    data = some(40)
    _, second = write(tmp_path, data[:15], data[15:])
    row = int(data[15:30].n_steps)  # the first step of episode 30
    change(second, "reward", row, np.nan)
    log = ove.open_log(tmp_path, chunk_steps=5)
    with pytest.raises(ove.InvalidInputError, match=rf"nan at episode 30, step 0.*{second.name}"):
        list(log.chunks())
    with pytest.raises(ove.InvalidInputError, match="nan at episode 30, step 0"):
        log.load()


def test_shards_are_written_and_read_in_bounded_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "_GROUP_STEPS", 16)
    data = some(60)
    (whole,) = write(tmp_path / "saved", data)
    writer = EpisodeWriter(tmp_path / "logged", data.metadata, flush_every=2)
    monkeypatch.setattr(storage, "_GROUP_BYTES", 2000)
    for episode in data:
        writer.add(episode)
    writer.close()
    for path in (whole, *shards(tmp_path / "logged")):
        groups = pq.ParquetFile(path).metadata
        sizes = [groups.row_group(k).num_rows for k in range(groups.num_row_groups)]
        assert max(sizes) <= 16
        assert sum(sizes) == data.n_steps
    same(ove.Trajectories.load(tmp_path / "logged"), data)
    log = ove.open_log(tmp_path / "logged", chunk_steps=11)
    joined = ove.Trajectories.concat(list(log.chunks()))
    np.testing.assert_array_equal(joined.rewards, data.rewards)


def test_shards_with_other_dtypes_are_joined_as_in_memory(tmp_path: Path) -> None:
    data = some(20)
    parts = [
        ove.Trajectories.from_arrays(
            observations=np.asarray(part.observations).astype(kind),
            actions=part.actions,
            log_probs=part.log_probs,
            rewards=part.rewards,
            lengths=part.lengths,
        )
        for part, kind in ((data[:10], np.float32), (data[10:], np.float64))
    ]
    write(tmp_path, *parts)
    log = ove.open_log(tmp_path, chunk_steps=5)
    loaded = log.load()
    assert np.asarray(loaded.observations).dtype == np.float64
    assert {np.asarray(chunk.observations).dtype for chunk in log.chunks()} == {np.dtype("f8")}


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(ove.InvalidInputError, match="`path` must be the path"):
        ove.open_log(some(3))  # type: ignore[arg-type]
    some(3).save(tmp_path)
    with pytest.raises(ove.InvalidInputError, match="`chunk_steps` must be"):
        ove.open_log(tmp_path, chunk_steps=0)


def test_a_part_is_a_path_and_a_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickled part is small, and another process reads only the bytes of its range."""
    rng = np.random.default_rng(0)
    n = 400_000
    data = ove.Trajectories.from_arrays(
        observations=rng.normal(size=(n, 4)),
        actions=rng.integers(2, size=n),
        log_probs=np.full(n, -0.7),
        rewards=rng.normal(size=n),
        lengths=np.full(n // 100, 100),
    )
    data.save(tmp_path)
    (file,) = shards(tmp_path)
    content = pickle.dumps(ove.open_log(tmp_path).part(150_000, 200_000))
    assert file.name.encode() in content
    assert len(content) < file.stat().st_size / 1000
    seen: list[tuple[int, int]] = []
    read_at = storage.CheckedFile._read_at

    def spy(self: Any, begin: int, end: int) -> memoryview:
        seen.append((begin, end))
        return read_at(self, begin, end)

    monkeypatch.setattr(storage.CheckedFile, "_read_at", spy)
    part = pickle.loads(content)
    rows = ove.Trajectories.concat([chunk for _, chunk in part.windows(10_000)])
    same(rows, data[1500:2000])
    assert sum(end - begin for begin, end in seen) < file.stat().st_size / 2
    assert {end for _, end in seen} > {file.stat().st_size}  # the footer, and the row group
