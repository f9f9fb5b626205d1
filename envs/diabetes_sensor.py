"""The noise of a continuous glucose monitor over a day, drawn from the key of the day.

The model is that of simglucose (Breton and Kovatchev, 2008): every 15 minutes an autoregressive
normal sequence through a Johnson SU transform, a cubic spline in between, fitted over blocks of
150 minutes.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numba
import numpy as np
from scipy.interpolate import make_interp_spline
from scipy.special import ndtri

from .diabetes_meals import N_MEALS, day_uniforms
from .streams import FloatArray, KeyArray

_KNOT = 15.0  # minutes between two values of the sequence
_BLOCK = 10  # knots to a spline

MINUTES = 1440


class Sensor(NamedTuple):
    """A glucose monitor.

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
        """From a row of simglucose's table of sensors."""
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
    """Weights of the knots of a block in each of its readings, (n_readings, n_knots)."""
    knots = _KNOT * np.arange(_BLOCK + 1)
    readings = sample_time * np.arange(1, int(_BLOCK * _KNOT) // sample_time + 1)
    return np.asarray(make_interp_spline(knots, np.eye(_BLOCK + 1), k=3)(readings))


def draw_noise(sensor: Sensor, keys: KeyArray) -> FloatArray:
    """Noise of the readings at minutes 0, sample_time, ..., 1440 of the days `keys`.

    From their uniforms number 18 on. Returns (n, 1440 / sample_time + 1), mg/dL.
    """
    weights = _spline_weights(sensor.sample_time)
    n_readings = MINUTES // sensor.sample_time + 1
    n_blocks = -(-n_readings // weights.shape[0])
    normals = ndtri(day_uniforms(keys, 3 * N_MEALS, n_blocks * _BLOCK + 1))
    noise = np.empty((keys.shape[0], n_readings))
    _fill_noise(sensor, weights, normals, noise)
    return noise


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _fill_noise(
    sensor: Sensor, weights: FloatArray, normals: FloatArray, noise: FloatArray
) -> None:
    """Fill `noise` (n, n_readings) from the normal numbers of each day, (n, n_knots).

    Compiled not for speed alone: a matrix product would round a day differently in other company.
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
