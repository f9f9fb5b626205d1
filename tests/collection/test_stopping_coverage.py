"""Logs of stable-baselines3 models that stop after a number of steps, against the exact truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove
from ove_sb3.core import inference
from tests.problems.queue import Queue
from tests.problems.visits import Visit

DELTA = 0.2
SIGNIFICANT = 1e-3
N_LOGS = 60
LATER = 0.5  # probability of action 0 after the first step, where actions do nothing


def ppo(venv: Any, first: float, later: float = LATER, **options: Any) -> PPO:
    """PPO that takes action 0 with probability `first` at first, then `later`."""
    model = PPO("MlpPolicy", venv, policy_kwargs={"net_arch": []}, device="cpu", **options)
    with torch.no_grad():
        logits = torch.logit(torch.tensor([first, later], dtype=torch.float64)).float()
        network: Any = model.policy.action_net
        network.weight.copy_(torch.stack([logits, torch.zeros(2)]))
        network.bias.zero_()
    return model


@dataclass(frozen=True)
class Case:
    """A way to log visits, and the bounds that are stated about the candidate."""

    queue: Queue
    log: Callable[[Queue, int], ove.Trajectories]
    later: float = LATER  # of the candidate
    stated: str | None = "max_weight"

    @property
    def bounds(self) -> dict[str, float]:
        if self.stated is None:
            return {}
        largest = self.queue.max_ratio
        assert largest is not None
        return {self.stated: largest * (1 + 1e-6)}


def venv_of(queue: Queue, seed: int) -> DummyVecEnv:
    venv = DummyVecEnv([lambda: Visit(queue)] * queue.n_envs)
    venv.seed(seed)
    return venv


def vectorized_loop(queue: Queue, seed: int, **options: Any) -> ove.Trajectories:
    """A loop over steps with the vectorized wrapper, which goes on after the last logged step."""
    total = queue.n_envs * queue.n_steps
    logged = ove.VecLogActionProbability(
        venv_of(queue, seed), **{"total_timesteps": total, **options}
    )
    model = ppo(logged, 0.5, seed=seed)
    logged.set_model(model)
    observations: Any = logged.reset()
    for _ in range(queue.n_steps + 3 * ("total_timesteps" not in options)):
        observations, _, _, _ = logged.step(model.predict(observations)[0])
    return logged.trajectories()


def loop_without_plan(queue: Queue, seed: int) -> ove.Trajectories:
    """A vectorized loop whose number of steps is not known in advance."""
    return vectorized_loop(queue, seed, total_timesteps=None)


def single_loop(queue: Queue, seed: int) -> ove.Trajectories:
    """A loop over steps with the wrapper of one environment."""
    env = ove.LogActionProbability(Visit(queue), total_timesteps=queue.n_steps)
    model = ppo(DummyVecEnv([lambda: Visit(queue)]), 0.5, seed=seed)
    env.set_model(model)
    observation, _ = env.reset(seed=seed)
    for _ in range(queue.n_steps):
        observation, _, terminated, truncated, _ = env.step(model.predict(observation)[0])
        if terminated or truncated:
            observation, _ = env.reset()
    return env.trajectories()


def learning(queue: Queue, seed: int) -> ove.Trajectories:
    """PPO that learns, for a number of steps."""
    logged = ove.VecLogActionProbability(venv_of(queue, seed))
    n_steps = queue.n_steps // 5
    options = {"n_steps": n_steps, "batch_size": queue.n_envs * n_steps, "n_epochs": 2}
    model = ppo(logged, 0.5, seed=seed, learning_rate=0.01, **options)
    logged.set_model(model)
    model.learn(queue.n_envs * queue.n_steps)
    return logged.trajectories()


LONG_IS_GOOD, LONG_IS_BAD = (1.0, 0.0), (0.0, 1.0)
CASES = {
    "one environment": Case(Queue(1, 400, (20, 2), LONG_IS_GOOD), single_loop),
    "hardly any": Case(Queue(2, 2500, (10, 2), LONG_IS_BAD), vectorized_loop),
    "sixteen": Case(Queue(16, 100, (40, 2), LONG_IS_GOOD), vectorized_loop),
    "sixteen, nothing stated": Case(
        Queue(16, 100, (2, 40), LONG_IS_GOOD), vectorized_loop, stated=None
    ),
    "a ratio at every step": Case(
        Queue(64, 12, (4, 1), LONG_IS_BAD, candidate=0.6), vectorized_loop, 0.55, "max_ratio"
    ),
    "many": Case(Queue(256, 30, (20, 2), LONG_IS_GOOD), vectorized_loop),
    "more": Case(Queue(1024, 12, (10, 1), LONG_IS_BAD), vectorized_loop),
    "two of five": Case(Queue(512, 12, (12, 2), LONG_IS_GOOD), vectorized_loop),
    "without a plan": Case(Queue(64, 40, (12, 1), LONG_IS_GOOD), loop_without_plan),
    "learning": Case(Queue(16, 100, (40, 2), LONG_IS_GOOD), learning, stated=None),
    "many learning": Case(Queue(128, 30, (20, 2), LONG_IS_BAD), learning, stated=None),
}


def forgotten(data: ove.Trajectories) -> ove.Trajectories:
    """The episodes that ended, without the record of those that did not."""
    metadata = replace(data.metadata, begun={}, adaptive=False)
    return replace(data, begins=None, overlaps=None, metadata=metadata)


def misses(case: Case, n_logs: int, *, forget: bool = False) -> tuple[dict[str, int], list[float]]:
    """Number of misses of each bound, and the fraction of episodes that never ended by log."""
    queue = case.queue
    candidate = ppo(venv_of(queue, 0), queue.candidate, case.later)
    counts = dict.fromkeys(("mean below", "mean above", "variance below", "variance above"), 0)
    fractions = []
    for seed in range(n_logs):
        data = case.log(queue, seed)
        fractions.append(data.metadata.incomplete_fraction)
        result = ove.evaluate(
            forgotten(data) if forget else data,
            candidate,
            gamma=1.0,
            reward_range=(0, 1),
            return_range=(0, 1),
            horizon=max(queue.lengths),
            quantities=("mean", "variance"),
            delta=DELTA,
            method=ove.Betting(n_shuffles=1),
            approximate=None,
            **case.bounds,  # type: ignore[arg-type]
        )
        for name, truth in queue.truth.items():
            interval = result[name].interval
            assert interval.guaranteed or not interval.consistent
            counts[f"{name} below"] += truth < interval.lower
            counts[f"{name} above"] += truth > interval.upper
    return counts, fractions


def check(counts: dict[str, int], n_logs: int) -> None:
    for name, count in counts.items():
        p_value = binomtest(count, n_logs, DELTA / 2, alternative="greater").pvalue
        assert p_value > SIGNIFICANT, f"{count} of {n_logs} bounds miss: {name}"


@pytest.mark.parametrize("name", ["sixteen", "many", "learning"])
def test_bounds_hold(name: str) -> None:
    counts, _ = misses(CASES[name], 5)
    check(counts, 5)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_bounds_hold_in_many_logs(name: str) -> None:
    counts, fractions = misses(CASES[name], N_LOGS)
    check(counts, N_LOGS)
    assert 0.0 < np.mean(fractions) < 0.45
    if name == "hardly any":
        assert np.mean(fractions) < 0.003
    if name == "two of five":
        assert np.mean(fractions) > 0.38


@pytest.mark.parametrize("name", ["many", "many learning"])
def test_without_the_unfinished_ones_bounds_would_fail(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounds from these logs, if the episodes that never ended had not been recorded."""
    # Most such logs are refused, because their mean weight is too small.
    monkeypatch.setattr(inference, "check_mean_weight", lambda *_: None)
    counts, _ = misses(CASES[name], 5, forget=True)
    p_value = binomtest(max(counts.values()), 5, DELTA / 2, alternative="greater").pvalue
    assert p_value < SIGNIFICANT, f"a test without power: {counts}"
