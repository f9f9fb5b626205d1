"""Logs that are opened, not loaded: what they say of themselves, and what is noticed as missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ove_sb3 as ove
from ove_sb3.data.writer import EpisodeWriter, compact
from ove_sb3.store import files
from ove_sb3.store import writer as storage

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
    pq.write_table(
        table.set_column(at, table.schema.field(name), pa.array(values)),
        file,
        write_page_checksum=True,
    )


@pytest.mark.parametrize("kind", ["vector", "image", "dict", "scalar"])
def test_an_open_log_is_the_log(tmp_path: Path, kind: str) -> None:
    data = some(20, kind=kind, env_id="Test-v0")
    write(tmp_path, data[:9], data[9:])
    log = ove.open_log(tmp_path, chunk_steps=7)
    assert (len(log), log.n_steps, log.metadata) == (20, data.n_steps, data.metadata)
    assert repr(log) == (f"Log: {data.n_steps} steps of Test-v0 in 2 files of {tmp_path}")
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
        with pytest.raises(ove.StorageError, match=f"{second.name}.*must stay as it was"):
            read()
    second.unlink()
    for read in (log.load, lambda: list(log.chunks())):
        with pytest.raises(ove.StorageError, match=f"{second.name}.*must be there"):
            read()
    second.write_bytes(kept)
    same(log.load(), data)


def test_an_open_file_that_vanishes_is_named(tmp_path: Path) -> None:
    writer = EpisodeWriter(tmp_path, ove.Metadata(), flush_every=1)
    writer.add(some(5))
    log = ove.open_log(tmp_path)
    (file,) = tmp_path.glob("*.segments")
    file.unlink()
    with pytest.raises(ove.StorageError, match=f"{file.name}.*must be there"):
        list(log.chunks())


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
    for read in (ove.open_log, ove.Trajectories.load, compact):
        with pytest.raises(ove.StorageError, match=rf"{second.name}.*of 10 episodes \(1 of 3"):
            read(tmp_path)
    lines = (tmp_path / files.RECORD).read_text().splitlines()
    kept = [line for line in lines if second.name not in line]
    (tmp_path / files.RECORD).write_text("\n".join(kept) + "\n")
    same(ove.Trajectories.load(tmp_path), ove.Trajectories.concat([data[:10], data[20:]]))
    third.unlink()
    data.save(tmp_path, overwrite=True)  # nothing is missed that was to be replaced
    same(ove.Trajectories.load(tmp_path), data)
    data[:4].save(tmp_path, overwrite=True)
    same(ove.Trajectories.load(tmp_path), data[:4])
    assert len(ove.open_log(tmp_path)) == 4


def test_logs_without_a_record_are_read_and_get_one(tmp_path: Path) -> None:
    data = some(30)
    write(tmp_path, data[:10], data[10:])
    (tmp_path / files.RECORD).unlink()
    log = ove.open_log(tmp_path)
    assert len(log) == 30
    same(log.load(), data)
    assert compact(tmp_path) == 0
    assert [entry.n_episodes for entry in files.recorded(tmp_path).values()] == [10, 20]
    shards(tmp_path)[0].unlink()
    with pytest.raises(ove.StorageError, match="must be there"):
        ove.open_log(tmp_path)


def test_half_a_line_of_a_killed_process_harms_nothing(tmp_path: Path) -> None:
    data = some(30)
    write(tmp_path, data[:10])
    whole = (tmp_path / files.RECORD).read_bytes()
    for cut in range(0, len(whole), 7):
        (tmp_path / files.RECORD).write_bytes(whole[:cut])
        assert len(ove.open_log(tmp_path)) == 10
    (tmp_path / files.RECORD).write_bytes(whole[: len(whole) // 2])
    write(tmp_path, data[10:])
    assert [entry.n_episodes for entry in files.recorded(tmp_path).values()] == [20]
    same(ove.Trajectories.load(tmp_path), data)


def test_a_shard_that_is_not_what_was_recorded_is_named(tmp_path: Path) -> None:
    data = some(30)
    first, second = write(tmp_path, data[:10], data[10:])
    first.write_bytes(second.read_bytes())
    with pytest.raises(ove.StorageError, match=rf"{first.name}.*shards\.jsonl records, got"):
        ove.open_log(tmp_path)


def test_a_shard_of_another_environment_is_named(tmp_path: Path) -> None:
    one, other = (
        some(
            5, action_space={"type": "Box", "low": -n, "high": n, "shape": [2], "dtype": "float32"}
        )
        for n in (10, 11)
    )
    write(tmp_path / "one", one)
    (stranger,) = write(tmp_path / "other", other)
    target = tmp_path / "one" / stranger.name
    target.write_bytes(stranger.read_bytes())
    with pytest.raises(ove.StorageError, match=rf"{stranger.name}.*action space of manifest"):
        ove.open_log(tmp_path / "one")
    (misfit,) = write(tmp_path / "image", some(5, kind="image"))
    target.unlink()
    (tmp_path / "one" / misfit.name).write_bytes(misfit.read_bytes())
    with pytest.raises(ove.StorageError, match=rf"{misfit.name}.*observation of shape"):
        ove.open_log(tmp_path / "one")


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
