"""Bet sizes that hedge an option on the sum of the observations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

import ove_sb3 as ove
from ove_sb3.core.betting.hedging import hedge
from tests.problems.bandits import recommender

ONE_ORDER = ove.Betting(n_shuffles=1)


@pytest.mark.parametrize("p", [0.999, 0.9, 0.5, 0.025, 1e-5, 1e-30, 1e-190])
def test_bets_are_the_hazard_rate_of_the_normal_distribution(p: float) -> None:
    rate = norm.pdf(norm.isf(p)) / p
    assert hedge(-math.log(p)) == pytest.approx(rate, rel=1e-5, abs=1e-4)


def test_nothing_is_bet_once_the_aim_is_reached() -> None:
    assert hedge(0.0) == hedge(-1.0) == 0.0


def test_a_hopeless_capital_bets_as_much_as_the_limit_says() -> None:
    assert hedge(600.0) == pytest.approx(math.sqrt(1200.0))


def test_the_bound_depends_little_on_the_order() -> None:
    problem = recommender()
    stats = problem.statistics(1000, np.random.default_rng(0))
    intervals = [
        ove.mean_interval(stats, reward_range=(0, 10), method=ONE_ORDER, rng=seed)
        for seed in range(40)
    ]
    for bounds in np.array([(found.lower, found.upper) for found in intervals]).T:
        # 0.12 with bets that do not hedge.
        assert bounds.std() < 0.1 * abs(bounds.mean() - problem.mean)


def test_an_outcome_that_the_first_trajectories_lack_still_has_a_bound() -> None:
    problem = recommender()
    x, share = 7.369, 0.01  # some 60 of 10,000 logged returns are above x
    for log in range(8):
        stats = problem.statistics(10_000, np.random.default_rng([log, 1]))
        found = ove.interval(stats, f"p_below:{x}", reward_range=(0, 10), method=ONE_ORDER, rng=log)
        assert found.upper < 1.0 - share / 4
