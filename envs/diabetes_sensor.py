"""The noise of a continuous glucose monitor over a day, drawn from the key of the day.

The model is that of simglucose (Breton and Kovatchev, 2008): every 15 minutes an autoregressive
normal sequence through a Johnson SU transform, a cubic spline in between, fitted over blocks of
150 minutes.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

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
    """Weights of the knots of a block in its readings, (n_knots, n_readings)."""
    knots = _KNOT * np.arange(_BLOCK + 1)
    readings = sample_time * np.arange(1, int(_BLOCK * _KNOT) // sample_time + 1)
    return np.asarray(make_interp_spline(knots, np.eye(_BLOCK + 1), k=3)(readings).T)


def draw_noise(sensor: Sensor, keys: KeyArray) -> FloatArray:
    """Noise of the readings at minutes 0, sample_time, ..., 1440 of the days `keys`.

    From their uniforms number 18 on. Returns (n, 1440 / sample_time + 1), mg/dL.
    """
    weights = _spline_weights(sensor.sample_time)
    n_readings = MINUTES // sensor.sample_time + 1
    n_blocks = -(-n_readings // weights.shape[1])
    steps = ndtri(day_uniforms(keys, 3 * N_MEALS, n_blocks * _BLOCK + 1))
    e = np.empty_like(steps)
    e[:, 0] = steps[:, 0]
    for k in range(1, e.shape[1]):
        e[:, k] = sensor.pacf * (e[:, k - 1] + steps[:, k])
    knots = sensor.xi + sensor.lam * np.sinh((e - sensor.gamma) / sensor.delta)
    blocks = [knots[:, _BLOCK * b : _BLOCK * (b + 1) + 1] @ weights for b in range(n_blocks)]
    return np.ascontiguousarray(np.concatenate(blocks, axis=1)[:, :n_readings])
