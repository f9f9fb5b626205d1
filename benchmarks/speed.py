"""Speed of the core, as ratios of CPU times measured in the same run."""

from __future__ import annotations

import functools
import tracemalloc

import numpy as np
import scipy.stats

import ove_sb3 as ove
from tests.problems.bandits import recommender
from tests.problems.gridworld import gridworld

from .promises import record
from .tables import cpu_time, cpu_times, median_ratio, print_table


def statistics(n_steps: int = 10**7) -> None:
    """Statistics of logged steps, compared with numpy's exp and cumsum alone."""
    rng = np.random.default_rng(0)
    log_ratios, rewards = rng.normal(-0.005, 0.1, n_steps), rng.random(n_steps)
    rows = []
    for length in (10, 20, 100, 1000):
        lengths = np.full(n_steps // length, length)
        reduce = functools.partial(
            ove.trajectory_statistics, log_ratios, rewards, lengths, gamma=0.99, horizon=length
        )
        times = cpu_times([lambda: np.exp(np.cumsum(log_ratios)), reduce], repeats=9)
        (plain, ours), ratio = np.median(times, axis=0), median_ratio(times)
        if length == 100:
            record("statistics", ratio)
        rows.append([length, f"{plain:.3f}", f"{ours:.3f}", f"{ratio:.2f}"])
    print_table(
        f"trajectory_statistics of {n_steps:,} steps, CPU seconds",
        ["episode length", "np.exp(np.cumsum(x))", "ours", "ratio"],
        rows,
        name="speed_statistics",
    )


def bootstrap(n: int = 100_000, n_resamples: int = 2000) -> None:
    """Bootstrap of the paper's estimator, compared with scipy's."""
    stats = recommender().statistics(n, np.random.default_rng(0))

    def ours(variant: str) -> ove.Interval:
        return ove.variance_interval(stats, method=ove.Bootstrap(variant, n_resamples, "cdis"))

    theirs = scipy_bootstrap_seconds(stats, n_resamples)
    rows = []
    for variant in ("basic", "bca", "studentized"):
        seconds = cpu_time(functools.partial(ours, variant), repeats=2)
        record("bootstrap", theirs / seconds)
        tracemalloc.start()
        ours(variant)
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        rows.append(
            [variant, f"{theirs:.2f}", f"{seconds:.2f}", f"1/{theirs / seconds:.1f}", f"{peak:.0f}"]
        )
    print_table(
        f"Bootstrap, n = {n:,}, {n_resamples} resamples, CPU seconds",
        ["variant", "scipy basic, batch=50", "ours", "ratio", "extra memory, MB"],
        rows,
        name="speed_bootstrap",
    )


def scipy_bootstrap_seconds(stats: ove.TrajectoryStatistics, n_resamples: int = 2000) -> float:
    """CPU time of scipy's bootstrap of the paper's estimator, from a tenth of the resamples."""
    share = 10

    def statistic(x: np.ndarray, y: np.ndarray, axis: int = -1) -> np.ndarray:
        half = x.shape[-1] // 2
        product = y[..., :half].mean(axis=axis) * y[..., half:].mean(axis=axis)
        return np.asarray(x.mean(axis=axis) - product)

    return share * cpu_time(
        lambda: scipy.stats.bootstrap(
            (stats.cdis, stats.pdis),
            statistic,
            n_resamples=n_resamples // share,
            batch=50,
            paired=True,
            vectorized=True,
            method="basic",
            rng=0,
        ),
        repeats=1,
    )


def intervals() -> None:
    """Guaranteed intervals: betting compared with the paper's, and growth with n."""
    methods: dict[str, str | ove.Method] = {
        "paper": "paper",
        "one order": ove.Betting(n_shuffles=1),
        "ten": "betting",
    }
    rows = []
    for problem in (recommender(), gridworld(6)):
        for n in (1000, 10_000, 100_000, 1_000_000):
            stats = problem.statistics(n, np.random.default_rng(0))
            repeats = 3 if n == 1_000_000 else 7
            times = {
                name: cpu_time(
                    functools.partial(
                        ove.variance_interval,
                        stats,
                        reward_range=problem.reward_range,
                        method=method,
                    ),
                    repeats,
                )
                for name, method in methods.items()
            }
            if n == 1_000_000:
                record("betting", 1e6 * times["one order"] / n)
            rows.append(
                [
                    problem.name,
                    f"{n:,}",
                    f"{1e3 * times['paper']:.1f}",
                    f"{1e3 * times['one order']:.1f}",
                    f"{1e3 * times['ten']:.1f}",
                    f"{1e9 * times['one order'] / n:.0f}",
                    f"{1e9 * times['ten'] / n:.0f}",
                ]
            )
    print_table(
        "variance_interval, both sides, CPU milliseconds",
        [
            "problem",
            "n",
            "paper",
            "betting, one order",
            "ten orders",
            "one, ns each",
            "ten, ns each",
        ],
        rows,
        name="speed_intervals",
    )


def main() -> None:
    statistics()
    bootstrap()
    intervals()


if __name__ == "__main__":
    main()
