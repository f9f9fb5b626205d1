"""Intervals for a known behavior miss at most as often as they say, and are not wider."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core.betting.targets import bet_against
from ove_sb3.core.quantities import variance
from ove_sb3.core.truncation import column_names
from tests.misses import Misses
from tests.problems.bandits import adversary, binary_bandit, continuous_bandit, recommender
from tests.problems.chain import chain
from tests.problems.gridworld import gridworld
from tests.problems.problem import Problem

from .test_coverage import ONE_ORDER, in_turn

PROBLEMS = {
    problem.name: problem
    for problem in (
        continuous_bandit(shift=1.0),
        binary_bandit(),
        recommender(),
        gridworld(6),
        gridworld(15, step=-0.1, goal=1.0, pit=-1.0, alpha=0.1, temperature=0.1, name="heavy"),
        chain(8),
        adversary(0.02),
        adversary(0.002),
        adversary(0.01, rare_reward=0.0),
    )
}


QUANTITIES = ("mean", "variance")
SIZES, DELTAS = (100, 1_000, 5_000), (0.05, 0.4)


def check_misses(problem: Problem, n: int, deltas: Mapping[str, float], trials: int) -> None:
    """Count the misses of both quantities, each at its delta, until they are known to be rare."""
    counts = {name: Misses(delta) for name, delta in deltas.items()}
    for trial in range(trials):
        left = [name for name, count in counts.items() if not count.settled]
        if not left:
            break
        stats = problem.statistics(n, np.random.default_rng([trial, n]), known=True)
        assert column_names(2.0)[0] in stats.columns
        for name in left:
            interval = ove.interval(
                stats,
                name,
                reward_range=problem.reward_range,
                delta=deltas[name],
                method=ONE_ORDER,
            )
            counts[name].add(interval, getattr(problem, name), 1e-12)
    for name, count in counts.items():
        count.check(name)


@pytest.mark.parametrize("name", ["bandit_continuous", "bandit_binary", "adversary_0.02_1"])
def test_coverage(name: str) -> None:
    check_misses(PROBLEMS[name], 400, dict.fromkeys(QUANTITIES, 0.4), trials=40)


def test_caps_of_one_step_are_chosen_by_what_is_bet_on(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = continuous_bandit(shift=1.27)
    logs = [problem.statistics(10_000, np.random.default_rng(k), known=True) for k in range(8)]

    def mean_upper() -> float:
        uppers = [
            ove.variance_interval(log, reward_range=problem.reward_range, method=ONE_ORDER).upper
            for log in logs
        ]
        return float(np.mean(uppers))

    by_bets = mean_upper()
    monkeypatch.setattr(variance, "bet_against", partial(bet_against, as_charged=True))
    assert by_bets <= 0.95 * mean_upper()


@pytest.mark.slow
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_coverage_on_all_problems(name: str, n: int) -> None:
    turn = [*PROBLEMS].index(name) + SIZES.index(n)
    check_misses(PROBLEMS[name], n, in_turn(QUANTITIES, DELTAS, turn), trials=300)


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 100, 1_000, 10_000])
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=lambda problem: problem.name)
def test_intervals_are_not_wider_than_without(problem: Problem, n: int) -> None:
    widths = np.zeros((2, 2))
    for trial in range(60):
        rng = [trial, n]
        for k, known in enumerate((False, True)):
            stats = problem.statistics(n, np.random.default_rng(rng), known=known)
            for q, name in enumerate(QUANTITIES):
                found = ove.interval(
                    stats, name, reward_range=problem.reward_range, method=ONE_ORDER
                )
                widths[k, q] += found.width
    assert (widths[1] <= 1.05 * widths[0]).all()
