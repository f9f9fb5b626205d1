"""Error of the variance estimators, and coverage of the approximate intervals."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import ove_sb3 as ove

from .beds import chain, estimator_beds, gridworld, recommender
from .tables import print_table

ESTIMATORS: dict[str, dict[str, Any]] = {
    "crossfit (default)": {"estimator": "crossfit"},
    "pair_cdis": {"estimator": "pair_cdis"},
    "pair": {"estimator": "pair"},
    "cdis u": {"estimator": "cdis", "mean_square": "u"},
    "cdis split (paper)": {"estimator": "cdis"},
    "is split (paper)": {"estimator": "is"},
    "wis (biased)": {"estimator": "wis"},
    "naive_plugin (biased)": {"estimator": "naive_plugin"},
    "naive_is (biased)": {"estimator": "naive_is"},
}
INTERVALS: dict[str, dict[str, Any]] = {
    "delta": {"method": "delta"},
    "basic": {"method": "bootstrap"},
    "percentile": {"method": "bootstrap", "bootstrap_kind": "percentile"},
    "bca": {"method": "bootstrap", "bootstrap_kind": "bca"},
    "studentized": {"method": "bootstrap", "bootstrap_kind": "studentized"},
    "basic of the paper's cdis": {"method": "bootstrap", "estimator": "cdis"},
}


def estimators(n: int = 1000, trials: int = 300) -> None:
    """Relative root mean square error on every bed, and the worst ratio to the best unbiased."""
    beds = estimator_beds()
    errors = {name: np.zeros(len(beds)) for name in ESTIMATORS}
    for k, bed in enumerate(beds):
        for trial in range(trials):
            stats = bed.statistics(n, np.random.default_rng([trial, k]))
            for name, options in ESTIMATORS.items():
                value = ove.estimate_variance(stats, **options)
                errors[name][k] += (value / bed.variance - 1.0) ** 2 / trials
    names = [bed.name.replace("grid", "g").replace("bandit", "b") for bed in beds]
    rmse = {name: 100 * np.sqrt(error) for name, error in errors.items()}
    best = np.min([value for name, value in rmse.items() if "biased" not in name], axis=0)
    print_table(
        f"Variance estimators: root mean square error in % of the truth, n = {n}, {trials} trials",
        ["estimator", *names, "worst / best unbiased"],
        [
            [name, *(f"{value:.3g}" for value in values), f"{(values / best).max():.3g}"]
            for name, values in rmse.items()
        ],
    )


def approximate(trials: int = 400) -> None:
    """Coverage and mean width of the approximate intervals at 95%."""
    beds = (recommender(), gridworld(6), chain(8))
    rows = []
    for n in (30, 100, 1000):
        for name, options in INTERVALS.items():
            row: list[object] = [name, n]
            for k, bed in enumerate(beds):
                hits, width = 0, 0.0
                for trial in range(trials):
                    stats = bed.statistics(n, np.random.default_rng([trial, n, k]))
                    interval = ove.variance_interval(
                        stats, reward_range=bed.reward_range, **options
                    )
                    hits += bed.variance in interval
                    width += interval.width / trials
                row += [f"{hits / trials:.3f}", f"{width:.3g}"]
            rows.append(row)
    header = ["interval", "n"]
    for bed in beds:
        header += [f"{bed.name}", "width"]
    print_table(
        f"Variance, approximate 95% intervals: coverage and mean width, {trials} trials",
        header,
        rows,
    )


def main() -> None:
    estimators()
    approximate()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    main()
