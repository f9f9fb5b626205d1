"""Bounds reported in training, against the exact mean and variance of every checkpoint."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest
from stable_baselines3.common.callbacks import BaseCallback

import ove_sb3 as ove
from tests.problems.three_states import GAMMA, UNIFORM, exact, probabilities, simulate, small_ppo

N_EVALUATIONS = 6


class Truth(BaseCallback):
    """Record the exact mean and variance of the model at every evaluation."""

    def __init__(self, gamma: float = GAMMA) -> None:
        super().__init__()
        self.gamma = gamma
        self.values: list[tuple[float, float]] = []

    def _on_step(self) -> bool:
        self.values.append(exact(probabilities(self.model), self.gamma))
        return True


def misses(callback: ove.OffPolicyVarianceCallback, truth: Truth) -> NDArray[np.bool_]:
    """Whether the bounds miss, by evaluation and quantity, (n_evaluations, 2)."""
    rows = callback.evaluations
    lower = np.stack([rows["mean_lower"], rows["variance_lower"]], axis=1)
    upper = np.stack([rows["mean_upper"], rows["variance_upper"]], axis=1)
    values = np.array(truth.values)
    assert values.shape == lower.shape
    return (values < lower - 1e-9) | (values > upper + 1e-9)


def run(seed: int, n: int, **options: Any) -> tuple[ove.OffPolicyVarianceCallback, Truth]:
    """One short training run, evaluated from `n` episodes of the uniform policy."""
    data = simulate(UNIFORM, n, np.random.default_rng([seed, 1]))
    truth = Truth()
    callback = ove.OffPolicyVarianceCallback(
        data,
        eval_freq=32,
        callback_after_eval=truth,
        method=ove.Betting(n_shuffles=1),
        verbose=0,
        **options,
    )
    small_ppo(seed).learn(32 * (N_EVALUATIONS - 1), callback=callback)
    assert callback.n_evaluations == N_EVALUATIONS
    return callback, truth


def test_the_dynamic_program_agrees_with_simulation() -> None:
    policy = np.array([[0.2, 0.8], [0.7, 0.3], [0.4, 0.6]])
    returns = simulate(policy, 200_000, np.random.default_rng(0)).returns(GAMMA)
    mean, variance = exact(policy)
    assert abs(returns.mean() - mean) < 4 * np.sqrt(variance / returns.size)
    spread = np.square(returns - mean).std() / np.sqrt(returns.size)
    assert abs(returns.var() - variance) < 4 * spread


def test_the_bounds_cover_the_truth_and_the_estimates_are_close() -> None:
    callback, truth = run(seed=0, n=20_000)
    assert not misses(callback, truth).any()
    rows, values = callback.evaluations, np.array(truth.values)
    assert np.ptp(values[:, 0]) > 0.1, "a test without power: the model did not change"
    assert np.allclose(rows["mean"], values[:, 0], atol=0.05)
    assert np.allclose(rows["variance"], values[:, 1], atol=0.08)
    width = np.subtract(rows["variance_upper"], rows["variance_lower"])
    assert width.max() < 2.0, "uninformative bounds cover everything"


@pytest.mark.parametrize(
    "n_runs", [pytest.param(16, id="fast"), pytest.param(240, id="full", marks=pytest.mark.slow)]
)
def test_all_bounds_of_a_run_hold_together(n_runs: int) -> None:
    # A large delta, so that misses do occur and their number can be tested.
    delta = 0.5
    any_miss = [misses(*run(seed, 300, delta=delta)).any() for seed in range(n_runs)]
    p_value = binomtest(sum(any_miss), n_runs, delta, alternative="greater").pvalue
    assert p_value > 1e-3, f"{sum(any_miss)} of {n_runs} runs have a miss"


@pytest.mark.slow
def test_the_bounds_of_every_single_evaluation_hold() -> None:
    delta, n_runs = 0.5, 240
    missed = np.array(
        [misses(*run(seed, 300, delta=delta, error_spending="each")) for seed in range(n_runs)]
    )
    for k in range(N_EVALUATIONS):
        count = int(missed[:, k].any(axis=1).sum())
        assert binomtest(count, n_runs, delta, alternative="greater").pvalue > 1e-3
