"""Runs that stop during their first episode: they count, in the order in which they started."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core.stopping import LoggingRecord, begin_key
from ove_sb3.data.beginnings import split_begun

N_RUNS = 150
STATED: dict[str, Any] = {
    "gamma": 1.0,
    "horizon": 50,
    "reward_range": (0, 1),
    "return_range": (0, 1),
    "max_weight": 1.0,
    "delta": 0.2,
}


class Waiting(gym.Env[Any, Any]):
    """Half of the episodes return 1 after a step, the others 0 after 50: the mean is 0.5."""

    observation_space = gym.spaces.Discrete(1)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.long = self.np_random.random() < 0.5
        self.steps = 0
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        over = self.steps == (50 if self.long else 1)
        return 0, float(over and not self.long), over, False, {}


def log_run(folder: Path, run: int) -> ove.LogActionProbability:
    """Log three steps, and do not close the wrapper."""
    policy = ove.TabularPolicy([[0.5, 0.5]])
    env = ove.LogActionProbability(Waiting(), policy, folder, durability="normal")
    observation, _ = env.reset(seed=1000 + run)
    for _ in range(3):
        action, _ = policy.predict(np.array(observation))
        observation, _, over, _, _ = env.step(int(action))
        if over:
            observation, _ = env.reset()
    return env


@pytest.fixture(scope="module", params=[True, False], ids=["closed", "left open"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Log of many runs of three steps each."""
    folder = tmp_path_factory.mktemp("runs") / "log"
    for run in range(N_RUNS):
        env = log_run(folder, run)
        if request.param:
            env.close()
        del env
        gc.collect(0)
    gc.collect()
    return folder


def test_every_run_has_its_record_in_the_order_of_starting(path: Path, tmp_path: Path) -> None:
    data = ove.Trajectories.load(path)
    assert data.begins is not None
    begun = data.metadata.begun
    assert len(begun) == N_RUNS
    assert sum(not record.ended for record in begun.values()) > 30
    appearing = dict.fromkeys(str(begin >> 32) for begin in data.begins.tolist())
    assert list(appearing) == [writer for writer, record in begun.items() if record.ended]
    assert list(begun) != sorted(begun)
    # The order is kept by every way of storing it.
    assert list(ove.open_log(path).metadata.begun) == list(begun)
    data.save(tmp_path / "copy")
    assert list(ove.Trajectories.load(tmp_path / "copy").metadata.begun) == list(begun)
    data.to_table().to_parquet(tmp_path / "steps.parquet")
    table = ove.Trajectories.from_table(tmp_path / "steps.parquet")
    assert list(table.metadata.begun) == list(begun)
    joined = ove.Trajectories.concat([data[:40], data[40:]])
    assert list(joined.metadata.begun) == list(begun)


def test_bounds_count_runs_of_which_no_episode_ended(path: Path) -> None:
    data = ove.Trajectories.load(path)
    candidate = ove.TabularPolicy([[0.5, 0.5]])
    for log in (data, ove.open_log(path)):
        interval = ove.evaluate(log, candidate, **STATED)["mean"].interval
        assert interval.guaranteed
        assert interval.lower < 0.5
    for part in data.split(0.5, rng=0):
        assert ove.evaluate(part, candidate, **STATED)["mean"].interval.lower < 0.5


def test_watching_counts_them(path: Path, tmp_path: Path) -> None:
    decision = ove.watch(
        path,
        ove.TabularPolicy([[0.5, 0.5]]),
        ["mean >= 0.55"],
        timeout=0,
        state=tmp_path / "state.json",
        **STATED,
    )
    assert decision.status == "undecided"


def runs_that_begin(*, long: bool) -> list[int]:
    """Numbers of runs whose first episode is long, or not."""
    return [
        run
        for run in range(20)
        if (gym.utils.seeding.np_random(1000 + run)[0].random() < 0.5) == long
    ]


def log_and_die(folder: Path, run: int) -> None:
    log_run(folder, run)
    os.kill(os.getpid(), signal.SIGKILL)


def test_killed_runs_are_recorded_from_their_first_step_on(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    for run in runs_that_begin(long=True)[:3]:
        process = context.Process(target=log_and_die, args=(tmp_path / "log", run))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    log_run(tmp_path / "log", runs_that_begin(long=False)[0]).close()
    begun = list(ove.Trajectories.load(tmp_path / "log").metadata.begun.values())
    assert [(record.begun, record.ended) for record in begun[:3]] == [(1, 0)] * 3
    assert begun[3].ended > 0


def test_episodes_given_up_are_counted_without_another_end(tmp_path: Path) -> None:
    env = log_run(tmp_path / "log", runs_that_begin(long=False)[0])
    env.flush()
    assert ove.Trajectories.load(tmp_path / "log").metadata.behavior == "TabularPolicy"
    (before,) = ove.Trajectories.load(tmp_path / "log").metadata.begun.values()
    for run in runs_that_begin(long=True)[:5]:
        env.reset(seed=2000 + run)
        env.reset()
    del env
    gc.collect()
    (after,) = ove.Trajectories.load(tmp_path / "log").metadata.begun.values()
    assert after.ended == before.ended
    assert after.begun >= before.begun + 9


def test_a_directory_with_episodes_that_were_begun_is_not_overwritten(tmp_path: Path) -> None:
    env = ove.LogActionProbability(Waiting(), ove.TabularPolicy([[0.5, 0.5]]), tmp_path / "log")
    env.flush()  # nothing is known yet
    env.reset(seed=1000 + runs_that_begin(long=True)[0])
    env.step(0)
    data = ove.collect(ove.TabularPolicy([[0.5, 0.5]]), Waiting(), 3, seed=5)
    with pytest.raises(ove.InvalidInputError, match="must"):
        data.save(tmp_path / "log")
    for action in np.random.default_rng(0).integers(2, size=200):
        if env.step(int(action))[2]:
            env.reset()
    env.close()
    assert ove.Trajectories.load(tmp_path / "log").metadata.behavior == "TabularPolicy"


def test_a_split_keeps_every_episode_and_every_doubt(tmp_path: Path) -> None:
    policy = ove.TabularPolicy([[0.5, 0.5]])
    collected = ove.collect(policy, Waiting(), 30, seed=500)
    logged = log_run(tmp_path / "log", runs_that_begin(long=False)[0]).trajectories()
    joined = ove.Trajectories.concat([collected, logged])
    parts = joined.split(0.5, rng=0)
    assert sum(map(len, parts)) == len(joined)
    for data in (joined, *parts):
        assert not ove.evaluate(data, policy, **STATED)["mean"].interval.guaranteed


def test_parts_do_not_stop_at_a_plan_that_the_log_did_not_keep() -> None:
    begins = begin_key(1, 0) + np.arange(96)
    for n_steps, kept in ((996, False), (1000, True)):
        record = LoggingRecord(100, 96, 4, n_steps, 1000)
        for fraction in (0.1, 0.5):
            rng = np.random.default_rng(0)
            for part in split_begun(begins, {"1": record}, fraction, in_order=False, rng=rng):
                assert [one.stopped_by_steps for one in part.begun.values()] == [kept]
