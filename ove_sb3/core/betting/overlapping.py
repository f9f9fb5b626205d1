"""Bets on observations that overlap in time.

Observations overlap: they are episodes of several environments that run concurrently, under a
behavior that learns from all of them. Then the bet on x_i uses the observations that were complete
when i began, not those before i in the log. Let x_i(t) be the expectation of x_i given
all that has happened up to time t, if the candidate acted from then on; weighted by the ratios so
far it is a martingale, and so is 1 + lam (x_i(t) - s) for a bet size fixed when i began.
Given the past, the next steps of different environments are independent: the product over all of
them is a martingale too. Its value when all observations are complete is p/a. Before that, p leaves
out those still running, so only its last value counts.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

from ove_sb3._validation import FloatArray, IntArray

from .moments import LARGEST_LOSS

_AIM = 1.25  # aim for p where only its last value counts
_DONE = math.log(_AIM / 1.1)  # of log p is missing when betting stops there
# No point recovers from so little capital. Without it, which is valid, it does not go on as a
# subnormal number, which takes ten times as long to multiply.
_LOST = 1e-300


@numba.njit(cache=True, nogil=True)
def last_capitals_overlapping(
    columns: FloatArray,
    coefficients: FloatArray,
    constants: FloatArray,
    lower_bounds: FloatArray,
    second_moments: FloatArray,
    max_excess: FloatArray,
    blocks: IntArray,
    epoch_of_block: IntArray,
    remaining: FloatArray,
    unfinished: NDArray[np.bool_],
    grid: FloatArray,
    level: float,
    gains: FloatArray,
    ranks: IntArray,
    bet_block: IntArray,
    last_bet_block: IntArray,
    planned: FloatArray,
    n_open: int,
) -> FloatArray:
    """Observations may overlap: each is bet on with the bet sizes fixed when it began.

    One that never ended counts at the lower bound of its bet target. If it is not known exactly
    when it began, the largest loss over the bets that may have been its own counts. Bets aim at a
    capital that can bear the loss of `n_open` such observations.
    """
    n_points = grid.shape[0]
    capital = np.full(n_points, level)
    certain = np.zeros(n_points, np.bool_)
    bets = np.zeros((blocks.shape[0] - 1, n_points))
    needed = math.log(_AIM / level)
    shrinks, reserves, factors = np.ones(n_points), np.zeros(n_points), np.ones(n_points)
    of_epoch = first = last = -1
    for block in range(blocks.shape[0] - 1):
        epoch = epoch_of_block[block]
        second_moment = max(second_moments[epoch], 1e-300)
        lower_bound = lower_bounds[epoch]
        if epoch != of_epoch:
            usual = math.sqrt(2.0 * needed / (second_moment * planned[epoch]))
            _plan_losses(grid, lower_bound, max_excess[epoch], usual, n_open, shrinks, reserves)
            of_epoch = epoch
        for j in range(n_points):
            gap = grid[j] - lower_bound
            if gap <= 0.0:
                certain[j] = True  # no mean can be below the lower bound
            if certain[j]:
                continue
            if capital[j] < _LOST:
                capital[j] = 0.0
                continue
            missing = math.log(_AIM / capital[j]) + reserves[j]
            if missing <= _DONE:
                continue
            missing *= needed / (needed + reserves[j])
            bet = shrinks[j] * math.sqrt(2.0 * missing / (second_moment * remaining[block]))
            bets[block, j] = min(bet, LARGEST_LOSS / gap)
        for i in range(blocks[block], blocks[block + 1]):
            source = bet_block[i]
            if unfinished.shape[0] and unfinished[i]:
                if (source, last_bet_block[i]) != (first, last):
                    first, last = source, last_bet_block[i]
                    _largest_losses(grid, lower_bounds, epoch_of_block, bets, first, last, factors)
                capital *= factors
                continue
            if source < 0:
                continue
            of_bet = epoch_of_block[source]
            x = constants[of_bet]
            for c in range(columns.shape[0]):
                x += coefficients[of_bet, c] * columns[c, i]
            x = max(x, lower_bounds[of_bet])  # only rounding can be below the lower bound
            gain, rank = (gains[i], ranks[i]) if gains.shape[0] else (0.0, 0)
            for j in range(rank):
                capital[j] *= 1.0 + bets[source, j] * (x + gain - grid[j])
            for j in range(rank, n_points):
                capital[j] *= 1.0 + bets[source, j] * (x - grid[j])
    return np.where(certain, 1.0, capital)


@numba.njit(cache=True, nogil=True)
def _plan_losses(
    grid: FloatArray,
    lower_bound: float,
    max_excess: float,
    usual: float,
    n_open: int,
    shrinks: FloatArray,
    reserves: FloatArray,
) -> None:
    """Factors of the bet sizes, and the log of what `n_open` observations can lose in an epoch."""
    for j in range(grid.shape[0]):
        gap = grid[j] - lower_bound
        shrinks[j] = max_excess / gap if gap > max_excess else 1.0
        loss = min(max(shrinks[j] * usual * gap, 0.0), LARGEST_LOSS)
        reserves[j] = -n_open * math.log1p(-loss)


@numba.njit(cache=True, nogil=True)
def _largest_losses(
    grid: FloatArray,
    lower_bounds: FloatArray,
    epoch_of_block: IntArray,
    bets: FloatArray,
    first: int,
    last: int,
    factors: FloatArray,
) -> None:
    """Least factors of the capital over the bets of some blocks, at their lower bounds."""
    factors[:] = 1.0
    for block in range(max(first, 0), last + 1):
        lower_bound = lower_bounds[epoch_of_block[block]]
        for j in range(grid.shape[0]):
            factors[j] = min(factors[j], 1.0 - bets[block, j] * (grid[j] - lower_bound))
