"""The reference backend: the same day driven through simglucose itself."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np

from .diabetes_risk import risk
from .diabetes_rules import Rules, bolus, score
from .diabetes_sensor import MINUTES, Sensor
from .simglucose_package import Simulator, load_simulator, look_up
from .streams import FloatArray, IntArray

_MIDNIGHT = datetime(2018, 1, 1)


def make_patient(simulator: Simulator, name: str) -> Any:
    """Simglucose's patient with plain numbers for parameters.

    simglucose looks its parameters up in a pandas row at every evaluation of the model, nine
    tenths of its time; the same numbers as attributes of a plain object give the same glucose bit
    by bit.
    """
    row = look_up("patient", name)
    start = np.array([row[column] for column in row if column.startswith("x0_")])
    return simulator.patient(SimpleNamespace(Name=name, **row), init_state=start)


class ReferenceDays:
    """simglucose's patient, sensor and pump under the bolus calculator.

    Parameters
    ----------
    patient, sensor, pump
        Names in simglucose.
    rules
        The rules of the day.
    pandas_parameters
        Leave simglucose's own parameter look-up in place: the same numbers, ten times slower.
    """

    def __init__(
        self, patient: str, sensor: str, pump: str, rules: Rules, pandas_parameters: bool = False
    ) -> None:
        load_simulator()  # fails here if it cannot; not kept, so that environments can be pickled
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
        """One day under the bolus calculator, as `diabetes_kernel.run_days` lives many.

        Parameters
        ----------
        minutes, grams
            Time and size of the meals, (m,).
        noise
            Noise of the readings at minutes 0, sample_time, ..., 1440, (n_samples + 1,).
        cr, cf
            The constants of the calculator.
        glucose, readings, insulin
            Output, (1441,), (n_samples + 1,), (n_samples,); not written past an early end.

        Returns
        -------
        tuple
            The return, the mean risk and the minutes simulated.
        """
        rules = self._rules
        limits = Sensor.from_table(look_up("sensor", self._sensor))
        world = self._world(minutes, grams, noise)
        action = load_simulator().action
        glucose[0], readings[0] = world.BG_hist[0], world.CGM_hist[0]
        measure = world.sensor.measure

        def measure_and_record(patient: Any) -> float:
            glucose[round(patient.t)] = patient.observation.Gsub
            return float(measure(patient))

        world.sensor.measure = measure_and_record
        n_samples = MINUTES // limits.sample_time
        announced = total = 0.0
        for sample in range(n_samples):
            units = bolus(rules, readings[sample], announced, cr, cf)
            result = world.step(action(basal=rules.basal, bolus=units / limits.sample_time))
            announced = result.info["meal"] * limits.sample_time
            insulin[sample] = world.insulin_hist[-1]
            readings[sample + 1] = result.observation.CGM
            total += risk(readings[sample + 1])
            level = result.info["bg"]
            if not rules.stop_low <= level <= rules.stop_high:
                limit = limits.low if level < rules.stop_low else limits.high
                total += (n_samples - sample - 1) * risk(limit)
                break
        mean_risk = total / n_samples
        return score(rules, mean_risk), mean_risk, (sample + 1) * limits.sample_time

    def _world(self, minutes: IntArray, grams: FloatArray, noise: FloatArray) -> Any:
        """Simglucose's environment at midnight, fed the given meals and noise."""
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
        # The constructor takes the one reading of minute 0; `reset` would take a second.
        return simulator.environment(
            patient,
            sensor,
            simulator.pump.withName(self._pump),
            simulator.scenario(_MIDNIGHT, meals),
        )
