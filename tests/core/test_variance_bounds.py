"""Betting bounds on the variance: the centers of the lower one, and useless weight bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3._validation import FloatArray
from ove_sb3.core.betting import capital
from ove_sb3.core.betting.bet_sizes import LANES
from ove_sb3.core.betting.capital import BetTarget
from ove_sb3.core.betting.schedule import Schedule
from ove_sb3.core.quantities import variance as variance_module
from ove_sb3.core.quantities.variance import _centers
from tests.problems.chain import chain


@pytest.mark.parametrize(
    ("mean", "error", "low", "high"),
    [(0.0, 0.1, -3.0, 5.0), (7.2, 0.01, 0.0, 10.0), (-4.0, 3.0, -4.0, 0.0), (2.0, 1e-9, 0.0, 1.0)],
)
def test_every_possible_mean_is_near_a_center(
    mean: float, error: float, low: float, high: float
) -> None:
    centers = np.array(_centers(mean, error, low, high))
    possible = np.concatenate(
        [np.linspace(low, high, 5001), mean + np.linspace(-1, 1, 501) * error]
    )
    possible = possible[(possible >= low) & (possible <= high)]
    distances = np.abs(possible[:, None] - centers[:, 0])
    assert (distances <= centers[:, 1] * (1 + 1e-9)).any(axis=1).all()
    assert len(centers) < 400


def test_the_square_of_the_half_spacing_is_allowed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # Without it the bound would be too high when the mean lies between centers.
    spacings: list[float] = []
    lowest: list[float] = []
    find_centers, test_grid = variance_module._centers, capital.last_rejected

    def record_centers(*args: Any) -> list[tuple[float, float]]:
        centers = find_centers(*args)
        spacings.extend(half for _, half in centers)
        return centers

    def record_grid(target: BetTarget, schedule: Schedule, grid: FloatArray, level: float) -> int:
        lowest.append(grid[0])
        return test_grid(target, schedule, grid, level)

    monkeypatch.setattr(variance_module, "_centers", record_centers)
    monkeypatch.setattr(variance_module, "last_rejected", record_grid)
    stats = chain(5).statistics(500, np.random.default_rng(0))
    assert ove.variance_interval(stats, reward_range=(-1, 1), side="lower").lower > 0.0
    np.testing.assert_allclose(lowest, np.square(spacings), rtol=1e-12)


@pytest.mark.parametrize("max_weight", [1e12, 1e15, 1e16, 1e20, 1e40, 1e150, 1e300])
def test_a_bound_on_the_weight_that_says_nothing_changes_nothing(max_weight: float) -> None:
    # Rounding errors of a control variate, times such a bound, must not be taken for information.
    rng = np.random.default_rng(0)
    lengths = np.minimum(rng.geometric(1 / 20, size=300), 200)
    log_ratios = np.log(np.where(rng.random(lengths.sum()) < 0.5, 1.02, 0.98))
    rewards = rng.choice([0.0, 1.0], size=lengths.sum())
    stats = ove.trajectory_statistics(log_ratios, rewards, lengths, gamma=0.95, horizon=200)
    for function in (ove.variance_interval, ove.mean_interval):
        without = function(stats, reward_range=(0, 1))
        useless = function(stats, reward_range=(0, 1), max_weight=max_weight)
        assert useless.lower == pytest.approx(without.lower, rel=1e-3)
        assert useless.upper == pytest.approx(without.upper, rel=1e-3)
        assert without.width > 0.0


def test_grids_are_cut_at_whole_groups_of_points(monkeypatch: pytest.MonkeyPatch) -> None:
    # Points that are tested side by side are bet on together: their company must not depend on
    # results of other centers, which are those of the whole log.
    sizes: list[int] = []
    last_rejected = capital.last_rejected

    def spy(target: BetTarget, schedule: Schedule, grid: FloatArray, level: float) -> int:
        sizes.append(len(grid))
        return last_rejected(target, schedule, grid, level)

    monkeypatch.setattr(variance_module, "last_rejected", spy)
    problem = chain(8)
    stats = problem.statistics(3000, np.random.default_rng(0))
    ove.variance_interval(
        stats, reward_range=problem.reward_range, side="lower", method=ove.Betting(n_shuffles=1)
    )
    assert len(sizes) > 10
    assert all(size % LANES == 0 for size in sizes[1:])
    assert min(sizes) < max(sizes)


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_a_wide_range_without_outcomes_is_no_arithmetic_error(scale: float) -> None:
    log_weights = np.full(1000, -800.0)
    log_weights[-1] = 0.0
    returns = np.random.default_rng(0).uniform(-scale, scale, size=1000)
    lengths = np.ones(1000, dtype=int)
    stats = ove.trajectory_statistics(log_weights, returns, lengths, gamma=1.0, horizon=1)
    interval = ove.variance_interval(stats, return_range=(-scale, scale), rng=0)
    assert (interval.lower, interval.upper) == (0.0, scale**2)
