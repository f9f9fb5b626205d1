"""Intervals from environments that reuse or overwrite their arrays, against the exact truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from scipy.stats import binomtest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove
from ove_sb3.collection import step_logger, steps
from tests.collection.test_scribbling import Reusing, Scribbling, VecScribbling, owned
from tests.problems.corridor import (
    GAMMA,
    REWARD_RANGE,
    choices,
    exact_moments,
    make_env,
    make_model,
)

DELTA = 0.2
N_EPISODES, N_ENVS = 200, 8
Log = Callable[[PPO, int], ove.Trajectories]


def collect_single(model: PPO, seed: int) -> ove.Trajectories:
    return ove.collect(model, Reusing(make_env()), N_EPISODES, seed=seed)


def collect_vectorized(model: PPO, seed: int) -> ove.Trajectories:
    venv = VecScribbling(DummyVecEnv([make_env] * N_ENVS))
    return ove.collect(model, venv, N_EPISODES, seed=seed)


def single_wrapper(model: PPO, seed: int) -> ove.Trajectories:
    model.set_random_seed(seed)
    env: gym.Env[Any, Any] = ove.LogActionProbability(Scribbling(make_env()), model)
    for episode in range(N_EPISODES):
        observation, _ = env.reset(seed=seed if episode == 0 else None)
        ended = False
        while not ended:
            action, _ = model.predict(owned(observation))
            observation, _, terminated, truncated, _ = env.step(np.array(action))
            ended = terminated or truncated
    return env.trajectories()  # type: ignore[attr-defined, no-any-return]


def vectorized_wrapper(model: PPO, seed: int) -> ove.Trajectories:
    model.set_random_seed(seed)
    venv = DummyVecEnv([make_env] * N_ENVS)
    venv.seed(seed)
    total = 5 * N_EPISODES
    logged = ove.VecLogActionProbability(VecScribbling(venv), model, total_timesteps=total)
    observations = owned(logged.reset())
    for _ in range(total // N_ENVS):
        actions, _ = model.predict(observations)
        observations = owned(logged.step(np.array(actions))[0])
    return logged.trajectories()


LOGS: tuple[Log, ...] = (collect_single, collect_vectorized, single_wrapper, vectorized_wrapper)


def misses(log: Log, n_logs: int) -> dict[str, int]:
    """Number of misses of each bound."""
    behavior, candidate = make_model(0), make_model(2)
    mean, variance = exact_moments(choices(candidate))
    counts = dict.fromkeys(("mean below", "mean above", "variance below", "variance above"), 0)
    for seed in range(n_logs):
        result = ove.evaluate(
            log(behavior, seed),
            candidate,
            gamma=GAMMA,
            reward_range=REWARD_RANGE,
            quantities=("mean", "variance"),
            delta=DELTA,
            method=ove.Betting(n_shuffles=1),
            approximate=None,
        )
        for name, truth in (("mean", mean), ("variance", variance)):
            interval = result[name].interval
            assert interval.guaranteed or not interval.consistent
            counts[f"{name} below"] += truth < interval.lower
            counts[f"{name} above"] += truth > interval.upper
    return counts


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize(
    "n_logs", [pytest.param(3, id="fast"), pytest.param(60, id="full", marks=pytest.mark.slow)]
)
def test_bounds_hold(log: Log, n_logs: int) -> None:
    for name, count in misses(log, n_logs).items():
        p_value = binomtest(count, n_logs, DELTA / 2, alternative="greater").pvalue
        assert p_value > 1e-3, f"{count} of {n_logs} bounds miss: {name}"


def test_without_copies_bounds_would_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds from arrays that are recorded without a copy, after they were overwritten."""
    for module in (steps, step_logger):
        monkeypatch.setattr(module, "copy_observations", lambda observations: observations)
    n_logs = 5
    counts = misses(vectorized_wrapper, n_logs)
    p_value = binomtest(max(counts.values()), n_logs, DELTA / 2, alternative="greater").pvalue
    assert p_value < 1e-3, f"a test without power: {counts}"
