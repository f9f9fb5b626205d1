"""Bet sizes for grid points that are tested side by side."""

from __future__ import annotations

import math

import numba
import numpy as np

from ove_sb3._validation import FloatArray

from .hedging import hazard_rate
from .moments import LARGEST_LOSS

LANES = 32  # grid points tested side by side
_LOG_HEDGED = math.log(1.1)  # log of the aim for p: more than 1, since hedging is not exact
_SKEWED = 0.36  # size of gains, times the bet, from which on hedging is too coarse
_SMALLEST = 1e-300
_SQRT_HALF = 0x3FE6A09E667F3BCD  # bits of sqrt(1/2)
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10


@numba.njit(inline="always")
def _log(x: float) -> float:
    """log(x) for a normal x > 0, without branches so that the loop around it becomes SIMD code.

    Range reduction x = m 2^k with m in [sqrt(1/2), sqrt(2)), and the series of
    2 atanh((m - 1) / (m + 1)).
    """
    bits = np.float64(x).view(np.int64)
    k = (bits - _SQRT_HALF) >> 52
    m = np.int64(bits - (k << 52)).view(np.float64)
    s = (m - 1.0) / (m + 1.0)
    t = s * s
    p = 1.0 / 21.0
    p = p * t + 1.0 / 19.0
    p = p * t + 1.0 / 17.0
    p = p * t + 1.0 / 15.0
    p = p * t + 1.0 / 13.0
    p = p * t + 1.0 / 11.0
    p = p * t + 1.0 / 9.0
    p = p * t + 1.0 / 7.0
    p = p * t + 1.0 / 5.0
    p = p * t + 1.0 / 3.0
    return float(k * _LN2_HIGH + (k * _LN2_LOW + 2.0 * (s + s * t * p)))


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"nsz", "contract"})
def limit_bets(gaps: FloatArray, max_excess: float, shrinks: FloatArray, most: FloatArray) -> None:
    """Factors and upper limits of the bet sizes in an epoch, at gaps above 0; all (LANES,).

    A gap is the distance of a grid point from the lower bound on the bet target.
    """
    for j in range(LANES):
        shrinks[j] = min(max_excess / gaps[j], 1.0)
        most[j] = LARGEST_LOSS / gaps[j]


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"nsz", "contract"})
def bet_sizes(
    capital: FloatArray,
    second_moment: float,
    scales: FloatArray,
    gain_size: float,
    shrinks: FloatArray,
    most: FloatArray,
    missing: FloatArray,
    hedged: FloatArray,
    bets: FloatArray,
) -> None:
    """Bet sizes of the lanes whose capital is below 1.

    Parameters
    ----------
    capital : ndarray, (LANES,)
    second_moment : float
        Predicted sum of squares of what remains.
    scales : ndarray, (LANES,) or (0,)
        Factors of the second moment.
    gain_size : float
        See `BetTarget`; inf for bets that do not hedge.
    shrinks, most : ndarray, (LANES,)
        From `limit_bets`.
    missing, hedged : ndarray, (LANES,)
        Scratch.
    bets : ndarray, (LANES,)
        Output.
    """
    precision = 1.0 / second_moment
    for j in range(LANES):
        missing[j] = -_log(capital[j] if capital[j] > _SMALLEST else _SMALLEST)
    for j in range(LANES):
        bets[j] = math.sqrt(2.0 * missing[j] * precision)
    for j in range(scales.shape[0]):
        bets[j] = bets[j] / math.sqrt(max(scales[j], 1e-12))
    if gain_size < math.inf:
        per_gain, precision = gain_size / _SKEWED, math.sqrt(precision)
        for j in range(LANES):
            hedged[j] = math.sqrt(2.0 * max(missing[j] + _LOG_HEDGED, 0.0))
        for j in range(LANES):
            hedged[j] = hazard_rate(hedged[j])
        for j in range(LANES):
            bet = hedged[j] * precision
            share = min(max(bet * per_gain, 0.0), 1.0)
            bets[j] = share * bets[j] + (1.0 - share) * bet
    for j in range(LANES):
        bets[j] = min(bets[j] * shrinks[j], most[j])
