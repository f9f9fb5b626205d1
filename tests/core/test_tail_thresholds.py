"""Bets on the thresholds of a quantile: sized for each of them, from the past only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core.betting.capital import BetTarget, last_rejected
from ove_sb3.core.betting.schedule import Schedule
from ove_sb3.core.quantities import quantile

SHARE = 0.3


def canary(seed: int, n: int = 700) -> ove.TrajectoryStatistics:
    """A canary log of a candidate with returns around 225, whose weights are 0 or 1 / share."""
    rng = np.random.default_rng(seed)
    ran = rng.random(n) < SHARE
    returns = np.where(ran, rng.normal(225.0, 25.0, n), rng.uniform(10.0, 120.0, n))
    log_ratios = np.where(ran, -np.log(SHARE), -np.inf)
    return ove.trajectory_statistics(log_ratios, returns, np.ones(n, int), gamma=1.0, horizon=1)


@pytest.mark.parametrize(("name", "side"), [("quantile:0.95", "upper"), ("quantile:0.05", "lower")])
def test_easy_tests_in_the_tail_do_not_fail(name: str, side: str) -> None:
    # With bets sized for the quantile, one order in six ended at the range of the return.
    stats, (low, high) = canary(0), (0.0, 500.0)
    for seed in range(12):
        interval = ove.interval(
            stats,
            name,
            reward_range=(low, high),
            max_weight=1 / SHARE,
            side=side,
            delta=0.02,
            method=ove.Betting(n_shuffles=1),
            rng=seed,
        )
        assert interval.lower > 100.0 or interval.upper < 350.0


def targets_of(
    stats: ove.TrajectoryStatistics, monkeypatch: pytest.MonkeyPatch
) -> tuple[BetTarget, Schedule]:
    """Bet target of a tail quantile, without a shuffle."""
    seen: list[Any] = []

    def spy(*args: Any) -> int:
        seen.append(args)
        return last_rejected(*args)

    monkeypatch.setattr(quantile, "last_rejected", spy)
    ove.interval(
        stats, "quantile:0.9", reward_range=(0, 500), max_weight=4.0, side="upper", adaptive=True
    )
    monkeypatch.undo()
    target, schedule, _, _ = seen[0]
    return target, schedule


def test_scales_are_variances_over_that_at_the_quantile(monkeypatch: pytest.MonkeyPatch) -> None:
    target, schedule = targets_of(canary(1), monkeypatch)
    assert target.scales is not None
    assert target.gains is not None
    assert target.ranks is not None
    e = len(schedule.epochs) - 1
    scales, past = target.scales[e], slice(0, schedule.epochs[e])
    base = target.coefficients[e] @ target.columns[:, past]
    variances = np.array(
        [np.var(base + target.gains[past] * (target.ranks[past] > j)) for j in range(scales.size)]
    )
    # A linear function of the variances, at most 1: one further outcome is taken for granted.
    inner = np.flatnonzero(scales < 1.0)
    first, last = inner[0], inner[-1]
    share = (variances[inner] - variances[first]) / (variances[last] - variances[first])
    np.testing.assert_allclose(
        scales[inner], scales[first] + share * (scales[last] - scales[first])
    )
    assert first == 0
    assert 0.0 < scales[first] < 0.5 < scales[last]


def test_scales_depend_on_the_past_only(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    n, cut = 600, 300
    returns, log_ratios = rng.normal(225.0, 25.0, n), rng.normal(-0.02, 0.2, n)
    targets = []
    for later in (0.0, 0.5):
        ratios = log_ratios.copy()
        ratios[cut:] += later * rng.uniform(-0.5, 0.5, n - cut)
        stats = ove.trajectory_statistics(ratios, returns, np.ones(n, int), gamma=1.0, horizon=1)
        targets.append(targets_of(stats, monkeypatch))
    (one, schedule), (other, _) = targets
    assert one.scales is not None
    assert other.scales is not None
    known = schedule.epochs <= cut
    np.testing.assert_array_equal(one.scales[known], other.scales[known])
    assert (one.scales[~known] != other.scales[~known]).any()
