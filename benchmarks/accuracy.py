"""Error of the variance estimators, and coverage of the approximate intervals."""

from __future__ import annotations

import argparse

import numpy as np

import ove_sb3 as ove
from tests.problems.bandits import recommender
from tests.problems.chain import chain
from tests.problems.gridworld import gridworld
from tests.problems.suite import estimator_problems

from .tables import print_table

ESTIMATORS = {
    "crossfit (default)": "crossfit",
    "pair_cdis": "pair_cdis",
    "pair": "pair",
    "cdis_u": "cdis_u",
    "cdis (paper)": "cdis",
    "is (paper)": "is",
    "regression (biased)": "regression",
    "wis (biased)": "wis",
    "naive_plugin (biased)": "naive_plugin",
    "naive_is (biased)": "naive_is",
}
METHODS: dict[str, ove.Method] = {
    "normal": ove.Normal(),
    "basic": ove.Bootstrap(),
    "percentile": ove.Bootstrap("percentile"),
    "bca": ove.Bootstrap("bca"),
    "studentized": ove.Bootstrap("studentized"),
    "studentized, regression": ove.Bootstrap("studentized", estimator="regression"),
    "basic, paper's cdis": ove.Bootstrap(estimator="cdis"),
}


def estimators(n: int = 1000, trials: int = 300) -> None:
    """Relative root mean square errors, and the largest ratio to the best unbiased estimator."""
    problems = estimator_problems()
    errors = {name: np.zeros(len(problems)) for name in ESTIMATORS}
    for k, problem in enumerate(problems):
        for trial in range(trials):
            stats = problem.statistics(n, np.random.default_rng([trial, k]))
            for name, estimator in ESTIMATORS.items():
                value = ove.Variance().estimate(stats, estimator)
                errors[name][k] += (value / problem.variance - 1.0) ** 2 / trials
    names = [problem.name.replace("grid", "g").replace("bandit", "b") for problem in problems]
    rmse = {name: 100 * np.sqrt(error) for name, error in errors.items()}
    best = np.min([value for name, value in rmse.items() if "biased" not in name], axis=0)
    print_table(
        f"Variance estimators: root mean square error in % of the truth, n = {n}, {trials} trials",
        ["estimator", *names, "worst / best unbiased"],
        [
            [name, *(f"{value:.3g}" for value in values), f"{(values / best).max():.3g}"]
            for name, values in rmse.items()
        ],
        name="accuracy",
    )


def approximate(trials: int = 400) -> None:
    """Coverage and mean width of the approximate intervals at 95%."""
    problems = (recommender(), gridworld(6), chain(8))
    rows = []
    for n in (30, 100, 1000):
        for name, method in METHODS.items():
            row: list[object] = [name, n]
            for k, problem in enumerate(problems):
                hits, width = 0, 0.0
                for trial in range(trials):
                    stats = problem.statistics(n, np.random.default_rng([trial, n, k]))
                    interval = ove.variance_interval(
                        stats, reward_range=problem.reward_range, method=method
                    )
                    hits += problem.variance in interval
                    width += interval.width / trials
                row += [f"{hits / trials:.3f}", f"{width:.3g}"]
            rows.append(row)
    header = ["interval", "n"]
    for problem in problems:
        header += [problem.name, "width"]
    print_table(
        f"Variance, approximate 95% intervals: coverage and mean width, {trials} trials",
        header,
        rows,
        name="coverage",
    )


def main() -> None:
    estimators()
    approximate()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    main()
