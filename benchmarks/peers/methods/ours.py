"""ove_sb3 itself."""

from __future__ import annotations

import ove_sb3 as ove
from benchmarks.peers.protocol import Answer, Log, Method


def statistics(log: Log) -> ove.TrajectoryStatistics:
    """Statistics of every trajectory."""
    return ove.trajectory_statistics(
        log.log_ratios, log.rewards, log.lengths, gamma=log.gamma, horizon=log.horizon
    )


def betting(log: Log) -> Answer:
    """All defaults: `crossfit` and the guaranteed interval by betting."""
    stats = statistics(log)
    interval = ove.variance_interval(stats, reward_range=log.reward_range)
    return Answer(ove.estimate_variance(stats), interval.lower, interval.upper)


def betting_with_bound(log: Log) -> Answer:
    """Betting with the known bound on the ratio."""
    stats = statistics(log)
    interval = ove.variance_interval(stats, reward_range=log.reward_range, max_ratio=log.max_ratio)
    return Answer(ove.estimate_variance(stats), interval.lower, interval.upper)


def bootstrap(log: Log) -> Answer:
    """`crossfit` and the approximate bootstrap interval."""
    stats = statistics(log)
    interval = ove.variance_interval(stats, method="bootstrap")
    return Answer(ove.estimate_variance(stats), interval.lower, interval.upper)


def regression(log: Log) -> Answer:
    """`regression`, slightly biased, and its studentized bootstrap interval."""
    stats = statistics(log)
    method = ove.Bootstrap("studentized", estimator="regression")
    interval = ove.variance_interval(stats, method=method)
    estimate = ove.estimate_variance(stats, estimator="regression")
    return Answer(estimate, interval.lower, interval.upper)


def paper_corrected(log: Log) -> Answer:
    """The paper's estimator and interval, with their errors corrected."""
    stats = statistics(log)
    interval = ove.variance_interval(stats, reward_range=log.reward_range, method="paper")
    estimate = ove.estimate_variance(stats, estimator="cdis")
    return Answer(estimate, interval.lower, interval.upper)


METHODS = {
    "betting": Method(betting, (statistics, betting), imports=1),
    "betting, ratio bound": Method(betting_with_bound, (statistics, betting_with_bound), imports=1),
    "bootstrap": Method(bootstrap, (statistics, bootstrap), imports=1),
    "regression, studentized bootstrap": Method(regression, (statistics, regression), imports=1),
    "the paper's, corrected": Method(paper_corrected, (statistics, paper_corrected), imports=1),
}
