"""Bounds from the log of a training run in several environments, against the exact truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove
from tests.problems.three_states import GAMMA, HORIZON, REWARD_RANGE, ThreeStates, exact

CANDIDATE = np.array([[0.3, 0.7], [0.6, 0.4], [0.5, 0.5]])
N_ENVS = 4


def learn_and_log(seed: int) -> ove.Trajectories:
    """Log of PPO learning fast: its policy changes every 16 steps."""
    venv = ove.VecLogActionProbability(
        DummyVecEnv([ThreeStates] * N_ENVS), reward_range=REWARD_RANGE
    )
    model = PPO(
        "MlpPolicy",
        venv,
        n_steps=16,
        batch_size=64,
        n_epochs=2,
        learning_rate=0.003,
        ent_coef=0.05,
        policy_kwargs={"net_arch": [8]},
        device="cpu",
        seed=seed,
    )
    venv.set_model(model)
    model.learn(1024)
    return venv.trajectories()


@pytest.mark.parametrize(
    "n_runs", [pytest.param(12, id="fast"), pytest.param(300, id="full", marks=pytest.mark.slow)]
)
def test_bounds_from_a_log_of_learning_hold(n_runs: int) -> None:
    # A large delta, so that misses do occur and their number can be tested.
    delta = 0.4
    truth = exact(CANDIDATE)
    misses = np.zeros(2, dtype=int)
    widths = []
    for seed in range(n_runs):
        data = learn_and_log(seed)
        assert data.metadata.adaptive
        assert data.overlaps is not None
        log_probs = np.log(CANDIDATE[np.asarray(data.observations), data.actions])
        result = ove.evaluate(
            data,
            log_probs,
            gamma=GAMMA,
            horizon=HORIZON,
            delta=delta,
            quantities=["mean", "variance"],
            approximate=None,
        )
        for k, name in enumerate(("mean", "variance")):
            interval = result[name].interval
            # Bounds that cross, as they may at this delta, are a miss and not guaranteed.
            assert interval.guaranteed == interval.consistent
            misses[k] += truth[k] not in interval
        widths.append(result["variance"].interval.width)
    assert np.mean(widths) < 1.5, "uninformative bounds cover everything"
    for count in misses:
        p_value = binomtest(int(count), n_runs, delta, alternative="greater").pvalue
        assert p_value > 1e-3, f"{misses} of {n_runs} runs miss the mean and the variance"
