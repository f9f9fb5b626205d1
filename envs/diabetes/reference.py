"""Reference backend: days simulated by simglucose itself."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..common.types import FloatArray, IntArray
from .patient import Patient
from .risk import risk
from .rules import Rules, bolus, mean_risk, score
from .sensor import Sensor
from .simglucose_package import Simulator, load_simulator, look_up
from .units import MINUTES

_MIDNIGHT = datetime(2018, 1, 1)


def make_patient(simulator: Simulator, name: str) -> Any:
    """Simglucose's patient with its parameters as attributes of a plain object.

    simglucose spends nine tenths of its time looking up parameters in a pandas row. Plain
    attributes give the same glucose, bit for bit.
    """
    row = look_up("patient", name)
    start = np.array(Patient.from_table(row).start)
    return simulator.patient(SimpleNamespace(Name=name, **row), init_state=start)


class ReferenceDays:
    """simglucose's patient, sensor and pump under the bolus calculator.

    Parameters
    ----------
    patient, sensor, pump
        Names in simglucose.
    rules
        Settings of the day.
    pandas_parameters
        Keep simglucose's own parameter lookup: same results, ten times slower.
    """

    def __init__(
        self, patient: str, sensor: str, pump: str, rules: Rules, pandas_parameters: bool = False
    ) -> None:
        load_simulator()  # raises here if it is missing; not stored, so that instances pickle
        self._patient = patient
        self._sensor = sensor
        self._pump = pump
        self._rules = rules
        self._pandas = pandas_parameters

    def run_day(
        self,
        minutes: IntArray,
        grams: FloatArray,
        noise: FloatArray,
        cr: float,
        cf: float,
        glucose: FloatArray,
        readings: FloatArray,
        insulin: FloatArray,
    ) -> tuple[float, float, int]:
        """Simulate one day under the bolus calculator, as `kernel.run_days` does for a batch.

        Parameters
        ----------
        minutes, grams
            Time and size of the meals, (m,).
        noise
            Noise of the readings at minutes 0, sample_time, ..., 1440, (n_samples + 1,).
        cr, cf
            Carbohydrate ratio and correction factor.
        glucose, readings, insulin
            Output, (1441,), (n_samples + 1,), (n_samples,); not written after an early end.

        Returns
        -------
        tuple
            Return, mean risk and simulated minutes.
        """
        rules = self._rules
        sensor = Sensor.from_table(look_up("sensor", self._sensor))
        env = self._environment(minutes, grams, noise)
        action = load_simulator().action
        glucose[0], readings[0] = env.BG_hist[0], env.CGM_hist[0]
        measure = env.sensor.measure

        def measure_and_record(patient: Any) -> float:
            glucose[round(patient.t)] = patient.observation.Gsub
            return float(measure(patient))

        env.sensor.measure = measure_and_record
        announced = total = level = 0.0
        n_done = 0
        for sample in range(MINUTES // sensor.sample_time):
            units = bolus(rules, readings[sample], announced, cr, cf)
            result = env.step(action(basal=rules.basal, bolus=units / sensor.sample_time))
            announced = result.info["meal"] * sensor.sample_time
            insulin[sample] = env.insulin_hist[-1]
            readings[sample + 1] = result.observation.CGM
            total += risk(readings[sample + 1])
            n_done = sample + 1
            level = result.info["bg"]
            if not rules.stop_low <= level <= rules.stop_high:
                break
        risk_of_day = mean_risk(sensor, rules, total, n_done, level)
        return score(rules, risk_of_day), risk_of_day, n_done * sensor.sample_time

    def _environment(self, minutes: IntArray, grams: FloatArray, noise: FloatArray) -> Any:
        """Simglucose's environment at midnight with the given meals and noise."""
        simulator = load_simulator()
        patient = (
            simulator.patient.withName(self._patient)
            if self._pandas
            else make_patient(simulator, self._patient)
        )
        sensor = simulator.sensor.withName(self._sensor)
        sensor._noise_generator = iter(noise.tolist())
        meals = [
            (timedelta(minutes=int(minute)), float(size))
            for minute, size in zip(minutes, grams, strict=True)
            if minute >= 0
        ]
        # The constructor takes the reading of minute 0; `reset` would take another one.
        return simulator.environment(
            patient,
            sensor,
            simulator.pump.withName(self._pump),
            simulator.scenario(_MIDNIGHT, meals),
        )
