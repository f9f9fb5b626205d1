"""Real processes killed by SIGKILL at random moments: nothing acknowledged is lost or torn."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ove_sb3.data.metadata import Metadata
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.data.writer import compact

from .writer_process import episode

SCRIPT = Path(__file__).with_name("writer_process.py")


def start(directory: Path, writer: int, flush_every: int, close: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), str(directory), *map(str, (writer, flush_every, close))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def kill(process: subprocess.Popen[str], lines: int, delay: float) -> int:
    """Kill some time after this many acknowledgments; return the last one."""
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    seen = [process.stdout.readline() for _ in range(lines)]
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL
    whole = [line for line in [*seen, *rest.splitlines(keepends=True)] if line.endswith("\n")]
    return int(whole[-1]) if whole else 0


def check_log(directory: Path, acknowledged: dict[int, int]) -> None:
    """Every acknowledged episode is there once, in order and bit for bit, and nothing is torn."""
    data = Trajectories.load(directory)
    assert data.final_observations is not None
    writers, numbers = np.asarray(data.final_observations)[:, :2].astype(int).T
    assert set(writers) <= set(acknowledged)
    for writer, count in acknowledged.items():
        found = numbers[writers == writer]
        assert len(found) >= count
        assert (found == np.arange(len(found))).all()
    # The last episodes of every writer are at risk; of the others, check a sample.
    ends = [np.flatnonzero(writers == writer)[-12:] for writer in acknowledged]
    some = np.random.default_rng(0).integers(0, len(data), 100)
    for i in np.unique(np.concatenate([*ends, some])):
        expected = episode(int(writers[i]), int(numbers[i]), Metadata())
        there = data[i]
        for name in ("observations", "actions", "log_probs", "rewards", "terminated", "truncated"):
            assert np.array_equal(getattr(there, name), getattr(expected, name)), name


def kill_many(path: Path, flush_every: int, close: int, rounds: int) -> None:
    """Two processes at a time in one directory."""
    rng = np.random.default_rng([flush_every, close])
    acknowledged: dict[int, int] = {}
    for round_ in range(rounds):
        pair = [start(path, 2 * round_ + i, flush_every, close) for i in range(2)]
        for i, process in enumerate(pair):
            lines, delay = int(rng.integers(0, 12)), float(rng.uniform(0.0, 0.02))
            acknowledged[2 * round_ + i] = kill(process, lines, delay)
        if round_ % 3 == 2:
            check_log(path, acknowledged)
    assert sum(acknowledged.values()) > 2 * rounds
    compact(path)
    check_log(path, acknowledged)


@pytest.mark.parametrize(("flush_every", "close"), [(1, 0), (7, 5)])
def test_killed_writers(tmp_path: Path, flush_every: int, close: int) -> None:
    """Eight kills for each setting."""
    kill_many(tmp_path, flush_every, close, rounds=4)


@pytest.mark.slow
@pytest.mark.parametrize("flush_every", [1, 7])
@pytest.mark.parametrize("close", [0, 5])
def test_many_killed_writers(tmp_path: Path, flush_every: int, close: int) -> None:
    """Thirty-two kills for each of four settings."""
    kill_many(tmp_path, flush_every, close, rounds=16)
