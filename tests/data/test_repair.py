"""``verify`` names what is damaged; ``repair`` drops only that, and the label says so."""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core.label import Evidence, decide_label
from ove_sb3.core.stopping import LoggingRecord
from ove_sb3.data.metadata import Metadata
from ove_sb3.data.writer import EpisodeWriter
from ove_sb3.store import verify as module
from ove_sb3.store.verify import repair, verify

from .damage import Patient, make_log
from .test_storage import same, some


def test_an_intact_log(tmp_path: Path) -> None:
    data = make_log(tmp_path)
    found = verify(tmp_path)
    assert (found.problems, found.n_episodes, found.lost_episodes) == ([], len(data), 0)
    before = (tmp_path / "log.sqlite").read_bytes()
    assert repair(tmp_path).problems == []
    assert (tmp_path / "log.sqlite").read_bytes() == before


def test_a_damaged_payload_costs_its_row(tmp_path: Path) -> None:
    data = some(12)
    writer = EpisodeWriter(tmp_path, data.metadata, flush_every=3)
    for one in data:
        writer.add(one)
    log, index = ove.open_log(tmp_path), tmp_path / "log.sqlite"
    content = bytearray(index.read_bytes())
    at = bytes(content).find(data[3:6].rewards.tobytes())
    assert at > 0
    content[at] ^= 4
    index.write_bytes(content)
    found = verify(tmp_path)
    assert found.lost_episodes == 3
    assert len(found.problems) == 1
    assert "batch 2" in found.problems[0]
    assert repair(tmp_path).lost_episodes == 3
    after = ove.Trajectories.load(tmp_path)
    same(after, ove.Trajectories.concat([data[:3], data[6:]]))
    assert after.metadata.lost_episodes == 3
    assert verify(tmp_path).problems == []
    with pytest.raises(ove.StorageError, match="Open the log again"):
        log.load()
    writer.add(some(3, seed=9))  # as a new writer: its episodes follow
    same(ove.Trajectories.load(tmp_path)[9:], some(3, seed=9))
    after.save(tmp_path / "copy")
    assert ove.Trajectories.load(tmp_path / "copy").metadata.lost_episodes == 3


def test_a_damaged_shard_is_set_aside(tmp_path: Path) -> None:
    data = some(12)
    for part in (data[:5], data[5:7], data[7:]):
        with EpisodeWriter(tmp_path, part.metadata) as writer:
            writer.add(part)
    first, second, third = sorted(tmp_path.glob("*.parquet"))
    content = bytearray(second.read_bytes())
    content[len(content) // 2] ^= 1
    second.write_bytes(content)
    third.unlink()
    found = verify(tmp_path)
    assert found.lost_episodes == 7
    assert [second.name in found.problems[0], third.name in found.problems[1]] == [True, True]
    repair(tmp_path)
    same(ove.Trajectories.load(tmp_path), data[:5])
    assert [file.name for file in tmp_path.glob("part-*")] == [first.name]
    assert (tmp_path / f"damaged-{second.name}").exists()


def test_a_writer_that_waits_for_a_repair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer uses the new index, not the old one that it had opened."""
    data = some(9)
    for part in (data[:3], data[3:6]):
        with EpisodeWriter(tmp_path, part.metadata) as writer:
            writer.add(part)
    sorted(tmp_path.glob("part-*"))[1].unlink()
    waiting = EpisodeWriter(tmp_path, data.metadata, flush_every=1)
    thread = threading.Thread(target=waiting.add, args=(data[6:],))
    rebuild = module._rebuild

    def slow(*args: Any) -> None:
        rebuild(*args)
        thread.start()
        time.sleep(0.5)  # until it waits for the lock
        assert thread.is_alive()

    monkeypatch.setattr(module, "_rebuild", slow)
    assert repair(tmp_path).lost_episodes == 3
    thread.join()
    assert waiting.n_written == 3
    same(ove.Trajectories.load(tmp_path), ove.Trajectories.concat([data[:3], data[6:]]))


def test_the_label_says_that_episodes_were_lost() -> None:
    label = decide_label(
        Evidence(lost_episodes=True), method_proven=True, range_from_data=False, consistent=True
    )
    assert not label.guaranteed
    assert "repair" in label.reasons[0]


def test_random_damage_is_found_and_repaired(tmp_path: Path) -> None:
    expected = make_log(tmp_path / "log")
    patient = Patient(tmp_path / "log", expected)
    known = {float(one.rewards.sum()) for one in expected}
    rng, outcomes = np.random.default_rng(0), set()
    for file, at, bit in patient.flips(12, rng):
        broken = bytearray(patient.files[file])
        broken[at] ^= 1 << bit
        copy = tmp_path / "copy"
        shutil.copytree(patient.path, copy)
        (copy / file.name).write_bytes(broken)
        try:
            found = repair(copy)
            data = ove.Trajectories.load(copy)
        except ove.StorageError:
            outcomes.add("refused")
        else:
            assert len(data) == len(expected) - found.lost_episodes
            assert {float(one.rewards.sum()) for one in data} <= known
            assert data.metadata.lost_episodes == found.lost_episodes
            outcomes.add("lost" if found.lost_episodes else "kept")
        shutil.rmtree(copy)
    assert outcomes >= {"lost", "kept"}


@pytest.mark.parametrize("table", ["info", "writers"])
def test_what_only_a_damaged_row_knew_may_be_a_loss(table: str, tmp_path: Path) -> None:
    # The plan of a collection, earlier losses; what a run began of which no episode ended.
    make_log(tmp_path)
    with closing(EpisodeWriter(tmp_path, Metadata(begun={"5": LoggingRecord(3)}))):
        pass
    connection = sqlite3.connect(tmp_path / "log.sqlite")
    (damaged,) = connection.execute(f"SELECT max(id) FROM {table}").fetchone()
    column = {"info": "value", "writers": "metadata"}[table]
    connection.execute(f"UPDATE {table} SET {column} = {column} || ' ' WHERE id = ?", (damaged,))
    connection.commit()
    connection.close()
    assert repair(tmp_path).lost_episodes >= 1
    assert ove.Trajectories.load(tmp_path).metadata.lost_episodes >= 1
