"""Pending episodes reach the disk: when the process ends, after exceptions, and in time."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove
from ove_sb3.data.writer import EpisodeWriter
from ove_sb3.store.writer import BatchWriter

from .test_hardship import in_child
from .test_storage import same, some

PROGRAM = """
import atexit
import sys
atexit.register(lambda: print(len(ove.open_log(sys.argv[1]))))  # the last one to be called
import ove_sb3 as ove
from tests.data.test_storage import some
writer = ove.EpisodeWriter(sys.argv[1], ove.Metadata(), flush_every=1000)
writer.add(some(5))
{end}
"""
ENDS = {"normal": "", "exit": "sys.exit(3)", "exception": "raise RuntimeError('planned')"}


@pytest.mark.parametrize("end", sorted(ENDS))
def test_the_end_of_a_process(tmp_path: Path, end: str) -> None:
    root = Path(__file__).parent.parent.parent
    command = [sys.executable, "-c", PROGRAM.format(end=ENDS[end]), str(tmp_path)]
    process = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert process.returncode == {"normal": 0, "exit": 3, "exception": 1}[end], process.stderr
    assert process.stdout == "5\n"
    same(ove.Trajectories.load(tmp_path), some(5))


def wait_for(path: Path, n: int) -> ove.Trajectories:
    for _ in range(200):
        time.sleep(0.05)
        try:
            data = ove.Trajectories.load(path)
        except ove.EmptyLogError:
            continue
        if len(data) >= n:
            return data
    raise AssertionError("not written in time")


class Interrupt(BaseCallback):
    def _on_step(self) -> bool:
        if self.n_calls == 150:
            raise KeyboardInterrupt
        return True


def test_an_exception_out_of_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process keeps running, as a notebook does, but takes no further step."""
    venv = ove.VecLogActionProbability(
        DummyVecEnv([lambda: gym.make("CartPole-v1")]), path=tmp_path, flush_every=1000
    )
    model = PPO("MlpPolicy", venv, n_steps=64, seed=0, device="cpu")
    venv.set_model(model)
    with pytest.raises(KeyboardInterrupt):
        model.learn(1000, callback=Interrupt())
    with pytest.raises(ove.EmptyLogError):
        ove.open_log(tmp_path)
    monkeypatch.setattr("ove_sb3.data.writer.FLUSH_SECONDS", 0.1)
    data = wait_for(tmp_path, 2)
    same(data, venv.trajectories())
    assert 0 < data.metadata.incomplete_fraction < 1


def test_what_the_clock_cannot_write_is_told_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ove_sb3.data.writer.FLUSH_SECONDS", 0.05)
    attempts: list[int] = []
    append = BatchWriter.append

    def refuse(*_: Any) -> None:
        attempts.append(threading.get_ident())
        raise ove.StorageError("no room")

    writer = EpisodeWriter(tmp_path, ove.Metadata())
    monkeypatch.setattr(BatchWriter, "append", refuse)
    writer.add(some(5))
    while len(attempts) < 3:
        time.sleep(0.02)
    assert threading.get_ident() not in attempts
    with pytest.raises(ove.StorageError, match="no room"):
        writer.flush()
    monkeypatch.setattr(BatchWriter, "append", append)
    same(wait_for(tmp_path, 5), some(5))
    with writer.lock:
        assert writer.n_written == 5


def test_adding_beside_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ove_sb3.data.writer.FLUSH_SECONDS", 0.0)
    data = some(300)
    with EpisodeWriter(tmp_path, data.metadata, flush_every=7, durability="normal") as writer:
        for one in data:
            writer.add(one)
            time.sleep(0.001)
    same(ove.Trajectories.load(tmp_path), data)


def test_a_fork_while_a_thread_is_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, began = some(12), threading.Event()
    writer = EpisodeWriter(tmp_path, data.metadata, flush_every=100)
    append = BatchWriter.append

    def slow(*args: Any) -> None:
        if not began.is_set():
            began.set()
            time.sleep(0.3)
        append(*args)

    monkeypatch.setattr(BatchWriter, "append", slow)
    monkeypatch.setattr("ove_sb3.data.writer.FLUSH_SECONDS", 0.05)
    writer.add(data[:6])
    assert began.wait(10)

    def write() -> None:
        assert writer.lock.acquire(blocking=False)
        writer.lock.release()
        writer.add(data[9:])
        writer.close()

    in_child(write)
    assert writer.n_written == 6  # the fork has waited for it
    writer.add(data[6:9])
    writer.close()
    same(ove.Trajectories.load(tmp_path), data)


@pytest.mark.parametrize("how", [copy.deepcopy, lambda writer: pickle.loads(pickle.dumps(writer))])
def test_a_copy_is_a_writer_of_its_own(tmp_path: Path, how: Any) -> None:
    data = some(9)
    writer = EpisodeWriter(tmp_path, data.metadata)
    writer.add(data[:3])
    other = how(writer)
    other.add(data[6:])
    other.close()
    writer.add(data[3:6])
    writer.close()
    same(ove.Trajectories.load(tmp_path), data)
    assert os.getpid() == other._pid


def interrupt_once_stored(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let the next call of `BatchWriter.append` store its batch and then fail."""
    append = BatchWriter.append

    def interrupted(writer: BatchWriter, *arguments: Any) -> None:
        monkeypatch.setattr(BatchWriter, "append", append)
        append(writer, *arguments)
        raise error

    monkeypatch.setattr(BatchWriter, "append", interrupted)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ove.StorageError("planned")])
def test_an_interrupt_after_the_commit_stores_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    data = some(9)
    writer = EpisodeWriter(tmp_path, data.metadata, flush_every=1000)
    writer.add(data[:2])
    writer.flush()
    writer.add(data[2:5])
    interrupt_once_stored(monkeypatch, error)
    with pytest.raises(type(error)):
        writer.flush()
    writer.add(data[5:7])  # written together with what the writer takes to be pending
    writer.flush()
    writer.add(data[7:])
    writer.close()
    same(ove.Trajectories.load(tmp_path), data)


def test_a_shard_that_fails_after_the_commit_stores_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = some(6)
    monkeypatch.setattr("ove_sb3.store.writer._ROLL_ROWS", 1)
    compact = BatchWriter.compact

    def full(writer: BatchWriter) -> None:
        monkeypatch.setattr(BatchWriter, "compact", compact)
        raise ove.StorageError("no space left")

    monkeypatch.setattr(BatchWriter, "compact", full)
    writer = EpisodeWriter(tmp_path, data.metadata, flush_every=1000)
    writer.add(data[:4])
    with pytest.raises(ove.StorageError):
        writer.flush()
    writer.flush()  # all of it is stored already
    writer.add(data[4:])
    writer.close()
    same(ove.Trajectories.load(tmp_path), data)


def test_an_interrupt_before_the_log_is_overwritten_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = some(5)
    writer = EpisodeWriter(tmp_path, data.metadata, flush_every=1000)
    writer.add(data[:3])
    interrupt_once_stored(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        writer.flush()
    data[3:].save(tmp_path, overwrite=True)
    writer.close()
    assert len(ove.Trajectories.load(tmp_path)) == 5
