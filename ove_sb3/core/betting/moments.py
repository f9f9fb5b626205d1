"""Moments of the bet target, predicted from the past, from which bet sizes follow."""

from __future__ import annotations

import math

import numba
import numpy as np

from ove_sb3._validation import FloatArray, IntArray

from .schedule import Schedule

PAST = 1 << 14  # past observations used for the bet sizes
LARGEST_LOSS = 0.95  # of the capital in one observation
_NEGLIGIBLE = 1e-200  # second moment: bets against it would overflow


def predicted_moments(
    columns: FloatArray,
    coefficients: FloatArray,
    schedule: Schedule,
    level: float,
    most: int = PAST,
) -> tuple[FloatArray, FloatArray]:
    """Second moments and sizes of gains of every epoch's bet target, from its latest past.

    Parameters
    ----------
    columns : ndarray, (k, n)
    coefficients : ndarray, (n_epochs, k)
    schedule : Schedule
    level : float
        Level of the test.
    most : int
        Largest number of past observations to use.

    Returns
    -------
    second_moments : ndarray, (n_epochs,)
        Effective second moment about the mean, E[y^2 / (1 + lam y)]: a gain y multiplies the
        capital by 1 + lam y, so that large gains count for less than their square. lam is the bet
        size that follows from the result. A small margin covers values not seen yet.
    gain_sizes : ndarray, (n_epochs,)
        Third moment about the mean, over the second.
    """
    return _predicted_moments(columns, coefficients, schedule.epochs, schedule.planned, level, most)


@numba.njit(cache=True, nogil=True)
def _predicted_moments(
    columns: FloatArray,
    coefficients: FloatArray,
    epochs: IntArray,
    planned: FloatArray,
    level: float,
    most: int,
) -> tuple[FloatArray, FloatArray]:
    n_epochs = epochs.shape[0]
    second_moments, gain_sizes = np.empty(n_epochs), np.empty(n_epochs)
    for e in range(n_epochs):
        end = epochs[e]
        begin = max(0, end - most)
        y = np.zeros(end - begin)
        for c in range(columns.shape[0]):
            factor = coefficients[e, c]
            if factor != 0.0:
                for i in range(begin, end):
                    y[i - begin] += factor * columns[c, i]
        y -= y.mean()
        second_moments[e] = effective_second_moment(y, level, planned[e])
        square, cube = 0.0, 0.0
        for value in y:
            square += value * value
            cube += value * value * value
        gain_sizes[e] = cube / square if square > _NEGLIGIBLE else 0.0
    return second_moments, gain_sizes


@numba.njit(cache=True, nogil=True)
def effective_second_moment(y: FloatArray, level: float, n: float) -> float:
    """Effective second moment of centered values, see `predicted_moments`."""
    size = y.size
    square, smallest = 0.0, 0.0
    for value in y:
        square += value * value
        smallest = min(smallest, value)
    square /= size
    second_moment = square
    if square > _NEGLIGIBLE:
        for _ in range(3):
            bet = math.sqrt(-2.0 * math.log(level) / (max(second_moment, 1e-12 * square) * n))
            bet = min(bet, LARGEST_LOSS / max(-smallest, 1e-300))
            second_moment = 0.0
            for value in y:
                second_moment += value * value / (1.0 + bet * value)
            second_moment /= size
    return second_moment * (1.0 + 2.0 / math.sqrt(size))
