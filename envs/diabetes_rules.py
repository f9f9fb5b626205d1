"""The rules of a day: bolus calculator, pump, ending and score."""

from __future__ import annotations

from typing import NamedTuple

import numba

U_TO_PMOL = 6000.0


class Pump(NamedTuple):
    """An insulin pump: increments in pmol a minute, limits in units a minute."""

    basal_step: float
    basal_low: float
    basal_high: float
    bolus_step: float
    bolus_low: float
    bolus_high: float

    @classmethod
    def from_table(cls, row: dict[str, float]) -> Pump:
        """From a row of simglucose's table of pumps."""
        return cls(
            basal_step=row["inc_basal"],
            basal_low=row["min_basal"],
            basal_high=row["max_basal"],
            bolus_step=row["inc_bolus"],
            bolus_low=row["min_bolus"],
            bolus_high=row["max_bolus"],
        )


class Rules(NamedTuple):
    """What is the same on every day.

    Attributes
    ----------
    pump
        The pump.
    basal
        Basal insulin asked for, units a minute.
    target
        Glucose aimed at by a correction, mg/dL.
    correct_above
        A correction is given only above this reading, mg/dL.
    meal_per_gram
        What a gram of carbohydrates counts in the meal term of the bolus.
    stop_low, stop_high
        The day ends when the mean glucose of a sample leaves these limits, mg/dL.
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
    """What the pump delivers of a rate: rounded to its increment, within its limits."""
    rounded = round(rate * U_TO_PMOL / step) * step / U_TO_PMOL
    return max(min(rounded, high), low)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def bolus(rules: Rules, reading: float, grams: float, cr: float, cf: float) -> float:
    """Units of insulin for a meal: meal / CR + (reading - target) / CF, never negative.

    Nothing between meals; the correction only above `correct_above`.
    """
    if grams <= 0.0:
        return 0.0
    units = rules.meal_per_gram * grams / cr
    if reading > rules.correct_above:
        units += (reading - rules.target) / cf
    return max(units, 0.0)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def score(rules: Rules, mean_risk: float) -> float:
    """The return of a day of this mean risk."""
    reward = (rules.risk_offset - mean_risk) / rules.risk_scale
    return max(min(reward, rules.reward_high), rules.reward_low)
