"""Simulated days of one patient, by either backend."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ..common.types import FloatArray, IntArray, KeyArray
from .kernel import run_days
from .meals import Meals, draw_meals
from .patient import Patient
from .reference import ReferenceDays
from .rules import Rules
from .sensor import Sensor, draw_noise
from .simglucose_package import look_up
from .units import MINUTES

_CHUNK = 512  # days per call of the kernel, to bound the memory of the noise


@dataclass(frozen=True)
class Day:
    """Record of one day.

    Attributes
    ----------
    cr, cf
        Carbohydrate ratio, g/U, and correction factor, mg/dL per U.
    minutes, grams
        Time and size of the meals served, (m,).
    glucose
        Glucose at minutes 0, ..., 1440, mg/dL, (1441,); NaN after an early end.
    readings
        Sensor reading at minute 0, then the mean reading of each sample, mg/dL, (n_samples + 1,).
    insulin
        Infusion during each sample, U/min, (n_samples,).
    mean_risk, reward
        Mean risk of the readings, and the return.
    simulated
        Simulated minutes; below 1440 if the day ended early.
    sample_time
        Minutes per sample.
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
    """Simulator of the days of a patient with sensor and pump.

    Parameters
    ----------
    patient, sensor, pump
        Names in simglucose.
    rules
        Settings of the day.
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

    def simulate(self, key: np.uint64, cr: float, cf: float) -> Day:
        """Simulate the day `key` and record it."""
        keys = np.array([key], dtype=np.uint64)
        meals, noise = draw_meals(keys), draw_noise(self.sensor, keys)
        n_samples = MINUTES // self.sensor.sample_time
        traces = [np.full((1, size), np.nan) for size in (MINUTES + 1, n_samples + 1, n_samples)]
        outcome = np.empty((1, 3))
        if self._reference is None:
            self._run(meals, noise, np.array([[cr, cf]]), outcome, *traces)
        else:
            outcome[0] = self._reference.run_day(
                meals.minutes[0], meals.grams[0], noise[0], cr, cf, *(trace[0] for trace in traces)
            )
        reward, mean_risk, simulated = outcome[0].tolist()
        served = (meals.minutes[0] >= 0) & (meals.minutes[0] < simulated)
        glucose, readings, insulin = (trace[0] for trace in traces)
        return Day(
            cr=cr,
            cf=cf,
            minutes=meals.minutes[0][served],
            grams=meals.grams[0][served],
            glucose=glucose,
            readings=readings,
            insulin=insulin,
            mean_risk=mean_risk,
            reward=reward,
            simulated=int(simulated),
            sample_time=self.sensor.sample_time,
        )

    def returns(self, keys: KeyArray, ratios: FloatArray, n_threads: int = 1) -> FloatArray:
        """Returns of a batch of days, (n,).

        Parameters
        ----------
        keys
            Keys of the days, (n,).
        ratios
            CR and CF of each day, (n, 2).
        n_threads
            Number of threads; the result does not depend on it.
        """
        if self._reference is not None:
            days = zip(keys, ratios.tolist(), strict=True)
            return np.array([self.simulate(key, cr, cf).reward for key, (cr, cf) in days])
        outcomes = np.empty((keys.shape[0], 3))
        no_trace = np.empty((0, 0))

        def run_chunk(first: int) -> None:
            part = slice(first, first + _CHUNK)
            meals, noise = draw_meals(keys[part]), draw_noise(self.sensor, keys[part])
            self._run(meals, noise, ratios[part], outcomes[part], no_trace, no_trace, no_trace)

        chunks = range(0, keys.shape[0], _CHUNK)
        if n_threads == 1:
            for first in chunks:
                run_chunk(first)
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(run_chunk, chunks))
        return outcomes[:, 0].copy()

    def _run(self, meals: Meals, noise: FloatArray, *arrays: FloatArray) -> None:
        """Call the kernel for this patient, sensor and rules."""
        run_days(self.patient, self.sensor, self.rules, *meals, noise, *arrays)
