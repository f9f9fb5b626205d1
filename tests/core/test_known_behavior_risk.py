"""Quantiles, CVaR and probabilities for a known behavior: misses, and widths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core.truncation import column_names
from tests.misses import Misses
from tests.problems.bandits import continuous_bandit
from tests.problems.risk import problems, truth

from .test_coverage import ONE_ORDER, in_turn
from .test_truncation import candidate_returns, enumerated

OUTCOMES = {name: problem for name, problem in problems().items() if problem.max_weight is not None}
SEVERAL_STEPS = "several steps"
QUANTITIES = (
    *("quantile:0.05", "quantile:0.25", "median", "quantile:0.9"),
    *("cvar:0.1", "cvar:0.4", "p_below:0.5"),
)


def distribution(name: str) -> dict[float, float]:
    """The candidate's probability of every return, in increasing order."""
    if name != SEVERAL_STEPS:
        return OUTCOMES[name].distribution
    result: dict[float, float] = {}
    for p, value in zip(*candidate_returns(), strict=True):
        value = round(float(value), 12)
        result[value] = result.get(value, 0.0) + float(p)
    return dict(sorted(result.items()))


def logs(
    name: str, n: int, trials: int
) -> tuple[tuple[float, float], Iterator[ove.TrajectoryStatistics]]:
    """Range of the reward, and logs of n trajectories with truncated weights."""
    if name == SEVERAL_STEPS:
        problem = enumerated(1)
        every, chances, reward_range = problem.statistics(), problem.probabilities, (-1.0, 1.0)
    else:
        every, chances = OUTCOMES[name].known_outcomes()
        reward_range = OUTCOMES[name].reward_range
    drawn = (
        np.random.default_rng([t, n]).choice(chances.size, n, p=chances) for t in range(trials)
    )
    return reward_range, (every.select(one) for one in drawn)


NAMES = (*OUTCOMES, SEVERAL_STEPS)
SIZES, DELTAS = (100, 1_000, 5_000), (0.05, 0.4)


def check_misses(name: str, n: int, deltas: Mapping[str, float], trials: int) -> None:
    """Count the misses of all quantities, each at its delta, until they are known to be rare."""
    values = {quantity: truth(distribution(name), quantity) for quantity in deltas}
    counts = {quantity: Misses(delta) for quantity, delta in deltas.items()}
    reward_range, all_stats = logs(name, n, trials)
    for stats in all_stats:
        assert column_names(2.0)[0] in stats.columns
        left = [quantity for quantity, count in counts.items() if not count.settled]
        if not left:
            break
        for quantity in left:
            interval = ove.interval(
                stats,
                quantity,
                reward_range=reward_range,
                delta=deltas[quantity],
                method=ONE_ORDER,
            )
            counts[quantity].add(interval, values[quantity])
    for quantity, count in counts.items():
        count.check(quantity)


@pytest.mark.parametrize("name", ["rare heavy low", "rare heavy high", SEVERAL_STEPS])
def test_coverage(name: str) -> None:
    quantities = ("quantile:0.05", "median", "cvar:0.4")
    check_misses(name, 200, dict.fromkeys(quantities, 0.4), trials=20)


@pytest.mark.slow
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_coverage_on_all_problems(name: str, n: int) -> None:
    turn = NAMES.index(name) + SIZES.index(n)
    check_misses(name, n, in_turn(QUANTITIES, DELTAS, turn), trials=300)


def ends(quantity: str, side: str, n: int, *, known: bool, trials: int) -> float:
    """Mean bound of Gaussian actions 1.27 standard deviations apart."""
    problem = continuous_bandit(1.27)
    total = 0.0
    for trial in range(trials):
        stats = problem.statistics(n, np.random.default_rng([trial, n]), known=known)
        found = ove.interval(
            stats,
            quantity,
            reward_range=problem.reward_range,
            delta=0.025,
            side=side,
            method=ONE_ORDER,
        )
        total += float(getattr(found, side)) / trials
    return total


@pytest.mark.parametrize(("quantity", "gain"), [("quantile:0.1", 0.1), ("cvar:0.25", 0.2)])
def test_a_known_behavior_raises_the_lower_bound_where_weights_are_heavy(
    quantity: str, gain: float
) -> None:
    without, with_known = (
        ends(quantity, "lower", 10_000, known=known, trials=5) for known in (False, True)
    )
    assert with_known > without + gain


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 100, 1_000, 10_000])
@pytest.mark.parametrize("quantity", QUANTITIES[:-1])
def test_intervals_are_not_wider_than_without(quantity: str, n: int) -> None:
    widths = [
        ends(quantity, "upper", n, known=known, trials=20)
        - ends(quantity, "lower", n, known=known, trials=20)
        for known in (False, True)
    ]
    assert widths[1] <= 1.05 * widths[0]
