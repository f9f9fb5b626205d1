"""Guaranteed intervals miss at most as often as they say, judged by a binomial test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import ove_sb3 as ove
from benchmarks.beds import (
    Bed,
    adversary,
    binary_bandit,
    chain,
    continuous_bandit,
    gridworld,
    recommender,
)

BEDS = {
    bed.name: bed
    for bed in (
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
# What is asked of every data set; a bound on the ratios only where there is one.
QUESTIONS: dict[str, tuple[Callable[..., ove.Interval], dict[str, Any]]] = {
    "variance betting": (ove.variance_interval, {"method": "betting"}),
    "variance betting bounded": (ove.variance_interval, {"method": "betting"}),
    "variance paper": (ove.variance_interval, {"method": "paper"}),
    "mean betting": (ove.mean_interval, {"method": "betting"}),
    "mean betting bounded": (ove.mean_interval, {"method": "betting"}),
    "mean paper": (ove.mean_interval, {"method": "paper"}),
}


def misses(bed: Bed, n: int, deltas: tuple[float, ...], trials: int) -> dict[str, list[int]]:
    """Count misses [below, above] for every question and delta."""
    counts = {f"{name} {delta}": [0, 0] for name in QUESTIONS for delta in deltas}
    for trial in range(trials):
        stats = bed.statistics(n, np.random.default_rng([trial, n]))
        for name, (function, options) in QUESTIONS.items():
            known: dict[str, Any] = {}
            if "bounded" in name:
                if bed.max_ratio is None:
                    continue
                known = {"max_ratio": bed.max_ratio * (1 + 1e-12)}
            truth = bed.variance if name.startswith("variance") else bed.mean
            for delta in deltas:
                interval = function(
                    stats, reward_range=bed.reward_range, delta=delta, **known, **options
                )
                assert interval.guaranteed
                counts[f"{name} {delta}"][0] += interval.lower > truth + 1e-12
                counts[f"{name} {delta}"][1] += interval.upper < truth - 1e-12
    return counts


def judge(counts: dict[str, list[int]], trials: int) -> None:
    """Fail where so many misses would be seen with probability below 1e-4 at the stated delta."""
    for name, (below, above) in counts.items():
        delta = float(name.split()[-1])
        for count, level in ((below, delta / 2), (above, delta / 2), (below + above, delta)):
            p_value = binom.sf(count - 1, trials, level)
            assert p_value > 1e-4, f"{name}: {below} below and {above} above of {trials}"


@pytest.mark.parametrize("bed", ["recommender", "grid_6", "chain_8_-2", "adversary_0.02_1"])
@pytest.mark.parametrize("n", [30, 300])
def test_misses_stay_below_delta(bed: str, n: int) -> None:
    trials = 150
    judge(misses(BEDS[bed], n, (0.2,), trials), trials)


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 100, 1000, 10_000])
@pytest.mark.parametrize("bed", BEDS)
def test_misses_stay_below_delta_in_a_thousand_trials(bed: str, n: int) -> None:
    trials = 1000
    judge(misses(BEDS[bed], n, (0.05, 0.2), trials), trials)
