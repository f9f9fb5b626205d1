"""Runs that stop during their first episode: they count, in the order in which they started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import ove_sb3 as ove

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


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Log of many runs of three steps each."""
    folder = tmp_path_factory.mktemp("runs") / "log"
    for run in range(N_RUNS):
        policy = ove.TabularPolicy([[0.5, 0.5]])
        env = ove.LogActionProbability(Waiting(), policy, folder, durability="normal")
        observation, _ = env.reset(seed=1000 + run)
        for _ in range(3):
            action, _ = policy.predict(np.array(observation))
            observation, _, over, _, _ = env.step(int(action))
            if over:
                observation, _ = env.reset()
        env.close()
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
