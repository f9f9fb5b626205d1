"""Full disks, missing permissions, forks: our own errors, intact data, and writing continues."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy.testing  # noqa: F401 - a child without rights cannot import it
import pytest

import ove_sb3 as ove
from ove_sb3.data import open_writers
from ove_sb3.data import writer as module
from ove_sb3.data.writer import EpisodeWriter, compact

from .test_storage import same, some


def in_child(task: Callable[[], None]) -> None:
    """Run a task in a fork of this process."""
    child = os.fork()
    if child == 0:
        try:
            task()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


@contextmanager
def file_limit(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk(tmp_path: Path) -> None:
    data = some(40, kind="image")

    def fill() -> None:
        writer = EpisodeWriter(tmp_path, data.metadata, flush_every=1)
        writer.add(data[:10])
        size = (tmp_path / "log.sqlite").stat().st_size
        with file_limit(size + 4096), pytest.raises(ove.StorageError, match="Free some space"):
            writer.add(data[10:20])
        same(ove.Trajectories.load(tmp_path), data[:10])
        writer.add(data[20:])  # what was not written is still pending
        same(ove.Trajectories.load(tmp_path), data)
        with file_limit(2048), pytest.raises(ove.StorageError, match="Free some space"):
            writer.close()
        same(ove.Trajectories.load(tmp_path), data)
        with file_limit(2048), pytest.raises(ove.StorageError, match="Free some space"):
            data.save(tmp_path, overwrite=True)
        same(ove.Trajectories.load(tmp_path), data)
        assert not list(tmp_path.glob(".part*"))
        writer.close()
        same(ove.Trajectories.load(tmp_path), data)

    in_child(fill)


def test_missing_permissions() -> None:
    data, folder = some(10), Path(tempfile.mkdtemp())
    log = folder / "log"
    try:
        writer = EpisodeWriter(log, data.metadata, flush_every=1)
        writer.add(data[:5])
        for path, mode in ((folder, 0o755), (log, 0o555), (log / "log.sqlite", 0o444)):
            path.chmod(mode)

        def use() -> None:
            if os.geteuid() == 0:
                os.setuid(65534)
            same(ove.Trajectories.load(log), data[:5])
            with pytest.raises(ove.StorageError, match="permissions"):
                EpisodeWriter(log, data.metadata)
            for change in (lambda: data.save(log, overwrite=True), lambda: compact(log)):
                with pytest.raises(ove.StorageError, match="permissions"):
                    change()
            with pytest.raises(ove.StorageError, match="permissions"):
                EpisodeWriter(log / "below", data.metadata)

        in_child(use)
        (log / "log.sqlite").chmod(0o000)

        def refuse() -> None:
            if os.geteuid() == 0:
                os.setuid(65534)
            with pytest.raises(ove.StorageError, match="permissions"):
                ove.Trajectories.load(log)

        in_child(refuse)
        log.chmod(0o755)
        (log / "log.sqlite").chmod(0o644)
        writer.add(data[5:])
        same(ove.Trajectories.load(log), data)
    finally:
        shutil.rmtree(folder)


def test_a_fork_is_a_writer_of_its_own(tmp_path: Path) -> None:
    data = some(12)
    writer = EpisodeWriter(tmp_path, data.metadata, flush_every=5)
    writer.add(data[:5])
    writer.add(data[5:7])  # pending: the child must not write them as well

    def go_on() -> None:
        writer.add(data[9:])
        writer.close()

    in_child(go_on)
    writer.add(data[7:9])
    writer.close()
    same(ove.Trajectories.load(tmp_path), data)


def test_an_overwritten_log_gets_what_is_written_later(tmp_path: Path) -> None:
    data = some(12)
    writer = EpisodeWriter(tmp_path, data.metadata, flush_every=1)
    writer.add(data[:3])
    log = ove.open_log(tmp_path)
    data[3:6].save(tmp_path, overwrite=True)
    writer.add(data[6:9])
    writer.add(data[9:])
    same(ove.Trajectories.load(tmp_path), data[3:])
    with pytest.raises(ove.StorageError, match="Open the log again"):
        log.load()
    writer.close()
    same(ove.Trajectories.load(tmp_path), data[3:])


def test_what_is_pending_is_written_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = some(6)
    writer = EpisodeWriter(tmp_path, data.metadata, flush_every=100)
    writer.add(data[:2])
    writer.tick()
    with pytest.raises(ove.EmptyLogError):
        ove.open_log(tmp_path)
    monkeypatch.setattr(module, "FLUSH_SECONDS", 0.0)
    writer.tick()
    assert len(ove.open_log(tmp_path)) == 2
    writer.add(data[2:4])
    open_writers.flush_all()  # as when the interpreter ends
    assert len(ove.open_log(tmp_path)) == 4
    writer.add(data[4:])
    del writer
    same(ove.Trajectories.load(tmp_path), data)


def test_metadata_are_stored_without_episodes(tmp_path: Path) -> None:
    writer = EpisodeWriter(tmp_path, ove.Metadata(seed=1))
    writer.add(some(3))
    writer.flush()
    assert not ove.open_log(tmp_path).metadata.adaptive
    writer.update(ove.Metadata(adaptive=True))
    writer.flush()
    assert ove.open_log(tmp_path).metadata.adaptive
    writer.flush()
    assert len(ove.open_log(tmp_path)) == 3


def test_columns_may_change_within_a_log(tmp_path: Path) -> None:
    data = some(9)
    without = ove.Trajectories.from_arrays(
        observations=data.observations,
        actions=data.actions,
        log_probs=data.log_probs,
        rewards=data.rewards,
        lengths=data.lengths,
    )
    with EpisodeWriter(tmp_path, data.metadata, flush_every=3) as writer:
        for part in (data[:3], without[3:6], data[6:]):
            writer.add(part)
    assert len(list(tmp_path.glob("*.parquet"))) == 3
    loaded = ove.Trajectories.load(tmp_path)
    assert loaded.final_observations is None
    assert loaded.rewards.tolist() == data.rewards.tolist()


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_durability(tmp_path: Path, durability: str) -> None:
    with EpisodeWriter(tmp_path, ove.Metadata(), durability=durability) as writer:  # type: ignore[arg-type]
        writer.add(some(3))
    same(ove.Trajectories.load(tmp_path), some(3))
    with pytest.raises(ove.InvalidInputError, match="`durability` must be"):
        EpisodeWriter(tmp_path, ove.Metadata(), durability="none")  # type: ignore[arg-type]
