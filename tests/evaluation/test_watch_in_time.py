"""`watch` while processes are killed, and its error rate over many logs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

import ove_sb3 as ove
from ove_sb3.core.stopping import LoggingRecord, begin_key
from tests.core.test_sequence import overlaps_of
from tests.evaluation.watch_processes import watch
from tests.problems.queue import Queue
from tests.problems.visits import candidate

Process = subprocess.Popen[str]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Starts processes; all of them are killed in the end."""
    started: list[Process] = []

    def start(role: str, *arguments: object) -> Process:
        command = [sys.executable, "-m", "tests.evaluation.watch_processes", role]
        command += [str(argument) for argument in (tmp_path / "log", *arguments)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        kill(process)
        assert process.stdout is not None
        process.stdout.close()


def wait_for(path: Path) -> None:
    for _ in range(1200):
        if path.exists():
            return
        time.sleep(0.05)
    raise TimeoutError(path)


def read_line(process: Process) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def kill(process: Process) -> None:
    process.kill()
    process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("n_envs", [1, 8])
def test_beside_a_writer_that_is_killed(
    n_envs: int, run: Callable[..., Process], tmp_path: Path
) -> None:
    path, state = tmp_path / "log", tmp_path / "log.watch.json"
    writer = run("write", 0, n_envs, 800)
    wait_for(path / "log.sqlite")
    watcher = run("watch", n_envs)
    seen = [int(read_line(watcher)) for _ in range(2)]
    kill(writer)
    writer = run("write", 100, n_envs, 40_000)  # environment i has seed + i
    kill(watcher)
    known = json.loads(state.read_text())
    assert known["n"] >= seen[-1]
    watcher = run("watch", n_envs)
    lines: list[str] = []
    while not lines or not lines[-1].startswith("{"):
        lines.append(read_line(watcher))
        assert lines[-1], "the watcher has ended"
    kill(writer)
    assert all(int(line) > known["n"] for line in lines[:-1])  # nothing is evaluated twice
    decision = ove.Decision.from_dict(json.loads(lines[-1]))
    assert decision.status == "proven"
    assert decision.n_unfinished > 0  # lost with the first writer
    state.unlink()
    offline = watch(str(path), n_envs, timeout=0.0)
    assert offline.status == decision.status
    assert offline.n <= decision.n


def write_episodes(
    writer: ove.EpisodeWriter, queue: Queue, n: int, rng: np.random.Generator, key: int
) -> Iterator[None]:
    """Write n episodes of environments that run at the same time, in the order of their ends.

    A pause after each quarter. Long episodes have the large returns.
    """
    actions = rng.integers(0, 2, n + queue.n_envs)
    kinds = np.where(rng.random(actions.size) < 0.9, actions, 1 - actions)
    returns = np.array(queue.returns)[kinds]
    order, overlaps = overlaps_of(returns, queue.n_envs, rng)
    for part in np.array_split(np.arange(n), 4):
        ended = int(part[-1]) + 1
        record = LoggingRecord(ended + queue.n_envs, ended, queue.n_envs)
        writer.add(
            ove.Trajectories.from_arrays(
                observations=np.zeros(part.size, int),
                actions=actions[order[part]],
                log_probs=np.full(part.size, np.log(0.5)),
                rewards=returns[order[part]],
                lengths=np.ones(part.size, int),
                overlaps=overlaps[part],
                begins=begin_key(key, 0) + order[part],
                metadata=ove.Metadata(horizon=1, begun={str(key): record}),
            )
        )
        writer.flush()
        yield


def proves(requirement: str, queue: Queue, path: Path, run: int, delta: float) -> bool:
    """Whether a requirement is called proven of a log that grows, by two writers in turn."""
    rng = np.random.default_rng([run, queue.n_envs])
    for key in (1, 2):
        writer = ove.EpisodeWriter(path, ove.Metadata(horizon=1), durability="normal")
        for _ in write_episodes(writer, queue, 200, rng, key):
            decision = ove.watch(
                path,
                candidate(queue),
                [requirement],
                gamma=1.0,
                reward_range=(0, 1),
                max_weight=queue.max_ratio,
                delta=delta,
                timeout=0,
            )
            if decision.status != "undecided":
                return decision.proven
    return False


FALSE = ("mean >= {mean}", "mean <= {mean}", "variance <= {variance}", "variance >= {variance}")


def run_false(n_runs: int, tmp_path: Path, delta: float) -> int:
    """Number of runs that prove a requirement that is false by 1e-9."""
    count = 0
    for run in range(n_runs):
        queue = Queue((1, 16, 64)[run % 3], 0, (100, 1), (1.0, 0.0), candidate=0.6)
        sign = 1 if ">=" in FALSE[run % 4] else -1
        limits = {name: value + sign * 1e-9 for name, value in queue.truth.items()}
        requirement = FALSE[run % 4].format(**limits)
        count += proves(requirement, queue, tmp_path / str(run), run, delta)
    return count


@pytest.mark.slow
def test_nothing_false_is_proven_too_often(tmp_path: Path) -> None:
    n_runs, delta = 300, 0.2
    count = run_false(n_runs, tmp_path, delta)
    print(f"{count} of {n_runs} runs prove something false, at delta {delta}")
    assert binomtest(count, n_runs, delta, alternative="greater").pvalue > 1e-4


def test_a_few_false_requirements_are_not_proven(tmp_path: Path) -> None:
    assert run_false(3, tmp_path, 0.02) == 0
