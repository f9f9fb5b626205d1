"""Guaranteed intervals from logs of a SAC model that acts near a bound, against the exact truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove
from tests.policies.fixed_gaussians import OneStep, at_most, squashed

N_ENVS, N_EPISODES, DELTA = 50, 1500, 0.2
MEAN, STD = 7.2, 0.1


class Threshold(OneStep):
    """Reward 1 for an action above the median of the behavior, which is close to the bound."""

    def __init__(self) -> None:
        super().__init__(0.0, 0.2)
        space: Any = self.action_space
        self.median = space.low + 0.5 * (np.float32(np.tanh(MEAN)) + 1.0) * (space.high - space.low)

    def reward(self, action: Any) -> float:
        return float(action[0] > self.median[0])


@pytest.mark.parametrize(
    "n_logs", [pytest.param(10, id="fast"), pytest.param(300, id="full", marks=pytest.mark.slow)]
)
def test_intervals_of_a_saturated_policy_hold(n_logs: int) -> None:
    """The actions are those of SB3's `predict`, logged by the wrapper."""
    env = Threshold()
    behavior = squashed("SAC", env, MEAN, STD)
    candidate = squashed("SAC", env, MEAN + STD, STD)
    single = np.exp(np.float32(np.log(STD)))
    mean = 1.0 - at_most(env.median[0], env.action_space, float(np.float32(MEAN + STD)), single)  # type: ignore[arg-type]
    truth = {"mean": mean, "variance": mean * (1.0 - mean)}
    venv = ove.VecLogActionProbability(DummyVecEnv([Threshold] * N_ENVS), reward_range=(0, 1))
    venv.set_model(behavior)
    observations = venv.reset()
    for _ in range(n_logs * N_EPISODES // N_ENVS):
        observations = venv.step(behavior.predict(observations)[0])[0]
    data = venv.trajectories()
    log_probs = ove.log_prob(candidate, data)
    misses = dict.fromkeys(truth, 0)
    for k in range(n_logs):
        rows = slice(k * N_EPISODES, (k + 1) * N_EPISODES)
        result = ove.evaluate(
            data[rows],
            log_probs[rows],
            gamma=1.0,
            horizon=1,
            quantities=[*truth],
            delta=DELTA,
            method=ove.Betting(n_shuffles=1),
            approximate=None,
        )
        for name, value in truth.items():
            interval = result[name].interval
            assert interval.width < 0.3, "uninformative bounds cover everything"
            assert interval.guaranteed or not interval.consistent
            misses[name] += value not in interval  # bounds that cross miss
    for name, count in misses.items():
        p_value = binomtest(count, n_logs, DELTA, alternative="greater").pvalue
        assert p_value > 1e-3, f"{count} of {n_logs} intervals miss the {name}"
