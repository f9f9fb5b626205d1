"""Evaluations of the same model on a growing log share one part of delta."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.callbacks import BaseCallback, CallbackList

import ove_sb3 as ove
from ove_sb3.evaluation.error_budget import ErrorBudget
from tests.problems.queue import Queue
from tests.problems.three_states import UNIFORM, simulate, small_ppo
from tests.problems.visits import Visits

QUEUE = Queue(4, 0, (5, 2), (1.0, 0.0))


class Logging(BaseCallback):
    """Log episodes to the same directory after every training step."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.visits = Visits(QUEUE, path, seed=0)
        self.visits.run(100)

    def _on_step(self) -> bool:
        self.visits.run(5)
        return True


def visits_ppo() -> Any:
    import gymnasium as gym
    from stable_baselines3 import PPO

    from tests.problems.visits import Visit

    env = gym.wrappers.TimeLimit(Visit(QUEUE), 6)
    return PPO("MlpPolicy", env, n_steps=32, batch_size=32, seed=0, device="cpu", gamma=1.0)


def test_evaluations_of_the_same_model_share_its_part(tmp_path: Path) -> None:
    path = tmp_path / "log"
    callback = ove.OffPolicyVarianceCallback(
        path,
        reward_range=(0, 1),
        return_range=(0, 1),
        eval_freq=8,
        verbose=0,
        error_spending="anytime",
        requirements=["mean <= 0.95"],
    )
    model = visits_ppo()
    model.learn(64, callback=CallbackList([Logging(path), callback]))
    rows = callback.evaluations
    # Four evaluations of each of two models, then one of the final model.
    number = np.array([1] * 4 + [2] * 4 + [3])
    expected = [ErrorBudget(0.05, evaluation=int(k)).evaluation_delta for k in number]
    np.testing.assert_allclose(rows["delta"], expected)
    assert (np.diff(rows["n_trajectories"][:8]) > 0).all()
    assert rows["guaranteed"].all()
    last = callback.last_evaluation
    assert last is not None
    assert "logging may stop at any time" in last["mean"].interval.assumptions[0]
    assert callback.satisfied


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    options: dict[str, Any] = {"error_spending": "anytime", "reward_range": (-1, 1), "verbose": 0}
    data = simulate(UNIFORM, 100, np.random.default_rng(0))
    with pytest.raises(ove.InvalidInputError, match="unless `data` is a log directory"):
        ove.OffPolicyVarianceCallback(data, **options)
    with pytest.raises(ove.InvalidInputError, match="`method` must be 'betting'"):
        ove.OffPolicyVarianceCallback(tmp_path / "log", method="paper", **options)
    data.save(tmp_path / "fixed")
    callback = ove.OffPolicyVarianceCallback(tmp_path / "fixed", eval_freq=8, **options)
    with pytest.raises(ove.InvalidInputError, match="records every episode when it begins"):
        small_ppo().learn(16, callback=callback)


def test_writers_at_the_same_time_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    callback = ove.OffPolicyVarianceCallback(
        path, reward_range=(0, 1), eval_freq=32, verbose=0, error_spending="anytime"
    )
    first, second = Visits(QUEUE, path, seed=0), Visits(QUEUE, path, seed=1)
    first.run(100)
    second.run(100)

    class More(BaseCallback):
        def _on_step(self) -> bool:
            first.run(2)
            return True

    with pytest.raises(ove.InvalidInputError, match="whose writers followed one another"):
        visits_ppo().learn(96, callback=CallbackList([More(), callback]))
