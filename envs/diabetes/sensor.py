"""Noise of a continuous glucose monitor over a day.

The model is that of simglucose [1]_: an autoregressive normal sequence with one value every 15
minutes, a Johnson SU transform of each value, and cubic splines over blocks of 150 minutes.

References
----------
.. [1] M. Breton and B. Kovatchev, "Analysis, modeling, and simulation of the accuracy of continuous
   glucose sensors", Journal of Diabetes Science and Technology, 2008.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numba
import numpy as np
from scipy.interpolate import make_interp_spline
from scipy.special import ndtri

from ..common.streams import uniform_table
from ..common.types import FloatArray, KeyArray
from .meals import N_MEALS
from .units import MINUTES

_KNOT = 15.0  # minutes between two values of the sequence
_BLOCK = 10  # intervals between knots per spline


class Sensor(NamedTuple):
    """Continuous glucose monitor.

    Attributes
    ----------
    sample_time
        Minutes between two readings.
    low, high
        Smallest and largest reading, mg/dL.
    pacf
        Coefficient of the autoregression.
    gamma, lam, delta, xi
        Parameters of the Johnson SU transform.
    """

    sample_time: int
    low: float
    high: float
    pacf: float
    gamma: float
    lam: float
    delta: float
    xi: float

    @classmethod
    def from_table(cls, row: dict[str, float]) -> Sensor:
        """Sensor from a row of simglucose's table."""
        return cls(
            sample_time=int(row["sample_time"]),
            low=row["min"],
            high=row["max"],
            pacf=row["PACF"],
            gamma=row["gamma"],
            lam=row["lambda"],
            delta=row["delta"],
            xi=row["xi"],
        )


@cache
def _spline_weights(sample_time: int) -> FloatArray:
    """Weights of the knots of a block in each reading of the block, (n_readings, n_knots)."""
    knots = _KNOT * np.arange(_BLOCK + 1)
    readings = sample_time * np.arange(1, int(_BLOCK * _KNOT) // sample_time + 1)
    return np.asarray(make_interp_spline(knots, np.eye(_BLOCK + 1), k=3)(readings))


def draw_noise(sensor: Sensor, keys: KeyArray) -> FloatArray:
    """Noise of the readings at minutes 0, sample_time, ..., 1440 of the days `keys`, mg/dL.

    Uses the uniform numbers from 18 on. Shape (n, 1440 / sample_time + 1).
    """
    weights = _spline_weights(sensor.sample_time)
    n_readings = MINUTES // sensor.sample_time + 1
    n_blocks = -(-n_readings // weights.shape[0])
    normals = ndtri(uniform_table(keys, 3 * N_MEALS, n_blocks * _BLOCK + 1))
    noise = np.empty((keys.shape[0], n_readings))
    _fill_noise(sensor, weights, normals, noise)
    return noise


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _fill_noise(
    sensor: Sensor, weights: FloatArray, normals: FloatArray, noise: FloatArray
) -> None:
    """Fill `noise` (n, n_readings) from the normal numbers of each day, (n, n_knots).

    A loop instead of a matrix product, whose rounding would depend on the other days of the batch.
    """
    knots = np.empty(normals.shape[1])
    for day in range(normals.shape[0]):
        e = normals[day, 0]
        for k in range(knots.shape[0]):
            e = e if k == 0 else sensor.pacf * (e + normals[day, k])
            knots[k] = sensor.xi + sensor.lam * math.sinh((e - sensor.gamma) / sensor.delta)
        for reading in range(noise.shape[1]):
            block, place = divmod(reading, weights.shape[0])
            total = 0.0
            for k in range(weights.shape[1]):
                total += weights[place, k] * knots[block * _BLOCK + k]
            noise[day, reading] = total
