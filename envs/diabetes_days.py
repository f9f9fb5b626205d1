"""Days of a patient under given rules, by either backend, one or many."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from .diabetes_kernel import run_days
from .diabetes_meals import draw_meals
from .diabetes_patient import Patient
from .diabetes_reference import ReferenceDays
from .diabetes_rules import Rules
from .diabetes_sensor import MINUTES, Sensor, draw_noise
from .simglucose_package import look_up
from .streams import FloatArray, IntArray, KeyArray

_CHUNK = 512  # days whose noise is drawn at a time


@dataclass(frozen=True)
class Day:
    """What happened on a day.

    Attributes
    ----------
    cr, cf
        Grams of carbohydrates, and mg/dL of excess glucose, covered by a unit of insulin.
    minutes, grams
        Time and size of the meals served, (m,).
    glucose
        Glucose at minutes 0, ..., 1440, mg/dL, (1441,); NaN past an early end.
    readings
        Sensor readings: at minute 0, then the mean of each sample, mg/dL, (n_samples + 1,).
    insulin
        Infusion during each sample, units a minute, (n_samples,).
    mean_risk, reward
        Mean risk of the readings, and the return it makes.
    simulated
        Minutes simulated; below 1440 if the day ended early.
    sample_time
        Minutes of a sample.
    """

    cr: float
    cf: float
    minutes: IntArray
    grams: FloatArray
    glucose: FloatArray
    readings: FloatArray
    insulin: FloatArray
    mean_risk: float
    reward: float
    simulated: int
    sample_time: int


class Days:
    """A patient with sensor and pump, ready to live through days.

    Parameters
    ----------
    patient, sensor, pump
        Names in simglucose.
    rules
        The rules of the day.
    backend
        ``"fast"`` or ``"simglucose"``.
    """

    def __init__(self, patient: str, sensor: str, pump: str, rules: Rules, backend: str) -> None:
        self.patient = Patient.from_table(look_up("patient", patient))
        self.sensor = Sensor.from_table(look_up("sensor", sensor))
        self.rules = rules
        self._reference = (
            ReferenceDays(patient, sensor, pump, rules) if backend == "simglucose" else None
        )

    def live(self, key: np.uint64, cr: float, cf: float) -> Day:
        """The day `key`, in full."""
        keys = np.array([key], dtype=np.uint64)
        meals, noise = draw_meals(keys), draw_noise(self.sensor, keys)
        n_samples = MINUTES // self.sensor.sample_time
        glucose, readings, insulin = (
            np.full((1, length), np.nan) for length in (MINUTES + 1, n_samples + 1, n_samples)
        )
        outcome = np.empty((1, 3))
        if self._reference is None:
            run_days(
                self.patient,
                self.sensor,
                self.rules,
                meals.minutes,
                meals.grams,
                noise,
                np.array([[cr, cf]]),
                outcome,
                glucose,
                readings,
                insulin,
            )
        else:
            outcome[0] = self._reference.run_day(
                meals.minutes[0],
                meals.grams[0],
                noise[0],
                cr,
                cf,
                glucose[0],
                readings[0],
                insulin[0],
            )
        reward, mean_risk, simulated = outcome[0].tolist()
        served = (meals.minutes[0] >= 0) & (meals.minutes[0] < simulated)
        return Day(
            cr=cr,
            cf=cf,
            minutes=meals.minutes[0][served],
            grams=meals.grams[0][served],
            glucose=glucose[0],
            readings=readings[0],
            insulin=insulin[0],
            mean_risk=mean_risk,
            reward=reward,
            simulated=int(simulated),
            sample_time=self.sensor.sample_time,
        )

    def returns(self, keys: KeyArray, ratios: FloatArray, n_threads: int = 1) -> FloatArray:
        """The returns of many days, (n,).

        Parameters
        ----------
        keys
            The days, (n,).
        ratios
            CR and CF of each, (n, 2).
        n_threads
            Threads to share the days among; the result does not depend on it.
        """
        outcomes = np.empty((keys.shape[0], 3))
        if self._reference is not None:
            for i, key in enumerate(keys):
                outcomes[i, 0] = self.live(key, float(ratios[i, 0]), float(ratios[i, 1])).reward
            return outcomes[:, 0].copy()
        untraced = np.empty((0, 0))

        def fill(first: int) -> None:
            part = slice(first, first + _CHUNK)
            meals, noise = draw_meals(keys[part]), draw_noise(self.sensor, keys[part])
            run_days(
                self.patient,
                self.sensor,
                self.rules,
                meals.minutes,
                meals.grams,
                noise,
                ratios[part],
                outcomes[part],
                untraced,
                untraced,
                untraced,
            )

        chunks = range(0, keys.shape[0], _CHUNK)
        if n_threads == 1:
            for first in chunks:
                fill(first)
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(fill, chunks))
        return outcomes[:, 0].copy()
