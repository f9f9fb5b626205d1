"""Variance of the return.

Both betting bounds use ``Var = min over m of E[rho (G - m)^2]``, so that neither needs an interval
for the mean: for an upper bound any m fixed in advance will do, for a lower bound the least over a
grid of centers, one of which is near the mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.core.assumptions import Limits
from ove_sb3.core.betting.capital import last_rejected
from ove_sb3.core.betting.forms import (
    AnyForm,
    coupled_forms,
    reference_return,
    truncated_returns,
    whole_form,
)
from ove_sb3.core.betting.grid import grid_around, whole_lanes
from ove_sb3.core.betting.squares import SquareBets, square_about
from ove_sb3.core.betting.targets import Choices, bet_against
from ove_sb3.core.concentration.inequalities import Inequality
from ove_sb3.core.concentration.moments import paper_variance_lower, paper_variance_upper
from ove_sb3.core.sample import Sample

from .base import Quantity, register_quantity, without_argument

_MANY_BLOCKS = 400  # revisions of the bet sizes; more are tighter and slower
_FEW_BLOCKS = 100  # for the lower bound, which is tested at many centers
_CENTERS = np.array([0.0, 0.03, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0])  # from the mean to mid-range
_CENTERS_PER_ERROR = 5  # half-spacings of the lower bound's centers per standard error of the pilot
_FAR = 4.0  # a center is far if its x(m) exceeds that of the nearest by so many grid units
_FAR_STEP = 0.8  # of the grid for such a center, in units


@dataclass(frozen=True)
class Variance(Quantity):
    """Variance of the return."""

    kind = "variance"
    label = "variance"
    definition = "the average squared distance of an episode from the mean"

    def of_sample(self, returns: FloatArray) -> float:
        """Unbiased sample variance; exactly 0 if all returns are equal."""
        return float(returns.var(ddof=1)) if np.ptp(returns) > 0.0 else 0.0

    def a_priori(self, limits: Limits) -> tuple[float, float]:
        """From 0 to Popoviciu's bound."""
        return 0.0, limits.max_variance

    def betting_lower(self, sample: Sample, level: float) -> float:
        """Lower confidence bound by betting."""
        return variance_lower(sample, level)

    def betting_upper(self, sample: Sample, level: float) -> float:
        """Upper confidence bound by betting."""
        return variance_upper(sample, level)

    def concentration_lower(self, sample: Sample, level: float, bound: Inequality) -> float:
        """Lower confidence bound by the paper's method."""
        return paper_variance_lower(sample, level, bound)

    def concentration_upper(self, sample: Sample, level: float, bound: Inequality) -> float:
        """Upper confidence bound by the paper's method."""
        return paper_variance_upper(sample, level, bound)


register_quantity("variance", without_argument(Variance))


def variance_upper(sample: Sample, level: float) -> float:
    """Upper confidence bound on the variance at the given level."""
    schedule = sample.schedule(_MANY_BLOCKS, warm_up=True)
    reference = reference_return(sample, schedule)
    forms = coupled_forms(sample, reference)

    def choices(form: AnyForm, mean: FloatArray, variance: FloatArray) -> Choices:
        middle = (form.low + form.high) / 2
        d = mean[:, None] + _CENTERS * (middle - mean[:, None])
        bound = np.maximum((form.high - d) ** 2, (form.low - d) ** 2)
        expected = -(variance[:, None] + (mean[:, None] - d) ** 2)
        return Choices(square_about(d), bound, np.zeros_like(d), expected)

    bets = bet_against(forms, schedule, level, choices)
    error, lowest = schedule.grid_error(bets.error), -sample.limits.max_variance
    grid = grid_around(bets.center, bets.unit, lowest, 0.0, error=error)
    index = last_rejected(bets.target, schedule, grid, level)
    return float(-grid[index]) if index >= 0 else sample.limits.max_variance


def variance_lower(sample: Sample, level: float) -> float:
    """Lower confidence bound on the variance at the given level.

    Bets on x(m) of `SquareBets`. If the true mean is within h of the center m, x(m) has a
    mean of at most Var + h^2, so that rejecting s + h^2 rejects a variance of s. The least bound
    over all centers is that of the right one or less.
    """
    schedule = sample.schedule(_FEW_BLOCKS, large_pilot=True, warm_up=True)
    reference = reference_return(sample, schedule)
    form = whole_form(sample, reference)
    bets = SquareBets([form, *truncated_returns(sample, reference)], schedule, level)
    first = schedule.n_warm_up
    mean, variance = float(bets.means[first]), float(bets.variances[first])
    error = max(_mean_error(form.columns[:, : schedule.pilot], mean), 1e-9 * (form.high - form.low))
    unit = max(math.sqrt(bets.second_moments[first] / schedule.grid_n), 1e-300)
    own_error, highest = schedule.grid_error(float(bets.errors[first])), sample.limits.max_variance
    grid = grid_around(variance, unit, 0.0, highest, error=own_error)
    everywhere = np.arange(len(grid))
    with np.errstate(over="ignore"):  # without outcomes in the pilot the unit is tiny
        _, apart = np.unique(np.floor(grid / (_FAR_STEP * unit)), return_index=True)
    index = len(grid) - 1
    centers, half_spacings = np.array(_centers(mean, error, form.low, form.high)).T
    targets = bets.targets(centers, half_spacings)
    for d, half_spacing, target in zip(centers, half_spacings, targets, strict=True):
        # Grids are fixed in advance, a coarser one for a far center; how far up to go is free.
        points = everywhere if (d - mean) ** 2 <= _FAR * unit else apart
        points = points[: whole_lanes(int(np.searchsorted(points, index)) + 1)]
        rejected = last_rejected(target, schedule, grid[points] + half_spacing**2, level)
        if rejected < 0:
            return 0.0
        index = min(index, int(points[rejected]))
    return float(grid[index])


def _mean_error(columns: FloatArray, mean: float) -> float:
    """Standard error of the self-normalized mean."""
    weight = columns[2].sum()
    return float(np.linalg.norm(columns[1] - mean * columns[2]) / weight) if weight else 0.0


def _centers(mean: float, error: float, low: float, high: float) -> list[tuple[float, float]]:
    """Centers and half-spacings that cover [low, high], dense near `mean`, nearest first."""
    mean = min(max(mean, low), high)
    centers = [(mean, error / _CENTERS_PER_ERROR)]
    for sign, room in ((1.0, high - mean), (-1.0, mean - low)):
        edge = error / _CENTERS_PER_ERROR  # how far from the mean the centers reach so far
        while edge < room:
            half = max(edge, error) / _CENTERS_PER_ERROR
            centers.append((mean + sign * (edge + half), half))
            edge += 2 * half
    return sorted(centers, key=lambda center: abs(center[0] - mean))
