"""Compaction while other processes compact, overwrite or write."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ove_sb3 as ove
from ove_sb3.data.writer import EpisodeWriter, compact
from ove_sb3.store.shards import write_shard
from ove_sb3.store.verify import verify

from .test_storage import same, some

DATA = some(12)
OTHERS: dict[str, Callable[[Path, EpisodeWriter], object]] = {
    "compacts": lambda path, _: compact(path),
    "overwrites": lambda path, _: some(5, seed=4).save(path, overwrite=True),
    "writes": lambda _, writer: writer.add(DATA[9:]),
}


@pytest.mark.parametrize("other", sorted(OTHERS))
def test_another_process_is_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """The other process acts between writing the shard and the transaction that names it."""
    writer = EpisodeWriter(tmp_path, DATA.metadata, flush_every=3)
    writer.add(DATA[:3])
    writer.add(DATA[3:9])

    def interrupted(*args: Any) -> Any:
        file = write_shard(*args)
        monkeypatch.setattr("ove_sb3.store.writer.write_shard", write_shard)
        OTHERS[other](tmp_path, writer)
        return file

    monkeypatch.setattr("ove_sb3.store.writer.write_shard", interrupted)
    compact(tmp_path)
    expected = {"compacts": DATA[:9], "overwrites": some(5, seed=4), "writes": DATA}[other]
    same(ove.Trajectories.load(tmp_path), expected)
    assert verify(tmp_path).problems == []
    assert len(list(tmp_path.glob("part-*"))) == ove.open_log(tmp_path).n_shards == 1
    assert not list(tmp_path.glob(".part-*"))


def test_leftovers(tmp_path: Path) -> None:
    """Files of killed processes are removed, but not one that may be written right now."""
    DATA.save(tmp_path)
    (shard,) = tmp_path.glob("part-*")
    unlisted = tmp_path / "part-00000000000000000001-0123456789ab.parquet"
    old, new = tmp_path / ".part-old.parquet.tmp", tmp_path / ".part-new.parquet.tmp"
    for file in (unlisted, old, new):
        file.write_bytes(shard.read_bytes()[:100])
    two_hours_ago = time.time() - 7200
    os.utime(old, (two_hours_ago, two_hours_ago))
    same(ove.Trajectories.load(tmp_path), DATA)  # a file that the index does not name is no shard
    compact(tmp_path)
    assert [file.exists() for file in (shard, new, unlisted, old)] == [True, True, False, False]
    same(ove.Trajectories.load(tmp_path), DATA)
