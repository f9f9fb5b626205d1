"""Chunks of a log make up the whole log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.data.log import LogLike, MemoryLog, open_log, steps_per_block
from ove_sb3.data.writer import EpisodeWriter

COLUMNS = ("weights", "returns", "pdis", "cdis", "pdis_ones", "cdis_ones", "cdis_cross")


def same_log(log: LogLike, data: ove.Trajectories) -> int:
    """Check that the chunks make up the log; return how many there are."""
    chunks = [chunk for _, chunk in log.part(0, log.n_steps).windows(log.chunk_steps)]
    if isinstance(log, ove.Log):
        assert [len(chunk) for chunk in chunks] == [len(chunk) for chunk in log.chunks()]
    assert log.n_steps == data.n_steps
    for name in ("observations", "actions", "log_probs", "rewards", "lengths", "terminated"):
        joined = np.concatenate([getattr(chunk, name) for chunk in chunks])
        np.testing.assert_array_equal(joined, getattr(data, name))
        assert joined.dtype == getattr(data, name).dtype
    return len(chunks)


@pytest.mark.parametrize("chunk_steps", [1, 7, 100, 10**6])
def test_chunks_make_up_the_log(data: ove.Trajectories, tmp_path: Path, chunk_steps: int) -> None:
    n_chunks = same_log(MemoryLog(data, chunk_steps=chunk_steps), data)
    assert (n_chunks == 1) == (chunk_steps == 10**6)
    data.save(tmp_path)
    assert same_log(open_log(tmp_path, chunk_steps=chunk_steps), data) == n_chunks
    assert open_log(tmp_path).metadata == data.metadata


def test_logs_of_several_files_and_open_ones(data: ove.Trajectories, tmp_path: Path) -> None:
    closed = EpisodeWriter(tmp_path, data.metadata)
    closed.add(data[:200])
    closed.close()
    still_open = EpisodeWriter(tmp_path, data.metadata, flush_every=50)
    for episode in range(200, 600, 25):
        still_open.add(data[episode : episode + 25])
    log = open_log(tmp_path, chunk_steps=300)
    still_open.add(data[:60])  # written after the log was opened, and not part of it
    assert same_log(log, data) > 5
    still_open.close()


def test_two_and_three_episodes(data: ove.Trajectories, tmp_path: Path) -> None:
    for n in (2, 3):
        data[:n].save(tmp_path / str(n))
        assert same_log(MemoryLog(data[:n], chunk_steps=1), data[:n]) == n
        assert same_log(open_log(tmp_path / str(n), chunk_steps=1), data[:n]) == n


def test_damage_is_reported(data: ove.Trajectories, tmp_path: Path) -> None:
    data.save(tmp_path)
    (file,) = tmp_path.glob("*.parquet")
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    file.write_bytes(raw)
    with pytest.raises(ove.StorageError):
        list(open_log(tmp_path).chunks())


def test_large_steps_make_small_blocks() -> None:
    assert steps_per_block(8) == 1 << 18
    assert steps_per_block(100_000) == 1 << 8
    assert 1 << 8 < steps_per_block(28_000) < steps_per_block(1000) < 1 << 18
