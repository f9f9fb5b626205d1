"""The meals of a day: simglucose's random scenario, drawn from the key of the day."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from scipy.special import ndtr, ndtri

from .streams import FloatArray, IntArray, KeyArray, uniform

N_MEALS = 6  # breakfast, snack, lunch, snack, dinner, snack

_PROBABILITY = np.array([0.95, 0.3, 0.95, 0.3, 0.95, 0.3])
_EARLIEST = 60.0 * np.array([5.0, 9.0, 10.0, 14.0, 16.0, 20.0])
_LATEST = 60.0 * np.array([9.0, 10.0, 14.0, 16.0, 20.0, 23.0])
_USUAL = 60.0 * np.array([7.0, 9.5, 12.0, 15.0, 18.0, 21.5])
_TIME_SD = np.array([60.0, 30.0, 60.0, 30.0, 60.0, 30.0])
_GRAMS = np.array([45.0, 10.0, 70.0, 10.0, 80.0, 10.0])
_GRAMS_SD = np.array([10.0, 5.0, 10.0, 5.0, 10.0, 5.0])


class Meals(NamedTuple):
    """The meals of n days, in order of the time they are announced.

    Attributes
    ----------
    minutes
        Minute of the day of each meal, (n, 6); -1 for a meal not taken.
    grams
        Carbohydrates, (n, 6); 0 for a meal not taken.
    """

    minutes: IntArray
    grams: FloatArray


@numba.njit(cache=True, nogil=True, error_model="numpy")
def day_uniforms(keys: KeyArray, first: int, count: int) -> FloatArray:
    """The uniforms number first, ..., first + count - 1 of every key, (n, count)."""
    result = np.empty((keys.shape[0], count))
    for i in range(keys.shape[0]):
        for j in range(count):
            result[i, j] = uniform(keys[i], first + j)
    return result


def draw_meals(keys: KeyArray) -> Meals:
    """The meals of the days `keys`, from their uniforms number 0 to 17.

    Each meal is taken with its probability, at a time from a truncated normal rounded to the
    minute, with an amount from a normal rounded to the gram and never negative. Of two meals in the
    same minute the first of the list is served, as simglucose does.
    """
    u = day_uniforms(keys, 0, 3 * N_MEALS).reshape(-1, N_MEALS, 3)
    taken = u[..., 0] < _PROBABILITY
    lowest, highest = (ndtr((edge - _USUAL) / _TIME_SD) for edge in (_EARLIEST, _LATEST))
    minutes = np.rint(_USUAL + _TIME_SD * ndtri(lowest + u[..., 1] * (highest - lowest)))
    grams = np.maximum(np.rint(_GRAMS + _GRAMS_SD * ndtri(u[..., 2])), 0.0)
    served = first_of_each_minute(np.where(taken, minutes, -1.0).astype(np.int64))
    return Meals(served, np.where(served < 0, 0.0, grams))


def first_of_each_minute(minutes: IntArray) -> IntArray:
    """Minutes of the meals (n, m), with -1 for any meal after the first of its minute."""
    kept = minutes.copy()
    for meal in range(1, minutes.shape[1]):
        clash = (minutes[:, :meal] == minutes[:, meal : meal + 1]).any(axis=1)
        kept[clash, meal] = -1
    return kept
