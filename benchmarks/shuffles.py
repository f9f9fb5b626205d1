"""Dependence of the betting bounds on the seed, and the cost of reducing it."""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.special import ndtri

import ove_sb3 as ove
from tests.problems.bandits import recommender
from tests.problems.chain import chain
from tests.problems.gridworld import gridworld
from tests.problems.problem import Problem

from .promises import record
from .speed import scipy_bootstrap_seconds
from .tables import print_table

N, LOGS, SEEDS = 1000, 10, 6
PROBLEMS: tuple[tuple[Problem, float | None], ...] = (
    (recommender(), None),
    (recommender(), 2.0),
    (gridworld(6), None),
    (gridworld(6), 2.0),
    (chain(8), 2.0),
)


def main(logs: int = LOGS, seeds: int = SEEDS) -> None:
    rows, averages = [], []
    for problem, max_ratio in PROBLEMS:
        for quantity, truth in (("mean", problem.mean), ("variance", problem.variance)):
            one, ten = (
                _bounds(problem, max_ratio, quantity, n_shuffles, logs, seeds)
                for n_shuffles in (1, 10)
            )
            # Standard deviation over seeds, relative to the distance from the truth: lower, upper.
            excess = np.abs(one - truth).mean(axis=(0, 1))
            spread_one, spread_ten = (
                bounds.std(axis=1).mean(axis=0) / excess for bounds in (one, ten)
            )
            width = (ten[..., 1] - ten[..., 0]).mean() / (one[..., 1] - one[..., 0]).mean()
            averages.append([*spread_one, *spread_ten, width])
            ratio = "unknown" if max_ratio is None else f"at most {max_ratio:g}"
            rows.append(
                [
                    problem.name,
                    ratio,
                    quantity,
                    *(f"{low:.0%}, {high:.0%}" for low, high in (spread_one, spread_ten)),
                    f"{width - 1:+.0%}",
                ]
            )
    *spreads, width = np.mean(averages, axis=0)
    rows.append(
        [
            *("average", "", ""),
            *(f"{low:.1%}, {high:.1%}" for low, high in (spreads[:2], spreads[2:])),
            f"{width - 1:+.1%}",
        ]
    )
    header = ["problem", "ratios", "quantity", "1 shuffle", "10 shuffles", "width"]
    print_table(
        f"Standard deviation over seeds of the bounds (lower, upper), in % of their distance from "
        f"the truth, n = {N}, mean of {logs} logs",
        header,
        rows,
        name="shuffles",
    )
    _price()
    _time()


def _price(level: float = 0.025) -> None:
    """Print the least excess of a bound that most orders agree on, by the spread of one order."""
    fractions = np.linspace(0.05, 0.99, 95)
    z = ndtri(level)
    rows = []
    for spread in (0.02, 0.05, 0.1, 0.15, 0.2):
        cost = ndtri(level * fractions) / z + spread * ndtri(fractions) - 1.0
        rows.append([f"{spread:.0%}", f"{fractions[cost.argmin()]:.2f}", f"{cost.min():+.0%}"])
    header = ["spread of one order", "best fraction that agrees", "excess"]
    print_table(
        f"Price of agreement among many orders at level {level}", header, rows, name="agreement"
    )


def _bounds(
    problem: Problem,
    max_ratio: float | None,
    quantity: str,
    n_shuffles: int,
    logs: int,
    seeds: int,
) -> np.ndarray:
    """Lower and upper bounds, (logs, seeds, 2)."""
    method = ove.Betting(n_shuffles=n_shuffles)
    bounds = np.empty((logs, seeds, 2))
    for log in range(logs):
        stats = problem.statistics(N, np.random.default_rng([log, N]))
        for seed in range(seeds):
            interval = ove.interval(
                stats,
                quantity,
                reward_range=problem.reward_range,
                max_ratio=max_ratio,
                method=method,
                rng=seed,
            )
            bounds[log, seed] = interval.lower, interval.upper
    return bounds


def _time(n: int = 100_000) -> None:
    problem = chain(8)
    stats = problem.statistics(n, np.random.default_rng(0))
    rows = []
    for n_shuffles in (1, 10):
        method = ove.Betting(n_shuffles=n_shuffles)
        start = time.process_time()
        for quantity in ("mean", "variance"):
            ove.interval(stats, quantity, reward_range=problem.reward_range, method=method)
        seconds = time.process_time() - start
        rows.append([n_shuffles, f"{seconds:.2f}"])
    theirs = scipy_bootstrap_seconds(stats)
    record("shuffles", seconds / theirs)
    rows.append(["scipy's bootstrap of the variance, 2000 resamples", f"{theirs:.2f}"])
    print_table(f"Mean and variance, both bounds, n = {n}", ["shuffles", "CPU seconds"], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=LOGS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    arguments = parser.parse_args()
    main(arguments.logs, arguments.seeds)
