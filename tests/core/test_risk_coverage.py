"""Guaranteed bounds on quantiles, CVaR and probabilities miss at most as often as they say."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import ove_sb3 as ove
from ove_sb3._validation import FloatArray
from ove_sb3.core.quantities import cvar
from tests.problems.bandits import recommender
from tests.problems.risk import Outcomes, problems, truth

from . import test_overlaps as concurrent

PROBLEMS = problems()
LEVELS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
ALL = [f"{kind}:{p}" for kind in ("quantile", "cvar") for p in LEVELS]


def probabilities(problem: Outcomes) -> list[str]:
    """Limits at an atom, and between two of them."""
    values = list(problem.distribution)
    return [f"p_below:{values[0]}", f"p_below:{(values[0] + values[-1]) / 2}"]


def check(counts: dict[tuple[str, float], list[int]], trials: int) -> None:
    """Fail where so many misses would be seen with probability below 1e-4 at the stated delta."""
    for (name, delta), misses in counts.items():
        for count in misses:
            assert binom.sf(count - 1, trials, delta / 2) > 1e-4, f"{name} {delta}: {misses}"


def count_misses(
    problem: Outcomes, quantities: list[str], n: int, deltas: tuple[float, ...], trials: int
) -> dict[tuple[str, float], list[int]]:
    """Bounds that miss, [lower, upper], knowing the bound on the weights and not."""
    known = [None] if problem.max_weight is None else [None, problem.max_weight]
    values = {name: truth(problem.distribution, name) for name in quantities}
    counts = {
        (f"{name} max_weight={bound}", delta): [0, 0]
        for name in quantities
        for bound in known
        for delta in deltas
    }
    for trial in range(trials):
        stats = problem.statistics(n, np.random.default_rng([trial, n]))
        for name in quantities:
            for bound in known:
                for delta in deltas:
                    interval = ove.interval(
                        stats,
                        name,
                        reward_range=problem.reward_range,
                        max_weight=bound,
                        delta=delta,
                        method=ove.Betting(n_shuffles=1),
                    )
                    assert interval.guaranteed == interval.consistent
                    missed = counts[f"{name} max_weight={bound}", delta]
                    missed[0] += interval.lower > values[name] + 1e-9
                    missed[1] += interval.upper < values[name] - 1e-9
    return counts


@pytest.mark.parametrize(
    "name", ["rare heavy low", "rare heavy high", "atom at the quantile", "many values", "tiny"]
)
def test_misses_stay_below_delta(name: str) -> None:
    problem, trials = PROBLEMS[name], 50
    quantities = ["quantile:0.05", "median", "cvar:0.25", probabilities(problem)[0]]
    check(count_misses(problem, quantities, 60, (0.4,), trials), trials)


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 100, 1000, 10_000])
@pytest.mark.parametrize("name", PROBLEMS)
def test_misses_stay_below_delta_in_a_thousand_trials(name: str, n: int) -> None:
    problem, trials = PROBLEMS[name], 1000
    quantities = [*ALL, *probabilities(problem)]
    check(count_misses(problem, quantities, n, (0.05, 0.2), trials), trials)


def learning_log(rounds: int, rng: np.random.Generator) -> ove.TrajectoryStatistics:
    """Two environments at a time, under a behavior that learns from one step to the next."""
    outcomes = concurrent.outcomes(learned=True)
    chances = np.array([probability for probability, _, _ in outcomes])
    drawn = rng.choice(len(outcomes), rounds, p=chances / chances.sum())
    return ove.trajectory_statistics(
        np.concatenate([outcomes[k][1].ravel() for k in drawn]),
        np.concatenate([outcomes[k][2].ravel() for k in drawn]),
        np.full(2 * rounds, 2),
        gamma=1.0,
        horizon=2,
        overlaps=[0, 1] * rounds,
    )


def learned_distribution() -> dict[float, float]:
    first, second = concurrent.PI_FIRST, concurrent.PI_SECOND
    return {
        0.0: (1 - first) * (1 - second),
        0.5: (1 - first) * second,
        1.0: first * (1 - second),
        1.5: first * second,
    }


def adaptive_misses(rounds: int, trials: int) -> dict[tuple[str, float], list[int]]:
    """Misses for the log of a behavior that learns, taken in order, with its overlaps."""
    names = ("quantile:0.25", "median", "cvar:0.3", "p_below:0.5")
    counts = {(name, 0.2): [0, 0] for name in names}
    for trial in range(trials):
        stats = learning_log(rounds, np.random.default_rng(trial))
        for name in names:
            value = truth(learned_distribution(), name)
            interval = ove.interval(stats, name, reward_range=(0, 1), adaptive=True, delta=0.2)
            counts[name, 0.2][0] += interval.lower > value + 1e-9
            counts[name, 0.2][1] += interval.upper < value - 1e-9
    return counts


def test_misses_stay_below_delta_for_a_learning_behavior_with_overlaps() -> None:
    check(adaptive_misses(40, 60), 60)


@pytest.mark.slow
def test_misses_stay_below_delta_for_a_learning_behavior_in_a_thousand_trials() -> None:
    check(adaptive_misses(20, 1000), 1000)
    check(adaptive_misses(1000, 1000), 1000)


@pytest.mark.parametrize("quantity", ["quantile:0.25", "median", "cvar:0.3", "p_below:0.5"])
def test_overlaps_do_not_loosen_the_bounds_much(quantity: str) -> None:
    stats = learning_log(1500, np.random.default_rng(0))
    in_turn = replace(stats, overlaps=None)
    widths: FloatArray = np.array(
        [
            ove.interval(logged, quantity, reward_range=(0, 1), adaptive=True).width
            for logged in (stats, in_turn)
        ]
    )
    assert math.isfinite(widths[0])
    assert widths[0] <= 1.5 * widths[1] + 0.05


def test_the_upper_bound_of_the_cvar_holds_however_coarse_the_cells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = PROBLEMS["many values"]
    monkeypatch.setattr(cvar, "_edges", lambda pilot, p: np.array([-1.0, 0.15, 0.9, 2.0]))
    value = truth(problem.distribution, "cvar:0.25")
    missed = 0
    for seed in range(20):
        stats = problem.statistics(1000, np.random.default_rng(seed))
        interval = ove.interval(stats, "cvar:0.25", reward_range=(-1, 2), side="upper")
        missed += interval.upper < value
    assert binom.sf(missed - 1, 20, 0.05) > 1e-4


@pytest.mark.parametrize("n", [10_000, 30_000])
def test_the_upper_bound_of_the_cvar_is_near_where_the_worst_returns_lie_far_apart(n: int) -> None:
    # The quantile is in a dense part of the distribution, the returns below it are sparse.
    problem = recommender()
    for seed in range(3):
        stats = problem.statistics(n, np.random.default_rng(seed))
        interval = ove.interval(stats, "cvar:0.05", reward_range=(0, 10), side="upper")
        assert 6.40 < interval.upper < 6.46  # the truth is 6.41
