"""Bets on observations one after another: the compiled pass of `capital` over a log in order."""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

from ove_sb3._validation import FloatArray, IntArray

from .bet_sizes import LANES, bet_sizes, limit_bets

_RUN = 16  # bets between two checks of the capital
_MOST_TOGETHER = 32  # observations in one bet
_LITTLE = 0.1  # share of the capital at risk in a bet on several observations


@numba.njit(cache=True, nogil=True, fastmath={"nsz", "contract"})
def _multiply(
    values: FloatArray, capital: FloatArray, slope: FloatArray, offset: FloatArray
) -> None:
    """Multiply every lane's capital by its factors; four observations a turn become SIMD code."""
    whole = values.shape[0] // 4 * 4
    for i in range(0, whole, 4):
        x0, x1, x2, x3 = values[i], values[i + 1], values[i + 2], values[i + 3]
        for j in range(LANES):
            first = (offset[j] + slope[j] * x0) * (offset[j] + slope[j] * x1)
            second = (offset[j] + slope[j] * x2) * (offset[j] + slope[j] * x3)
            capital[j] = capital[j] * (first * second)
    for i in range(whole, values.shape[0]):
        x0 = values[i]
        for j in range(LANES):
            capital[j] = capital[j] * (offset[j] + slope[j] * x0)


@numba.njit(cache=True, nogil=True)
def _observations_per_bet(risk: float) -> int:
    """Number of observations to bet on together, if one puts that share of the capital at risk.

    A bet on their sum, 1 + lam sum(x_i - s), is as valid as a bet on each, and takes less time.
    While little is at risk it is also as good: the two differ by products of different terms, whose
    mean is about 0.
    """
    return min(max(int(_LITTLE / max(risk, 1e-300)), 1), _MOST_TOGETHER)


@numba.njit(cache=True, nogil=True)
def _bet(
    values: FloatArray,
    capital: FloatArray,
    best: FloatArray,
    slope: FloatArray,
    offset: FloatArray,
) -> None:
    """Multiply every lane's capital by its factors, and keep its largest value."""
    for i in range(0, values.shape[0], _RUN):
        _multiply(values[i : i + _RUN], capital, slope, offset)
        for j in range(LANES):
            best[j] = max(best[j], capital[j])


@numba.njit(cache=True, nogil=True, fastmath={"nsz", "contract"})
def _multiply_ranked(
    values: FloatArray,
    gains: FloatArray,
    ranks: IntArray,
    first: int,
    capital: FloatArray,
    slope: FloatArray,
    offset: FloatArray,
) -> None:
    """Multiply the capital of the lanes from grid point `first` on, with gains up to their rank."""
    for i in range(values.shape[0]):
        x, gain, rank = values[i], gains[i], ranks[i] - first
        for j in range(LANES):
            capital[j] = capital[j] * (offset[j] + slope[j] * (x + (gain if j < rank else 0.0)))


@numba.njit(cache=True, nogil=True, fastmath={"nsz", "contract"})
def _observe(
    columns: FloatArray,
    begin: int,
    coefficients: FloatArray,
    constant: float,
    lower_bound: float,
    unfinished: NDArray[np.bool_],
    x: FloatArray,
) -> None:
    """Fill `x` with the bet target from observation `begin` on, at least its lower bound.

    An observation that never ended counts at the lower bound.
    """
    x[:] = constant
    for c in range(columns.shape[0]):
        column, factor = columns[c, begin : begin + x.shape[0]], coefficients[c]
        for i in range(x.shape[0]):
            x[i] += factor * column[i]
    for i in range(x.shape[0]):
        x[i] = max(x[i], lower_bound)  # only rounding can be below the lower bound
    for i in range(unfinished[begin : begin + x.shape[0]].shape[0]):
        if unfinished[begin + i]:
            x[i] = lower_bound


@numba.njit(cache=True, nogil=True, fastmath={"nsz", "contract"})
def last_rejected_in_order(
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
    start: FloatArray,
    gain_sizes: FloatArray,
    scales: FloatArray,
) -> int:
    """Index of the last grid point before the first that is not rejected, see `capital`."""
    hedging = not (unfinished.shape[0] or gains.shape[0])
    lane = np.empty((10, LANES))  # rows taken by their index are known to be contiguous
    points, gaps, shrinks, most = lane[0], lane[1], lane[2], lane[3]
    capital, best = lane[4], lane[5]  # p of every lane, and its largest value so far
    slope, offset, missing, hedged = lane[6], lane[7], lane[8], lane[9]
    own_scales = np.ones(LANES if scales.shape[0] else 0)
    values = np.empty(np.max(blocks[1:] - blocks[:-1]))
    # Other grid points need the same sums.
    sums = np.empty(blocks[-1] // _MOST_TOGETHER)
    summed = np.zeros(blocks.shape[0] - 1, np.bool_)
    for first in range(0, grid.shape[0], LANES):
        lanes = min(LANES, grid.shape[0] - first)
        for j in range(LANES):  # lanes beyond the grid are done
            points[j] = grid[min(first + j, grid.shape[0] - 1)]
            capital[j] = start[first + j] if j < lanes else 1.0
            best[j] = capital[j]
        epoch = -1
        for block in range(blocks.shape[0] - 1):
            begin, end = blocks[block], blocks[block + 1]
            if epoch != epoch_of_block[block]:
                epoch = epoch_of_block[block]
                lower_bound = lower_bounds[epoch]
                for j in range(LANES):
                    gaps[j] = points[j] - lower_bound
                    if gaps[j] <= 0.0:
                        best[j] = 1.0  # no mean can be below the lower bound
                limit_bets(gaps, max_excess[epoch], shrinks, most)
                for j in range(lanes if scales.shape[0] else 0):
                    own_scales[j] = scales[epoch, first + j]
            bet_sizes(
                capital,
                max(second_moments[epoch], 1e-300) * remaining[block],
                own_scales,
                gain_sizes[epoch] if hedging else math.inf,
                shrinks,
                most,
                missing,
                hedged,
                slope,
            )
            largest_risk = 0.0
            for j in range(LANES):
                slope[j] = 0.0 if best[j] >= 1.0 else slope[j]
                offset[j] = 1.0 - slope[j] * points[j]
                largest_risk = max(largest_risk, slope[j] * gaps[j])
            if gains.shape[0]:
                x = values[: end - begin]
                _observe(
                    columns,
                    begin,
                    coefficients[epoch],
                    constants[epoch],
                    lower_bound,
                    unfinished,
                    x,
                )
                for i in range(0, end - begin, _RUN):
                    run = slice(begin + i, min(begin + i + _RUN, end))
                    own = x[i : i + _RUN]
                    _multiply_ranked(own, gains[run], ranks[run], first, capital, slope, offset)
                    for j in range(LANES):
                        best[j] = max(best[j], capital[j])
            else:
                # Where the end is open, it must not decide which observations are bet on together.
                together = 1 if unfinished.shape[0] else _observations_per_bet(largest_risk)
                n_bets = (end - begin) // together
                single = begin if together == 1 else begin + n_bets * together
                if together > 1:
                    keep = together == _MOST_TOGETHER
                    x = sums[begin // together :][:n_bets] if keep else values[:n_bets]
                    if not (keep and summed[block]):
                        _observe(
                            columns,
                            begin,
                            coefficients[epoch],
                            constants[epoch],
                            lower_bound,
                            unfinished,
                            values[: single - begin],
                        )
                        for k in range(n_bets):
                            x[k] = np.sum(values[k * together : (k + 1) * together])
                        summed[block] = keep
                    for j in range(LANES):
                        offset[j] = 1.0 - together * slope[j] * points[j]
                    _bet(x, capital, best, slope, offset)
                if single < end:
                    x = values[: end - single]
                    _observe(
                        columns,
                        single,
                        coefficients[epoch],
                        constants[epoch],
                        lower_bound,
                        unfinished,
                        x,
                    )
                    for j in range(LANES):
                        offset[j] = 1.0 - slope[j] * points[j]
                    _bet(x, capital, best, slope, offset)
            settled = True
            for j in range(lanes):
                settled &= best[j] >= 1.0
            if settled:
                break
        for j in range(lanes):
            if not best[j] >= 1.0:  # also if it is NaN
                return int(first + j - 1)
    return int(grid.shape[0] - 1)
