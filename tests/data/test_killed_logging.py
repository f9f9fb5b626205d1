"""SIGKILL while wrappers log: in a custom loop, in `learn`, in `close`, several at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core.stopping import writer_of
from ove_sb3.data.writer import compact

from .nursery import TASKS, length

SCRIPT = Path(__file__).with_name("nursery.py")
N_ENVS = {"loop": 1, "learn": 2, "close": 1}


class Nursery:
    """Starts children that log, and kills them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def start(self, task: str, path: Path, seed: int) -> int:
        """Begin a task; return the id of its process."""
        assert self.process.stdin is not None
        print(task, path, seed, sep="\t", file=self.process.stdin, flush=True)
        word, number = self._line().split()
        assert word == "child"
        return int(number)

    def kill(self, child: int, lines: int, delay: float) -> int:
        """Kill some time after this many acknowledgments; return the last one."""
        last = 0
        for _ in range(lines):
            last = int(self._line())
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        while not (line := self._line()).startswith("ended"):
            last = int(line)
        assert line == f"ended {int(signal.SIGKILL)}\n"
        return last

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@contextmanager
def nursery() -> Iterator[Nursery]:
    root = SCRIPT.parent.parent.parent
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, str(SCRIPT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=root,
    ) as process:
        yield Nursery(process)
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture(scope="module")
def nurseries() -> Iterator[list[Nursery]]:
    with nursery() as first, nursery() as second:
        yield [first, second]


def check(path: Path, task: str, acknowledged: dict[int, int]) -> None:
    """Every acknowledged episode is there once and whole; those under way are counted."""
    data, n_envs = ove.Trajectories.load(path), N_ENVS[task]
    starts = np.cumsum(data.lengths) - data.lengths
    observations = np.asarray(data.observations).astype(int)
    names, episodes = observations[starts, 0], observations[starts, 1]
    assert set(names // n_envs) <= set(acknowledged)
    for seed, count in acknowledged.items():
        own = names // n_envs == seed
        assert own.sum() >= count
        for name in set(names[own]):
            found = episodes[names == name]
            assert (found == np.arange(found.size)).all()
    for start, n, name, episode in zip(starts, data.lengths, names, episodes, strict=True):
        assert n == length(name, episode)
        rows = observations[start : start + n]
        assert (rows == [[name, episode, t] for t in range(n)]).all()
        assert (data.rewards[start : start + n] == episode).all()
    assert data.begins is not None
    writers = writer_of(data.begins)
    for writer, record in data.metadata.begun.items():
        logged = int((writers == int(writer)).sum())
        assert record.ended == logged
        assert logged + n_envs >= record.begun
        if task != "close":
            assert record.begun == logged + n_envs
    total = sum(record.begun for record in data.metadata.begun.values())
    assert data.metadata.incomplete_fraction == pytest.approx(1 - len(data) / total)


def kill_many(nurseries: list[Nursery], task: str, path: Path, rounds: int, seed: int) -> None:
    """Kill two processes in each round, which write to the same directory."""
    rng = np.random.default_rng(seed)
    acknowledged: dict[int, int] = {}
    for round_ in range(rounds):
        children = [n.start(task, path, 2 * round_ + k) for k, n in enumerate(nurseries)]
        for k, child in enumerate(children):
            lines, delay = int(rng.integers(0, 12)), float(rng.uniform(0.0, 0.03))
            acknowledged[2 * round_ + k] = nurseries[k].kill(child, lines, delay)
        if round_ % 5 == 4:
            check(path, task, acknowledged)
    assert sum(acknowledged.values()) >= rounds
    check(path, task, acknowledged)
    compact(path)
    check(path, task, acknowledged)


@pytest.mark.parametrize("task", TASKS)
def test_kills(task: str, tmp_path: Path, nurseries: list[Nursery]) -> None:
    kill_many(nurseries, task, tmp_path, 2, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("task", TASKS)
def test_many_kills(task: str, seed: int, tmp_path: Path, nurseries: list[Nursery]) -> None:
    """Forty kills for each task and seed."""
    kill_many(nurseries, task, tmp_path, 20, seed)
