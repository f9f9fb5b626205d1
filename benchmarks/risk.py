"""Quantiles, CVaR and probabilities: width relative to other methods, and cost."""

from __future__ import annotations

import argparse
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

import ove_sb3 as ove
from ove_sb3.core.quantities import as_quantity
from tests.problems.bandits import Bandit, recommender
from tests.problems.gridworld import gridworld
from tests.problems.problem import Problem

from .promises import PROMISES, record
from .speed import scipy_bootstrap_seconds
from .tables import cpu_times, print_table

_DELTA = 2 * 0.05 / 8  # of an interval: the public system divides 0.05 among eight bounds
_NORMAL_N = 10_000
_SMALL = 1000


@dataclass(frozen=True)
class Stored:
    """Bounds of the public system as stored in its repository, and target widths.

    `theirs` is None where it stores none. `unknown` and `known` are bounds of a prototype of
    betting with one order of the episodes, without and with a ratio of at most 2.
    """

    quantity: str
    n: int
    theirs: tuple[float, float] | None
    unknown: tuple[float, float]
    known: tuple[float, float]


STORED = (
    Stored("cvar:0.25", 1000, (3.278, 7.147), (5.032, 7.033), (6.631, 7.033)),
    Stored("cvar:0.25", 31_622, (6.118, 7.071), (6.584, 7.010), (6.969, 7.010)),
    Stored("median", 31_622, (7.159, 7.244), (7.197, 7.207), (7.198, 7.207)),
    Stored("p_below:5", 31_622, None, (0.0088, 0.0223), (0.0088, 0.0094)),
)


def probability(problem: Bandit, x: float) -> float:
    """P(G <= x) of the candidate: a mixture of clipped normal distributions."""
    low, high = problem.reward_range
    if x < low:
        return 0.0
    assert problem.deviations is not None
    z = (x - problem.means) / problem.deviations
    return 1.0 if x >= high else float(problem.candidate @ ndtr(z))


def truth(problem: Bandit, quantity: ove.Quantity) -> float:
    """Exact value of a quantity."""
    if isinstance(quantity, ove.ProbabilityBelow):
        return probability(problem, quantity.x)
    p = quantity.parameter
    assert p is not None
    low, high = problem.reward_range
    q = float(brentq(lambda x: probability(problem, x) - p, low, high - 1e-9))
    if isinstance(quantity, ove.Quantile):
        return q
    shortfall = quad(lambda x: probability(problem, x), low, q, limit=500, points=[7.0])[0]
    return float(q - shortfall / p)


def _mean_bounds(
    quantity: str, n: int, trials: int, **options: Any
) -> tuple[tuple[float, float], tuple[int, int]]:
    """Mean bounds over the trials, and the number of misses on either side.

    Small logs vary more and are cheap, so ten times as many of them are drawn.
    """
    problem = recommender()
    value = truth(problem, as_quantity(quantity))
    bounds = []
    for trial in range(trials if n > _SMALL else 10 * trials):
        stats = problem.statistics(n, np.random.default_rng([trial, n]))
        interval = ove.interval(
            stats, quantity, reward_range=(0, 10), delta=_DELTA, rng=trial, **options
        )
        bounds.append((interval.lower, interval.upper))
    lower, upper = np.array(bounds).T
    misses = int((lower > value).sum()), int((upper < value).sum())
    return (float(lower.mean()), float(upper.mean())), misses


def against_the_public_system(trials: int) -> None:
    """Bounds at 0.05 / 8 per side: stored ones, ours, and ours relative to the prototype's."""
    rows = []
    for stored in STORED:
        value = truth(recommender(), as_quantity(stored.quantity))
        cells: list[str] = []
        widths: list[str] = []
        for known, target in ((None, stored.unknown), (2.0, stored.known)):
            ten, misses = _mean_bounds(stored.quantity, stored.n, trials, max_ratio=known)
            one, _ = _mean_bounds(
                stored.quantity,
                stored.n,
                trials,
                max_ratio=known,
                method=ove.Betting(n_shuffles=1),
            )
            cells.append(f"{_text(ten)}, {sum(misses)}")
            to_reach = target[1] - target[0]
            widths.append(f"{(ten[1] - ten[0]) / to_reach:.2f}, {(one[1] - one[0]) / to_reach:.2f}")
        theirs = "-" if stored.theirs is None else _text(stored.theirs)
        rows.append([stored.quantity, stored.n, f"{value:.4f}", theirs, *cells, *widths])
    print_table(
        f"Recommender, every bound at 0.05 / 8, mean of {trials} logs ({10 * trials} of 1,000) and "
        "misses; width relative to the prototype's, with ten shuffles and with one",
        ["quantity", "n", "truth", "stored", "ours", "ours, ratio <= 2", "width", "ratio <= 2"],
        rows,
        name="risk",
    )


def against_normal_limits(trials: int) -> None:
    """Width relative to normal limits for the same indicators."""
    problem = recommender()
    rows = []
    for p in (0.05, 0.25, 0.5, 0.75, 0.95):
        x = truth(problem, ove.Quantile(p))
        ratios: dict[int, list[float]] = {1: [], 10: []}
        for trial in range(trials):
            stats = problem.statistics(_NORMAL_N, np.random.default_rng([trial, 1]))
            low, high = _normal_limits(stats, x)
            for shuffles, widths in ratios.items():
                interval = ove.interval(
                    stats,
                    ove.ProbabilityBelow(x),
                    reward_range=(0, 10),
                    method=ove.Betting(n_shuffles=shuffles),
                    rng=trial,
                )
                widths.append(interval.width / (high - low))
        ten, one = float(np.mean(ratios[10])), float(np.mean(ratios[1]))
        record("normal", ten)
        rows.append(
            [f"{p:g}", f"{x:.3f}", f"{one:.2f}", f"{ten:.2f}", f"{PROMISES['normal'].limit:g}"]
        )
    print_table(
        f"P(G <= x), 95%, n = {_NORMAL_N:,}, mean of {trials} logs: width relative to normal "
        "limits for the same indicators, w 1{G <= x} below and w 1{G > x} above",
        ["P(G <= x)", "x", "one shuffle", "ten shuffles", "promised, at most"],
        rows,
        name="risk_normal",
    )


def _normal_limits(stats: ove.TrajectoryStatistics, x: float) -> tuple[float, float]:
    def lower(indicator: np.ndarray) -> float:
        values = stats.weights * indicator
        return float(values.mean() + ndtri(0.025) * values.std() / math.sqrt(values.size))

    return lower(stats.returns <= x), 1.0 - lower(stats.returns > x)


def cost(sizes: Sequence[int]) -> None:
    """All default quantities with both methods, compared with scipy's bootstrap of one variance."""
    rows = []
    for problem in (recommender(), gridworld(6)):
        for n in sizes:
            stats = problem.statistics(n, np.random.default_rng(0))
            times = cpu_times(
                [
                    functools.partial(_intervals, problem, stats, quantities, methods)
                    for quantities, methods in (
                        (("mean", "variance"), ("betting",)),
                        (_BASES, ("betting",)),
                        (_BASES, ("betting", "bootstrap")),
                    )
                ],
                repeats=1 if n > 100_000 else 5,
            )
            variance, everything, both = np.median(times, axis=0)
            theirs = scipy_bootstrap_seconds(stats)
            record("risk", both / theirs)
            rows.append(
                [
                    problem.name,
                    f"{n:,}",
                    *(f"{seconds:.2f}" for seconds in (theirs, variance, everything, both)),
                    f"{both / theirs:.2f}",
                    f"{PROMISES['risk'].limit:g}",
                ]
            )
    print_table(
        "Guaranteed intervals of all default quantities, ten orders, and the same with bootstrap "
        "intervals, CPU seconds; ratio to scipy's bootstrap of one variance, batch=50, 2,000 "
        "resamples",
        [
            *("problem", "n", "scipy", "mean, variance", "all", "all, with bootstrap"),
            *("ratio", "promised, at most"),
        ],
        rows,
        name="risk_cost",
    )


_BASES = tuple(dict.fromkeys(quantity.base.name for quantity in ove.DEFAULT_QUANTITIES))


def _intervals(
    problem: Problem,
    stats: ove.TrajectoryStatistics,
    quantities: Sequence[str],
    methods: Sequence[str],
) -> None:
    fresh = replace(stats)  # nothing is cached from one run to the next
    for quantity in quantities:
        for method in methods:
            ove.interval(fresh, quantity, reward_range=problem.reward_range, method=method)


def _text(bounds: tuple[float, float]) -> str:
    return "[{:.4g}, {:.4g}]".format(*bounds)


def main(trials: int = 20, sizes: Sequence[int] = (100_000, 1_000_000)) -> None:
    parts: tuple[Callable[[], None], ...] = (
        functools.partial(against_the_public_system, trials),
        functools.partial(against_normal_limits, trials),
        functools.partial(cost, sizes),
    )
    for part in parts:
        part()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--sizes", type=int, nargs="*", default=(100_000, 1_000_000))
    options = parser.parse_args()
    main(options.trials, options.sizes)
