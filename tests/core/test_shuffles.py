"""Several shuffles: the bound that most agree on is valid, and depends little on the seed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

import ove_sb3 as ove
from ove_sb3.core.assumptions import Assumptions
from ove_sb3.core.methods.base import Tails
from ove_sb3.core.sample import Sample
from tests.problems.chain import chain
from tests.problems.gridworld import gridworld


def test_the_bound_is_the_one_that_eight_of_ten_orders_agree_on() -> None:
    problem = chain(5)
    stats = problem.statistics(300, np.random.default_rng(0))
    assumptions = Assumptions(
        gamma=stats.gamma, horizon=stats.horizon, reward_range=problem.reward_range
    )
    limits = assumptions.limits(stats)
    rng = np.random.default_rng(5)
    samples = [Sample(stats, limits, rng.permutation(300), None) for _ in range(10)]
    for quantity in (ove.Mean(), ove.Variance()):
        inputs = ove.MethodInputs(
            stats, limits, Tails(0.1, 0.05), adaptive=False, rng=np.random.default_rng(5)
        )
        lower, upper = ove.Betting().bounds(quantity, inputs)
        at_least = [quantity.betting_lower(sample, 0.08) >= lower for sample in samples]
        at_most = [quantity.betting_upper(sample, 0.04) <= upper for sample in samples]
        assert sum(at_least) >= 8
        assert sum(at_most) >= 8
        # No tighter bound is supported by as many orders.
        assert sum(quantity.betting_lower(s, 0.08) > lower for s in samples) < 8
        assert sum(quantity.betting_upper(s, 0.04) < upper for s in samples) < 8


def test_one_shuffle_and_an_order_that_matters_use_the_whole_level() -> None:
    problem = chain(5)
    stats = problem.statistics(300, np.random.default_rng(0))
    one, ten = (
        [
            ove.mean_interval(
                stats,
                reward_range=problem.reward_range,
                adaptive=adaptive,
                method=ove.Betting(n_shuffles=n_shuffles),
            )
            for adaptive in (False, True)
        ]
        for n_shuffles in (1, 10)
    )
    assert one[0] != ten[0]
    assert one[1] == ten[1]
    with pytest.raises(ove.InvalidInputError, match="`n_shuffles` must be"):
        ove.Betting(n_shuffles=0)


def test_the_seed_matters_less() -> None:
    problem = chain(5)
    stats = problem.statistics(400, np.random.default_rng(1))
    spread = {}
    for n_shuffles in (1, 10):
        method = ove.Betting(n_shuffles=n_shuffles)
        bounds = [
            ove.mean_interval(
                stats, reward_range=problem.reward_range, method=method, side="lower", rng=seed
            ).lower
            for seed in range(12)
        ]
        spread[n_shuffles] = np.std(bounds)
    assert spread[10] < 0.6 * spread[1]


def test_a_pilot_that_is_far_off_costs_little() -> None:
    # In one of these orders the pilot's variance is 1.36, a hundred standard errors of the bound
    # from the truth. A grid that is coarse so far from its center costs up to 0.06.
    problem = gridworld(6)
    stats = problem.statistics(100_000, np.random.default_rng([0, 100_000]))
    for seed in range(4):
        interval = ove.variance_interval(
            stats,
            reward_range=problem.reward_range,
            max_ratio=2.0,
            method=ove.Betting(n_shuffles=1),
            side="lower",
            rng=seed,
        )
        assert problem.variance - 0.02 < interval.lower < problem.variance


def test_bounds_hold() -> None:
    problem, misses, n_trials = chain(3), 0, 60
    for trial in range(n_trials):
        stats = problem.statistics(120, np.random.default_rng([trial, 3]))
        interval = ove.mean_interval(stats, reward_range=problem.reward_range, delta=0.3)
        misses += not interval.lower <= problem.mean <= interval.upper
    assert binomtest(misses, n_trials, 0.3, alternative="greater").pvalue > 1e-4
