"""Random meals of a day, as in simglucose's random scenario."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from ..common.streams import uniform_table
from ..common.types import FloatArray, IntArray, KeyArray

N_MEALS = 6

_PROBABILITY = np.array([0.95, 0.3, 0.95, 0.3, 0.95, 0.3])
_EARLIEST = 60.0 * np.array([5.0, 9.0, 10.0, 14.0, 16.0, 20.0])
_LATEST = 60.0 * np.array([9.0, 10.0, 14.0, 16.0, 20.0, 23.0])
_USUAL = 60.0 * np.array([7.0, 9.5, 12.0, 15.0, 18.0, 21.5])
_TIME_SD = np.array([60.0, 30.0, 60.0, 30.0, 60.0, 30.0])
_GRAMS = np.array([45.0, 10.0, 70.0, 10.0, 80.0, 10.0])
_GRAMS_SD = np.array([10.0, 5.0, 10.0, 5.0, 10.0, 5.0])


class Meals(NamedTuple):
    """Meals of n days: breakfast, snack, lunch, snack, dinner, snack.

    Attributes
    ----------
    minutes
        Minute of the day of each meal, (n, 6); -1 for a skipped meal.
    grams
        Carbohydrates of each meal, (n, 6); 0 for a skipped meal.
    """

    minutes: IntArray
    grams: FloatArray


def draw_meals(keys: KeyArray) -> Meals:
    """Meals of the days `keys`, from uniform numbers 0 to 17.

    Each meal takes place with its own probability. Its time is truncated normal, rounded to the
    minute; its size is normal, rounded to the gram and at least 0. Of two meals in the same minute
    only the first is served, as in simglucose.
    """
    u = uniform_table(keys, 0, 3 * N_MEALS).reshape(-1, N_MEALS, 3)
    taken = u[..., 0] < _PROBABILITY
    lowest, highest = (ndtr((edge - _USUAL) / _TIME_SD) for edge in (_EARLIEST, _LATEST))
    minutes = np.rint(_USUAL + _TIME_SD * ndtri(lowest + u[..., 1] * (highest - lowest)))
    grams = np.maximum(np.rint(_GRAMS + _GRAMS_SD * ndtri(u[..., 2])), 0.0)
    served = first_of_each_minute(np.where(taken, minutes, -1.0).astype(np.int64))
    return Meals(served, np.where(served < 0, 0.0, grams))


def first_of_each_minute(minutes: IntArray) -> IntArray:
    """Return `minutes` (n, m) with -1 for every meal after the first of the same minute."""
    kept = minutes.copy()
    for meal in range(1, minutes.shape[1]):
        clash = (minutes[:, :meal] == minutes[:, meal : meal + 1]).any(axis=1)
        kept[clash, meal] = -1
    return kept
