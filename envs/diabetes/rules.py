"""Bolus calculator, pump limits and score of a day."""

from __future__ import annotations

from typing import NamedTuple

import numba

from .risk import risk
from .sensor import Sensor
from .units import MINUTES, U_TO_PMOL


class Pump(NamedTuple):
    """Insulin pump: increments in pmol/min, limits in U/min."""

    basal_step: float
    basal_low: float
    basal_high: float
    bolus_step: float
    bolus_low: float
    bolus_high: float

    @classmethod
    def from_table(cls, row: dict[str, float]) -> Pump:
        """Pump from a row of simglucose's table."""
        return cls(
            basal_step=row["inc_basal"],
            basal_low=row["min_basal"],
            basal_high=row["max_basal"],
            bolus_step=row["inc_bolus"],
            bolus_low=row["min_bolus"],
            bolus_high=row["max_bolus"],
        )


class Rules(NamedTuple):
    """Settings that are constant over days.

    Attributes
    ----------
    pump
        The pump.
    basal
        Requested basal insulin, U/min.
    target
        Glucose that a correction aims at, mg/dL.
    correct_above
        Reading above which a correction is given, mg/dL.
    meal_per_gram
        Weight of one gram of carbohydrates in the meal term of the bolus.
    stop_low, stop_high
        Limits of the mean glucose of a sample, beyond which the day ends, mg/dL.
    risk_offset, risk_scale, reward_low, reward_high
        The return is ``(risk_offset - mean risk) / risk_scale``, clipped.
    """

    pump: Pump
    basal: float
    target: float
    correct_above: float
    meal_per_gram: float
    stop_low: float
    stop_high: float
    risk_offset: float
    risk_scale: float
    reward_low: float
    reward_high: float


@numba.njit(cache=True, nogil=True, error_model="numpy")
def delivered(rate: float, step: float, low: float, high: float) -> float:
    """Rate that the pump delivers: rounded to its increment, within its limits."""
    rounded = round(rate * U_TO_PMOL / step) * step / U_TO_PMOL
    return max(min(rounded, high), low)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def bolus(rules: Rules, reading: float, grams: float, cr: float, cf: float) -> float:
    """Units of insulin for a meal: meal / CR + (reading - target) / CF, never negative.

    The second term applies only above `correct_above`; without a meal there is no bolus.
    """
    if grams <= 0.0:
        return 0.0
    units = rules.meal_per_gram * grams / cr
    if reading > rules.correct_above:
        units += (reading - rules.target) / cf
    return max(units, 0.0)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def mean_risk(
    sensor: Sensor, rules: Rules, total: float, n_done: float, last_glucose: float
) -> float:
    """Mean risk of a day; samples after an early end count at the limit of the sensor.

    Parameters
    ----------
    sensor, rules
        The sensor and the rules.
    total, n_done
        Sum of the risks and number of the simulated samples.
    last_glucose
        Mean glucose of the last simulated sample, mg/dL.
    """
    n_samples = MINUTES // sensor.sample_time
    limit = sensor.low if last_glucose < rules.stop_low else sensor.high
    return (total + (n_samples - n_done) * risk(limit)) / n_samples


@numba.njit(cache=True, nogil=True, error_model="numpy")
def score(rules: Rules, risk_of_day: float) -> float:
    """Return of a day with this mean risk."""
    reward = (rules.risk_offset - risk_of_day) / rules.risk_scale
    return max(min(reward, rules.reward_high), rules.reward_low)
