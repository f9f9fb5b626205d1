"""Capital process: a test of "the mean is at most s" by betting, and the bounds it gives.

To test "the mean of x_i given the past is at most s" start with p = a and multiply it by
``1 + lam (x_i - s)`` for every observation. If the bet sizes ``lam`` are fixed before x_i is seen
and no factor can be negative, p/a is a non-negative supermartingale under the hypothesis, and by
Ville's inequality reaches 1/a with probability at most a. As in Voracek and Orabona (2025), the
bet sizes aim at p = 1 at the end of the data, which makes the bound nearly as tight as a normal
interval of the same level. Unless observations are skewed by rare gains, their number is unknown,
or each hypothesis has its own indicator, they are those of `hedging`, which depend less on the
order.

The confidence bound comes from a fixed sequence of such tests: values of s on an increasing grid
that is laid after a pilot (see `warm_up` for bets on the pilot itself). The bound is the last grid
point before the first one that is not rejected. It exceeds the true mean only if the first grid
point at or above the true mean, for which the hypothesis is true, is rejected: probability at most
a. (A bisection over s would need rejection to be monotone in s, which bet sizes that depend on s do
not provide.)

Observations may also overlap in time: see `overlapping`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ove_sb3._validation import FloatArray, IntArray

from .constant import last_rejected_constant
from .in_order import last_rejected_in_order
from .overlapping import last_capitals_overlapping
from .schedule import Schedule
from .warm_up import WarmUp

_NO_GAINS, _NO_RANKS, _NO_SCALES = np.empty(0), np.empty(0, np.int64), np.empty((0, 0))


@dataclass(frozen=True)
class BetTarget:
    """The bet target, x = coefficients @ columns + constants, epoch by epoch.

    Attributes
    ----------
    columns : ndarray, (k, n)
        The observations, in the order in which they are bet on.
    coefficients : ndarray, (n_epochs, k)
    constants : ndarray, (n_epochs,)
    lower_bounds : ndarray, (n_epochs,)
        Lower bounds on x implied by the stated limits, not by the data.
    second_moments : ndarray, (n_epochs,)
        Predicted mean square of x, from the past. Any value is valid.
    max_excess : ndarray, (n_epochs,)
        Largest plausible mean of x above its lower bound; bets shrink for hypotheses beyond it.
    gain_sizes : ndarray, (n_epochs,), or None
        Predicted third moment of x over its second: large if x has rare, large gains.
    warm_up : WarmUp or None
        Bets on the pilot.
    gains : ndarray, (n,), or None
        Non-negative amounts that x gains at the first ``ranks[i]`` grid points, so that every grid
        point tests a variable of its own, such as the indicator of a threshold.
    ranks : ndarray of int64, (n,), or None
        Number of grid points at which each observation has its gain.
    scales : ndarray, (n_epochs, n_points), or None
        Factors of the second moments for every grid point, whose variables differ.
    """

    columns: FloatArray
    coefficients: FloatArray
    constants: FloatArray
    lower_bounds: FloatArray
    second_moments: FloatArray
    max_excess: FloatArray
    gain_sizes: FloatArray | None = None
    warm_up: WarmUp | None = None
    gains: FloatArray | None = None
    ranks: IntArray | None = None
    scales: FloatArray | None = None


def last_rejected(target: BetTarget, schedule: Schedule, grid: FloatArray, level: float) -> int:
    """Index of the last grid point before the first that is not rejected; -1 if there is none."""
    if not schedule.remaining.size:
        return -1  # nothing but the pilot
    if schedule.constant:
        return _last_rejected_from_pilot(target, schedule, grid, level)
    if schedule.bet_block is None:
        start = np.full(grid.size, level)
        if target.warm_up is not None:
            start = target.warm_up.capital(grid, level, target.gains, target.ranks)
        sizes = np.zeros(len(schedule.epochs)) if target.gain_sizes is None else target.gain_sizes
        scales = _NO_SCALES if target.scales is None else target.scales
        arguments = (*_arguments(target, schedule, grid, level), start, sizes, scales)
        return int(last_rejected_in_order(*arguments))
    accepted = np.flatnonzero(~(last_capitals(target, schedule, grid, level) >= 1.0))
    return int(accepted[0]) - 1 if accepted.size else len(grid) - 1


def _last_rejected_from_pilot(
    target: BetTarget, schedule: Schedule, grid: FloatArray, level: float
) -> int:
    return last_rejected_constant(
        np.einsum("i,in->n", target.coefficients[0], target.columns) + target.constants[0],
        int(schedule.epochs[0]),
        float(target.lower_bounds[0]),
        float(target.second_moments[0]),
        grid,
        level,
        _NO_GAINS if target.gains is None else target.gains,
        _NO_RANKS if target.ranks is None else target.ranks,
    )


def last_capitals(
    target: BetTarget, schedule: Schedule, grid: FloatArray, level: float
) -> FloatArray:
    """Capital of every grid point after all observations; 1 if it is rejected for certain."""
    arguments = (
        *_arguments(target, schedule, grid, level),
        schedule.bet_block,
        schedule.last_bet_block,
        schedule.planned,
        schedule.n_open,
    )
    return np.asarray(last_capitals_overlapping(*arguments))


def _arguments(
    target: BetTarget, schedule: Schedule, grid: FloatArray, level: float
) -> tuple[Any, ...]:
    return (
        target.columns,
        target.coefficients,
        target.constants,
        target.lower_bounds,
        target.second_moments,
        np.maximum(target.max_excess, 0.0),  # a negative one would bet the wrong way
        schedule.blocks,
        schedule.epoch_of_block,
        schedule.remaining,
        np.zeros(0, np.bool_) if schedule.unfinished is None else schedule.unfinished,
        np.ascontiguousarray(grid),
        level,
        _NO_GAINS if target.gains is None else target.gains,
        _NO_RANKS if target.ranks is None else target.ranks,
    )
