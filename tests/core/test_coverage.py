"""Guaranteed intervals miss at most as often as they say, by a binomial test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import ove_sb3 as ove
from tests.misses import Misses
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


def check_misses(problem: Problem, n: int, deltas: Mapping[str, float], trials: int) -> None:
    """Count the misses of all intervals, each at its delta, until they are known to be rare."""
    counts = {
        name: Misses(delta)
        for name, delta in deltas.items()
        if problem.max_ratio is not None or "bounded" not in name
    }
    for trial in range(trials):
        left = [name for name, count in counts.items() if not count.settled]
        if not left:
            break
        stats = problem.statistics(n, np.random.default_rng([trial, n]))
        for name in left:
            function, options = INTERVALS[name]
            known: dict[str, Any] = {}
            if "bounded" in name and problem.max_ratio is not None:
                known = {"max_ratio": problem.max_ratio * (1 + 1e-12)}
            interval = function(
                stats, reward_range=problem.reward_range, delta=deltas[name], **known, **options
            )
            assert interval.guaranteed == interval.consistent
            assert interval.consistent == (interval.lower <= interval.upper)
            truth = problem.variance if name.startswith("variance") else problem.mean
            counts[name].add(interval, truth, 1e-12)
    for name, count in counts.items():
        count.check(name)


@pytest.mark.parametrize("problem", ["recommender", "grid_6", "chain_8_-2", "adversary_0.02_1"])
@pytest.mark.parametrize("n", [30, 300])
def test_misses_stay_below_delta(problem: str, n: int) -> None:
    check_misses(PROBLEMS[problem], n, dict.fromkeys(INTERVALS, 0.2), trials=150)


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
    check_misses(PROBLEMS[problem], n, drawn_cells()[problem, n], trials=1000)
