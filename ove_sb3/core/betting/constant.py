"""Bets of constant size: the test of "the mean is at most s" for means that differ.

A fraction f of the largest possible bet is fixed by the pilot. Every observation multiplies the
capital by ``1 - f + f (x - x_min) / (s - x_min)``, a bet of the constant size ``f / (s - x_min)``.
The capital falls in s, so that a bisection finds the bound. Several fractions share the capital.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from ove_sb3._validation import FloatArray, IntArray

_SCALES = np.array([0.7, 1.0, 1.4])  # of the fraction that the pilot suggests
_LARGEST_FRACTION = 0.95
_SMALL, _LARGE = 1e-200, 1e100  # products within are exact enough to be logarithmized later


def last_rejected_constant(
    x: FloatArray,
    pilot: int,
    lower_bound: float,
    second_moment: float,
    grid: FloatArray,
    level: float,
    gains: FloatArray,
    ranks: IntArray,
) -> int:
    """Index of the last grid point that is rejected; -1 if there is none.

    Parameters
    ----------
    x : ndarray, (n,)
        Observations, of which the first `pilot` are not bet on.
    pilot : int
    lower_bound, second_moment : float
        Bound on x, and its predicted mean square.
    grid : ndarray, (k,)
        Increasing.
    level : float
    gains, ranks : ndarray, (n,), or empty
        See `BetTarget`.
    """
    n = x.size - pilot
    scale = math.sqrt(max(second_moment, 1e-300) / n)
    reach = math.sqrt(-2.0 * math.log(level))
    near = float(grid[0]) if gains.size else float(x[:pilot].mean()) - reach * scale
    gap = max(min(near, float(grid[-1])) - lower_bound, reach * scale)
    fractions = np.clip(_SCALES * (reach / (n * scale) * gap), 0.0, _LARGEST_FRACTION)
    fractions = np.unique(fractions)
    excess = np.maximum(x[pilot:] - lower_bound, 0.0)  # only rounding can be below
    needed = math.log(fractions.size) - math.log(level)
    gains, ranks = gains[pilot:], ranks[pilot:]
    rejected, accepted = -1, grid.size
    while accepted - rejected > 1:
        middle = (rejected + accepted) // 2
        gap = float(grid[middle]) - lower_bound
        # No mean can be below the lower bound.
        if gap <= 0.0 or _log_capital(excess, gains, ranks, middle, gap, fractions) >= needed:
            rejected = middle
        else:
            accepted = middle
    return rejected


@numba.njit(cache=True, nogil=True)
def _log_capital(
    excess: FloatArray,
    gains: FloatArray,
    ranks: IntArray,
    point: int,
    gap: float,
    fractions: FloatArray,
) -> float:
    """Logarithm of the sum over all fractions of the capital, which starts at 1."""
    logs = np.zeros(fractions.shape[0])
    products = np.ones(fractions.shape[0])
    for i in range(excess.shape[0]):
        y = excess[i]
        if gains.shape[0] and point < ranks[i]:
            y += gains[i]
        y = y / gap - 1.0
        for k in range(fractions.shape[0]):
            products[k] *= 1.0 + fractions[k] * y
            if not _SMALL < products[k] < _LARGE:
                logs[k] += math.log(products[k])
                products[k] = 1.0
    logs += np.log(products)
    most = logs.max()
    return float(most + math.log(np.sum(np.exp(logs - most))))
