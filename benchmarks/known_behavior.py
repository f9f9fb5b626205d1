"""Upper bounds on the variance with a known and an unknown behavior, compared with a reference.

The reference excess is the largest squared distance of a return from the mean, times the
candidate's probability of the trajectories with the largest weights, those of total probability
log(1/a)/n under the behavior: a log of n trajectories may well contain none of them.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from scipy.special import ndtr, ndtri

import ove_sb3 as ove
from tests.problems.bandits import GaussianBandit, continuous_bandit, recommender
from tests.problems.gridworld import gridworld
from tests.problems.problem import Problem

from .tables import print_table

LEVEL = 0.025


def reference_excess(problem: Problem, n: int) -> float:
    """Reference excess of an upper bound at `LEVEL`, for Gaussian actions; else nan."""
    if not isinstance(problem, GaussianBandit):
        return math.nan
    share = min(-math.log(LEVEL) / n, 0.5)
    mass = float(ndtr(problem.shift + ndtri(share)))
    low, high = problem.reward_range
    return mass * max(high - problem.mean, problem.mean - low) ** 2


def main(trials: int = 10) -> None:
    """Print the table."""
    rows = []
    for problem in (
        continuous_bandit(0.7),
        continuous_bandit(1.27),
        recommender(),
        gridworld(6),
        gridworld(15),
    ):
        for n in (1_000, 10_000, 31_622):
            uppers = np.zeros(2)
            for trial in range(trials):
                for k, known in enumerate((False, True)):
                    rng = np.random.default_rng([trial, n])
                    stats = problem.statistics(n, rng, known=known)
                    uppers[k] += (
                        ove.variance_interval(stats, reward_range=problem.reward_range).upper
                        / trials
                    )
            excess = uppers - problem.variance
            reference = reference_excess(problem, n)
            rows.append(
                [
                    f"{problem.name} {getattr(problem, 'shift', '')}",
                    n,
                    f"{problem.variance:.3g}",
                    f"{uppers[0]:.3g}",
                    f"{uppers[1]:.3g}",
                    f"{reference:.3g}",
                    f"{excess[0] / reference:.2f}",
                    f"{excess[1] / reference:.2f}",
                    f"{excess[1] / excess[0]:.2f}",
                ]
            )
    print_table(
        f"Upper bounds on the variance (level {LEVEL}), mean of {trials} logs",
        [
            "problem",
            "n",
            "truth",
            "without",
            "known",
            "reference excess",
            "excess / reference",
            "known",
            "known / without",
        ],
        rows,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10)
    main(parser.parse_args().trials)
