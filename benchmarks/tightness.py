"""Width of the guaranteed intervals: betting and the paper's method, on the same data.

See `benchmarks.reference` for the reference excess.
"""

from __future__ import annotations

import argparse

import numpy as np

import ove_sb3 as ove
from tests.problems.bandits import recommender
from tests.problems.chain import chain
from tests.problems.gridworld import gridworld
from tests.problems.problem import Problem

from .reference import ReferenceExcess
from .tables import print_table

SIZES = (100, 1000, 10_000, 31_622)
# With their known bounds on the ratio: the behavior mixes in the candidate with probability 1/2 at
# every step, or takes each of two actions with probability 1/2.
PROBLEMS: tuple[tuple[Problem, float], ...] = (
    (recommender(), 2.0),
    (gridworld(6), 2.0),
    (gridworld(15), 2.0),
    (chain(8), 2.0),
)


def main(trials: int = 30) -> None:
    rows = []
    for problem, max_ratio in PROBLEMS:
        reference_excess = ReferenceExcess(problem)
        for n in SIZES:
            bounds = np.array([_bounds(problem, n, max_ratio, trial) for trial in range(trials)])
            mean = bounds.mean(axis=0)
            widths = mean[:, 1] - mean[:, 0]
            rows.append(
                [
                    problem.name,
                    n,
                    f"{problem.variance:.3g}",
                    *(f"[{low:.3f}, {high:.3f}]" for low, high in mean),
                    f"1/{widths[0] / widths[1]:.1f}",
                    f"1/{widths[0] / widths[2]:.1f}",
                    f"{reference_excess(n):.3f}",
                    *(
                        f"{(mean[k, 1] - problem.variance) / reference_excess(n):.1f}"
                        for k in (1, 2)
                    ),
                ]
            )
    header = ["problem", "n", "truth", "paper", "betting", "betting, ratio <= 2"]
    print_table(
        f"Variance, 95% guaranteed intervals, mean of {trials} trials, and width / paper's width",
        [
            *(*header, "width", "ratio <= 2"),
            *("reference excess", "excess / reference", "ratio <= 2"),
        ],
        rows,
        name="tightness",
    )


def _bounds(problem: Problem, n: int, max_ratio: float, trial: int) -> list[tuple[float, float]]:
    stats = problem.statistics(n, np.random.default_rng([trial, n]))
    known = problem.reward_range
    intervals = (
        ove.variance_interval(stats, reward_range=known, method="paper"),
        ove.variance_interval(stats, reward_range=known),
        ove.variance_interval(stats, reward_range=known, max_ratio=max_ratio),
    )
    return [(interval.lower, interval.upper) for interval in intervals]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=30)
    main(parser.parse_args().trials)
