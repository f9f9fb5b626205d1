"""Guaranteed intervals miss at most as often as they say, by a binomial test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import ove_sb3 as ove
from tests.problems.bandits import adversary, binary_bandit, continuous_bandit, recommender
from tests.problems.chain import chain
from tests.problems.gridworld import gridworld
from tests.problems.problem import Problem

PROBLEMS = {
    problem.name: problem
    for problem in (
        recommender(),
        binary_bandit(),
        continuous_bandit(shift=1.0),
        gridworld(6),
        gridworld(15, step=-0.1, goal=1.0, pit=-1.0, alpha=0.1, temperature=0.1, name="heavy"),
        chain(8),
        chain(5, gamma=1.0),
        chain(8, offset=-2.0),
        adversary(0.02),
        adversary(0.002),
        adversary(0.01, rare_reward=0.0),
    )
}
SIZES, DELTAS = (20, 100, 1000, 10_000), (0.05, 0.2)
ONE_ORDER = ove.Betting(n_shuffles=1)  # the sharpest; several are tested in test_shuffles
# Intervals computed from every data set; a bound on the ratios only where there is one.
INTERVALS: dict[str, tuple[Callable[..., ove.Interval], dict[str, Any]]] = {
    "variance betting": (ove.variance_interval, {"method": ONE_ORDER}),
    "variance betting bounded": (ove.variance_interval, {"method": ONE_ORDER}),
    "variance paper": (ove.variance_interval, {"method": "paper"}),
    "mean betting": (ove.mean_interval, {"method": ONE_ORDER}),
    "mean betting bounded": (ove.mean_interval, {"method": ONE_ORDER}),
    "mean paper": (ove.mean_interval, {"method": "paper"}),
}


def misses(
    problem: Problem, n: int, deltas: Mapping[str, float], trials: int
) -> dict[str, list[int]]:
    """Count bounds that miss, [lower, upper, either], for every interval at its delta."""
    counts = {f"{name} {delta}": [0, 0, 0] for name, delta in deltas.items()}
    for trial in range(trials):
        stats = problem.statistics(n, np.random.default_rng([trial, n]))
        for name, (function, options) in INTERVALS.items():
            known: dict[str, Any] = {}
            if "bounded" in name:
                if problem.max_ratio is None:
                    continue
                known = {"max_ratio": problem.max_ratio * (1 + 1e-12)}
            truth = problem.variance if name.startswith("variance") else problem.mean
            delta = deltas[name]
            interval = function(
                stats, reward_range=problem.reward_range, delta=delta, **known, **options
            )
            assert interval.guaranteed == interval.consistent
            assert interval.consistent == (interval.lower <= interval.upper)
            missed = interval.lower > truth + 1e-12, interval.upper < truth - 1e-12
            # Bounds that contradict each other cannot both hold.
            assert interval.consistent or any(missed)
            for k, miss in enumerate((*missed, any(missed))):
                counts[f"{name} {delta}"][k] += miss
    return counts


def check(counts: dict[str, list[int]], trials: int) -> None:
    """Fail if this many misses have a probability below 1e-4 at the stated delta."""
    for name, (lower, upper, either) in counts.items():
        delta = float(name.split()[-1])
        for count, level in ((lower, delta / 2), (upper, delta / 2), (either, delta)):
            p_value = binom.sf(count - 1, trials, level)
            assert p_value > 1e-4, f"{name}: {lower} lower and {upper} upper bounds of {trials}"


@pytest.mark.parametrize("problem", ["recommender", "grid_6", "chain_8_-2", "adversary_0.02_1"])
@pytest.mark.parametrize("n", [30, 300])
def test_misses_stay_below_delta(problem: str, n: int) -> None:
    trials = 150
    check(misses(PROBLEMS[problem], n, dict.fromkeys(INTERVALS, 0.2), trials), trials)


def in_turn(names: Sequence[str], deltas: Sequence[float], turn: int) -> dict[str, float]:
    """One delta for every name."""
    return {name: deltas[(turn + k) % len(deltas)] for k, name in enumerate(names)}


def drawn_cells() -> dict[tuple[str, int], dict[str, float]]:
    """Deltas of all intervals for every problem and n."""
    return {
        (problem, n): in_turn([*INTERVALS], DELTAS, k + i)
        for k, problem in enumerate(PROBLEMS)
        for i, n in enumerate(SIZES)
    }


def test_every_interval_problem_n_and_delta_is_among_those_tested_at_length() -> None:
    cells = drawn_cells()
    for name in INTERVALS:
        assert {(problem, deltas[name]) for (problem, _), deltas in cells.items()} == set(
            itertools.product(PROBLEMS, DELTAS)
        )
        assert {(n, deltas[name]) for (_, n), deltas in cells.items()} == set(
            itertools.product(SIZES, DELTAS)
        )


@pytest.mark.slow
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_misses_stay_below_delta_in_a_thousand_trials(problem: str, n: int) -> None:
    trials = 1000
    check(misses(PROBLEMS[problem], n, drawn_cells()[problem, n], trials), trials)
