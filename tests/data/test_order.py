"""Order in which data reach the disk, because no test can cause a power loss."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import ove_sb3 as ove
from ove_sb3.data.writer import EpisodeWriter, compact
from ove_sb3.store.verify import repair

from .test_storage import same, some

FULL = 2  # value of SQLite's PRAGMA synchronous


class Recorder:
    """Records synced, renamed and removed files, and commits with their durability."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[tuple[Any, ...]] = []
        fsync, rename, unlink = os.fsync, os.rename, Path.unlink

        def record_sync(descriptor: int) -> None:
            fsync(descriptor)
            file = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            self.events.append(("sync", file.name, file.stat().st_size))

        def record_rename(source: Any, target: Any) -> None:
            rename(source, target)
            self.events.append(("rename", Path(source).name, Path(target).name))

        def record_unlink(path: Path, missing_ok: bool = False) -> None:
            if path.exists():
                self.events.append(("unlink", path.name))
            unlink(path, missing_ok=missing_ok)

        recorder = self

        class Connection(sqlite3.Connection):
            def execute(self, statement: str, *args: Any) -> Any:
                result = super().execute(statement, *args)
                if statement == "COMMIT":
                    (level,) = super().execute("PRAGMA synchronous").fetchone()
                    recorder.events.append(("commit", level))
                return result

        connect = sqlite3.connect
        monkeypatch.setattr(os, "fsync", record_sync)
        monkeypatch.setattr(os, "rename", record_rename)
        monkeypatch.setattr(os, "replace", record_rename)
        monkeypatch.setattr(Path, "unlink", record_unlink)
        monkeypatch.setattr(
            sqlite3, "connect", lambda *a, **k: connect(*a, **{"factory": Connection, **k})
        )

    def take(self) -> list[tuple[Any, ...]]:
        events = [*self.events]
        self.events.clear()
        return events


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return Recorder(monkeypatch)


def check_published(events: list[tuple[Any, ...]], folder: Path) -> None:
    """The whole file is on disk, then its name is, then the index names it."""
    kinds = [event[0] for event in events]
    assert kinds == ["sync", "rename", "sync", "commit"], events
    (_, temporary, size), (_, source, name), (_, directory, _), (_, level) = events
    assert temporary == source == f".{name}.tmp"
    assert (folder / name).stat().st_size == size
    assert directory == folder.name
    assert level == FULL


def test_a_shard_is_on_disk_before_the_index_names_it(tmp_path: Path, recorder: Recorder) -> None:
    data = some(9)
    writer = EpisodeWriter(tmp_path, data.metadata, flush_every=3)
    for one in data:
        writer.add(one)
    recorder.take()
    writer.close()
    check_published(recorder.take(), tmp_path)
    writer = EpisodeWriter(tmp_path, data.metadata)
    writer.add(data)
    writer.flush()
    recorder.take()
    compact(tmp_path)
    *published, last = recorder.take()  # the transaction in which leftovers are removed
    check_published(published, tmp_path)
    assert last == ("commit", FULL)
    data.save(tmp_path / "new")
    check_published(recorder.take()[-4:], tmp_path / "new")


def test_large_batches(tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ove_sb3.store.payloads.LARGEST_BATCH", 100)
    writer = EpisodeWriter(tmp_path, some(3).metadata, flush_every=1)
    recorder.take()
    writer.add(some(3))
    check_published(recorder.take(), tmp_path)


def test_old_shards_are_removed_after_the_commit(tmp_path: Path, recorder: Recorder) -> None:
    some(6).save(tmp_path)
    (old,) = tmp_path.glob("part-*")
    recorder.take()
    some(3).save(tmp_path, overwrite=True)
    *published, last = recorder.take()
    check_published(published, tmp_path)
    assert last == ("unlink", old.name)


def test_a_flush_is_acknowledged_after_the_commit(tmp_path: Path, recorder: Recorder) -> None:
    data, acknowledged = some(6), []
    writer = EpisodeWriter(tmp_path, data.metadata, flush_every=3)
    recorder.take()
    original = recorder.events

    class Events(list[tuple[Any, ...]]):
        def append(self, event: tuple[Any, ...]) -> None:
            acknowledged.append((event[0], writer.n_written, writer._pending.n))
            super().append(event)

    recorder.events = Events()
    writer.add(data[:3])
    writer.add(data[3:])
    assert acknowledged == [("commit", 0, 3), ("commit", 3, 3)]
    assert (writer.n_written, writer._pending.n, original) == (6, 0, [])


@pytest.mark.parametrize(("durability", "level"), [("full", FULL), ("normal", 1)])
def test_durability_is_that_of_the_commits(
    tmp_path: Path, recorder: Recorder, durability: Any, level: int
) -> None:
    writer = EpisodeWriter(tmp_path, some(3).metadata, flush_every=1, durability=durability)
    recorder.take()
    writer.add(some(3))
    assert recorder.take() == [("commit", level)]
    connection = sqlite3.connect(tmp_path / "log.sqlite")
    assert connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal"
    connection.close()


def test_a_repaired_index_is_on_disk_before_it_takes_its_place(
    tmp_path: Path, recorder: Recorder
) -> None:
    data = some(9)
    for part in (data[:3], data[3:6], data[6:]):
        part_writer = EpisodeWriter(tmp_path, part.metadata)
        part_writer.add(part)
        part_writer.close()
    damaged = sorted(tmp_path.glob("part-*"))[1]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    recorder.take()
    repair(tmp_path)
    events = recorder.take()
    kinds = [event[0] for event in events]
    assert kinds == ["commit", "sync", "rename", "sync", "rename"], events
    assert events[1][1] == events[2][1]
    assert events[2][2] == "log.sqlite"
    assert events[3][1] == tmp_path.name
    assert events[4] == ("rename", damaged.name, f"damaged-{damaged.name}")
    same(ove.Trajectories.load(tmp_path), ove.Trajectories.concat([data[:3], data[6:]]))
