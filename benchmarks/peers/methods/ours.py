"""ove_sb3 itself."""

from __future__ import annotations

from functools import partial

import ove_sb3 as ove
from benchmarks.peers.protocol import FRACTION, Answer, Log, Method

QUANTILE, CVAR = ove.Quantile(FRACTION), ove.CVaR(FRACTION)


def statistics(log: Log) -> ove.TrajectoryStatistics:
    """Statistics of every trajectory."""
    return ove.trajectory_statistics(
        log.log_ratios, log.rewards, log.lengths, gamma=log.gamma, horizon=log.horizon
    )


def betting(log: Log, quantity: str | ove.Quantity) -> Answer:
    """All defaults: the default estimate and the guaranteed interval by betting."""
    stats = statistics(log)
    interval = ove.interval(stats, quantity, reward_range=log.reward_range, rng=0)
    return Answer(ove.estimate(stats, quantity), interval.lower, interval.upper)


def betting_with_bound(log: Log, quantity: str | ove.Quantity) -> Answer:
    """Betting with the known bound on the ratio."""
    stats = statistics(log)
    interval = ove.interval(
        stats, quantity, reward_range=log.reward_range, max_ratio=log.max_ratio, rng=0
    )
    return Answer(ove.estimate(stats, quantity), interval.lower, interval.upper)


def bootstrap(log: Log, quantity: str | ove.Quantity) -> Answer:
    """The default estimate and the approximate bootstrap interval."""
    stats = statistics(log)
    interval = ove.interval(stats, quantity, method="bootstrap", rng=0)
    return Answer(ove.estimate(stats, quantity), interval.lower, interval.upper)


def regression(log: Log, quantity: str | ove.Quantity) -> Answer:
    """`regression`, slightly biased, and its studentized bootstrap interval."""
    stats = statistics(log)
    method = ove.Bootstrap("studentized", estimator="regression")
    interval = ove.interval(stats, quantity, method=method, rng=0)
    estimate = ove.estimate(stats, quantity, estimator="regression")
    return Answer(estimate, interval.lower, interval.upper)


def paper_corrected(log: Log) -> Answer:
    """The paper's estimator and interval, with their errors corrected."""
    stats = statistics(log)
    interval = ove.variance_interval(stats, reward_range=log.reward_range, method="paper", rng=0)
    estimate = ove.estimate_variance(stats, estimator="cdis")
    return Answer(estimate, interval.lower, interval.upper)


_GUARANTEED, _BOUND = (statistics, betting), (statistics, betting_with_bound)
_BOOTSTRAP, _REGRESSION = (statistics, bootstrap), (statistics, regression)
METHODS = {
    ("mean", "betting"): Method(partial(betting, quantity="mean"), _GUARANTEED, 1),
    ("mean", "betting, ratio bound"): Method(
        partial(betting_with_bound, quantity="mean"), _BOUND, 1
    ),
    ("mean", "bootstrap"): Method(partial(bootstrap, quantity="mean"), _BOOTSTRAP, 1),
    ("mean", "regression, studentized bootstrap"): Method(
        partial(regression, quantity="mean"), _REGRESSION, 1
    ),
    ("variance", "betting"): Method(partial(betting, quantity="variance"), _GUARANTEED, 1),
    ("variance", "betting, ratio bound"): Method(
        partial(betting_with_bound, quantity="variance"), _BOUND, 1
    ),
    ("variance", "bootstrap"): Method(partial(bootstrap, quantity="variance"), _BOOTSTRAP, 1),
    ("variance", "regression, studentized bootstrap"): Method(
        partial(regression, quantity="variance"), _REGRESSION, 1
    ),
    ("variance", "the paper's, corrected"): Method(
        paper_corrected, (statistics, paper_corrected), 1
    ),
    ("quantile", "betting"): Method(partial(betting, quantity=QUANTILE), _GUARANTEED, 1),
    ("quantile", "betting, ratio bound"): Method(
        partial(betting_with_bound, quantity=QUANTILE), _BOUND, 1
    ),
    ("quantile", "bootstrap"): Method(partial(bootstrap, quantity=QUANTILE), _BOOTSTRAP, 1),
    ("cvar", "betting"): Method(partial(betting, quantity=CVAR), _GUARANTEED, 1),
    ("cvar", "betting, ratio bound"): Method(partial(betting_with_bound, quantity=CVAR), _BOUND, 1),
    ("cvar", "bootstrap"): Method(partial(bootstrap, quantity=CVAR), _BOOTSTRAP, 1),
}
