"""Width of the guaranteed intervals: betting against the paper's, on the same data."""

from __future__ import annotations

import argparse

import numpy as np

import ove_sb3 as ove

from .beds import Bed, chain, gridworld, recommender
from .tables import print_table

SIZES = (100, 1000, 10_000, 31_622)
# What the user knows of the behavior: it mixes in the candidate with probability 1/2 at every
# step (so no ratio exceeds 2), or takes each of two actions with probability 1/2.
BEDS: tuple[tuple[Bed, float], ...] = (
    (recommender(), 2.0),
    (gridworld(6), 2.0),
    (gridworld(15), 2.0),
    (chain(8), 2.0),
)


def main(trials: int = 30) -> None:
    rows = []
    for bed, max_ratio in BEDS:
        for n in SIZES:
            bounds = np.array([_bounds(bed, n, max_ratio, trial) for trial in range(trials)])
            mean = bounds.mean(axis=0)
            widths = mean[:, 1] - mean[:, 0]
            rows.append(
                [
                    bed.name,
                    n,
                    f"{bed.variance:.3g}",
                    *(f"[{low:.3f}, {high:.3f}]" for low, high in mean),
                    f"1/{widths[0] / widths[1]:.1f}",
                    f"1/{widths[0] / widths[2]:.1f}",
                ]
            )
    header = ["bed", "n", "truth", "paper", "betting", "betting, ratio <= 2"]
    print_table(
        f"Variance, 95% guaranteed intervals, mean of {trials} trials, and width / paper's width",
        [*header, "width", "ratio <= 2"],
        rows,
    )


def _bounds(bed: Bed, n: int, max_ratio: float, trial: int) -> list[tuple[float, float]]:
    stats = bed.statistics(n, np.random.default_rng([trial, n]))
    intervals = (
        ove.variance_interval(stats, reward_range=bed.reward_range, method="paper"),
        ove.variance_interval(stats, reward_range=bed.reward_range),
        ove.variance_interval(stats, reward_range=bed.reward_range, max_ratio=max_ratio),
    )
    return [(interval.lower, interval.upper) for interval in intervals]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=30)
    main(parser.parse_args().trials)
