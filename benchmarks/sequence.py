"""Confidence sequences: width at the end, and time, relative to an interval for that n alone."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import ove_sb3 as ove
from tests.problems.bandits import binary_bandit, recommender
from tests.problems.chain import chain
from tests.problems.gridworld import gridworld
from tests.problems.problem import Problem

from .promises import record
from .tables import cpu_time, print_table

SIZES = (1_500, 4_000, 10_000)  # the second is farthest from the built-in target numbers
HEAVY: dict[str, Any] = {"step": -0.1, "goal": 1.0, "pit": -1.0, "alpha": 0.1, "temperature": 0.1}
# With their known bounds on the ratio, if any.
PROBLEMS: tuple[tuple[Problem, float | None], ...] = (
    (recommender(), None),
    (recommender(), 2.0),
    (gridworld(6), None),
    (gridworld(6), 2.0),
    (gridworld(6, **HEAVY, name="grid_heavy_6"), None),
    (chain(8), 2.0),
)


def main(trials: int = 10) -> None:
    rows = []
    for problem, max_ratio in PROBLEMS:
        for n in SIZES:
            for quantity in ("mean", "variance"):
                widths = np.mean(
                    [_widths(problem, max_ratio, n, quantity, k) for k in range(trials)], axis=0
                )
                record("sequence", widths[1] / widths[0])
                record("sequence with target", widths[2] / widths[0])
                ratio = "unknown" if max_ratio is None else f"at most {max_ratio:g}"
                measured = [f"{width / widths[0]:.2f}" for width in widths[1:]]
                rows.append([problem.name, ratio, n, quantity, *measured])
    print_table(
        f"Width at the end, relative to the interval for n episodes, mean of {trials} trials",
        ["problem", "ratios", "n", "quantity", "any n", "target_n = n"],
        rows,
        name="sequence",
    )
    print_table(
        "CPU seconds at n = 1,000,000",
        ["quantity", "interval", "sequence", "times"],
        [_times(quantity) for quantity in ("mean", "variance")],
    )


def _times(quantity: str) -> list[str]:
    stats = binary_bandit().statistics(1_000_000, np.random.default_rng(0))
    known = binary_bandit().reward_range
    once = cpu_time(lambda: ove.interval(stats, quantity, reward_range=known), 1)
    always = cpu_time(lambda: ove.confidence_sequence(stats, quantity, reward_range=known), 1)
    record("sequence time", always / once)
    return [quantity, f"{once:.1f}", f"{always:.1f}", f"{always / once:.1f}"]


def _widths(
    problem: Problem, max_ratio: float | None, n: int, quantity: str, trial: int
) -> tuple[float, ...]:
    stats = problem.statistics(n, np.random.default_rng(100 + trial))
    options: dict[str, Any] = {"reward_range": problem.reward_range, "max_ratio": max_ratio}
    intervals = [ove.interval(stats, quantity, **options)]
    for target_n in (None, n):
        sequence = ove.confidence_sequence(stats, quantity, target_n=target_n, **options)
        intervals.append(sequence.interval)
    return tuple(interval.width for interval in intervals)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10)
    main(parser.parse_args().trials)
