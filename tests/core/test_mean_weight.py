"""Importance weights are 1 on average: data that contradict it are refused, and no others."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

import ove_sb3 as ove
from ove_sb3.core.assigned import ARMS, SHARES
from ove_sb3.core.assumptions import check_mean_weight
from tests.policies.toys import make_model, toys

TOO_SMALL = "significantly less than 1"


def statistics(weights: ArrayLike) -> ove.TrajectoryStatistics:
    weights = np.asarray(weights, float)
    with np.errstate(divide="ignore"):
        logs, n = np.log(weights), weights.size
    ones = np.ones(n, dtype=int)
    return ove.trajectory_statistics(logs, np.zeros(n), ones, gamma=1.0, horizon=1)


def refused(weights: ArrayLike, max_weight: float, n_unfinished: int = 0) -> bool:
    try:
        check_mean_weight(statistics(weights), n_unfinished, max_weight)
    except ove.MeanWeightError as error:
        return TOO_SMALL in str(error)
    return False


@pytest.mark.parametrize("stated", [{"max_weight": 1.0}, {"max_ratio": 1.0}])
def test_a_log_that_lacks_actions_of_the_candidate_is_refused(stated: dict[str, Any]) -> None:
    model, venv = make_model("PPO-discrete"), toys(2)
    data = ove.collect(model, venv, 100, seed=0, deterministic=True)
    uniform = ove.UniformPolicy(venv.action_space)
    with pytest.raises(ove.MeanWeightError, match=f"{TOO_SMALL}.*lacks actions.*mixture"):
        ove.evaluate(data, uniform, gamma=1.0, reward_range=(0, 3), horizon=10, **stated)


def test_ratios_of_at_most_1_bound_weights_without_a_horizon() -> None:
    n = 100
    halves, lengths = np.full(2 * n, np.log(0.5)), np.full(n, 2)
    stats = ove.trajectory_statistics(halves, np.zeros(2 * n), lengths, gamma=0.9)
    with pytest.raises(ove.MeanWeightError, match=TOO_SMALL):
        ove.mean_interval(stats, reward_range=(0, 1), max_ratio=1.0)


def test_probabilities_that_are_too_large_are_refused() -> None:
    rng = np.random.default_rng(0)
    weights = np.where(rng.random(2_000) < 0.5, 2.0, 0.0)
    ove.mean_interval(statistics(weights), reward_range=(0, 1), max_weight=2.0)
    with pytest.raises(ove.MeanWeightError, match=TOO_SMALL):
        ove.mean_interval(statistics(0.8 * weights), reward_range=(0, 1), max_weight=2.0)
    # Without a bound, large weights may just not have occurred.
    ove.mean_interval(statistics(0.8 * weights), reward_range=(0, 1))


def test_few_small_weights_prove_nothing() -> None:
    assert not refused(np.zeros(10), 2.0)
    assert not refused(np.zeros(100), 50.0)
    assert refused(np.zeros(1_000), 50.0)


def test_rounding_proves_nothing() -> None:
    assert not refused(np.full(100_000, 1.0 - 1e-6), 1.0)
    assert not refused(np.full(100_000, 1.0 - 1e-6), 1.0 + 1e-9)


@pytest.mark.parametrize("bound", [1.25, 4.0, 50.0])
def test_rare_large_weights_are_never_refused(bound: float) -> None:
    rng = np.random.default_rng(0)
    for n in rng.integers(1, 5_000, size=500):
        weights = np.where(rng.random(n) < 1 / bound, bound, 0.0)
        assert not refused(weights, bound)


@pytest.mark.parametrize("bound", [1.5, 4.0, 50.0])
def test_right_weights_are_refused_with_probability_1e_6(bound: float) -> None:
    """By the exact distribution of the number of large weights."""
    n, p = 1_000, 1 / bound
    large = np.arange(n + 1)
    log_choose = np.concatenate([[0.0], np.cumsum(np.log(n - large[:-1]) - np.log(large[1:]))])
    chance = np.exp(log_choose + large * np.log(p) + (n - large) * np.log1p(-p))
    assert chance.sum() == pytest.approx(1.0)

    def accepted(k: int) -> bool:
        return not refused(np.where(np.arange(n) < k, bound, 0.0), bound)

    fewest = bisect_left(range(n + 1), True, key=accepted)
    assert fewest > 0
    assert chance[:fewest].sum() <= 1e-6


def test_unfinished_trajectories_may_have_the_largest_weight() -> None:
    zeros = np.zeros(500)  # those of weight 4 never ended
    assert refused(zeros, 4.0)
    assert not refused(zeros, 4.0, n_unfinished=170)
    assert refused(np.full(500, 0.5), 1.0, n_unfinished=170)  # they cannot make up for it


def test_assigned_trajectories_count_with_their_realized_shares() -> None:
    # The shares of the weights are 1/2 each, but the arm that the candidate equals acted rarely.
    n, rare = 1_000, 200
    weights = np.where(np.arange(n) < rare, 2.0, 0.0)
    stats = statistics(weights)
    columns = {ARMS: (weights == 0.0).astype(float), SHARES: np.full(n, 0.5)}
    check_mean_weight(replace(stats, columns={**stats.columns, **columns}), 0, 2.0)
    assert refused(weights, 2.0)
