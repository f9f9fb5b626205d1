"""Grids of hypotheses."""

from __future__ import annotations

import math

import numpy as np

from ove_sb3._validation import FloatArray

from .bet_sizes import LANES

_NEAR = 20.0  # of a grid's center, in units
_PLAUSIBLE = 6.0  # standard errors of the center: a small pilot underestimates them


def whole_lanes(n_points: int) -> int:
    """Number of grid points to keep if at least so many are needed.

    Points that are tested side by side are bet on together, so a grid that is cut where other
    results make more points superfluous must keep whole groups of them.
    """
    return -(-n_points // LANES) * LANES


def grid_around(
    center: float,
    unit: float,
    low: float,
    high: float,
    *,
    error: float = 0.0,
    step: float = 0.05,
) -> FloatArray:
    """Increasing grid on [low, high]: steps of ``step * unit`` near `center`, then wider.

    Parameters
    ----------
    center, unit, low, high : float
    error : float
        Standard error of the center. Steps grow slowly while the bound may plausibly be there.
    step : float
        Steps near the center, in units.
    """
    center = min(max(center, low), high)
    unit = max(unit, 1e-9 * (high - low), 1e-300)
    farthest = max(high - center, center - low) / unit
    plausible = min(max(_NEAR, _PLAUSIBLE * error / unit), max(farthest, _NEAR))
    near = np.arange(0.0, _NEAR, step)
    middle = _geometric(_NEAR, plausible, step / _NEAR)
    far = _geometric(plausible, farthest, step)
    distances = np.concatenate([near, middle[:-1], far]) * unit
    grid = np.concatenate([center - distances[::-1], center + distances[1:], [low, high]])
    return np.unique(grid[(grid >= low) & (grid <= high)])


def _geometric(first: float, last: float, growth: float) -> FloatArray:
    """Geometric sequence from `first` to `last` or beyond."""
    n_steps = max(0, math.ceil(math.log(max(last, first) / first) / math.log1p(growth)))
    return np.asarray(first * (1.0 + growth) ** np.arange(n_steps + 1))
