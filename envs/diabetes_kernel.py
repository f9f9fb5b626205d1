"""The fast backend: whole days in compiled code."""

from __future__ import annotations

import math

import numba
import numpy as np

from .diabetes_patient import EATING_RATE, N_STATES, Patient, advance_minute
from .diabetes_risk import risk
from .diabetes_rules import U_TO_PMOL, Rules, bolus, delivered, score
from .diabetes_sensor import MINUTES, Sensor
from .streams import FloatArray, IntArray


@numba.njit(cache=True, nogil=True, error_model="numpy")
def eat(stomach: FloatArray, x: FloatArray, announced: float) -> float:
    """One minute of the meal: carbohydrates eaten in it, grams.

    `stomach` holds, and this updates: grams on the plate, whether the last minute was spent eating,
    and the stomach content that sets the pace of emptying, mg.
    """
    stomach[0] += announced
    eating = min(EATING_RATE, stomach[0])
    stomach[0] = max(stomach[0] - eating, 0.0)
    if eating > 0.0:
        if stomach[1] == 0.0:
            stomach[2] = x[0] + x[1]
        stomach[2] += 1000.0 * eating
    stomach[1] = 1.0 if eating > 0.0 else 0.0
    return float(eating)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def glucose_trace(
    p: Patient, minutes: IntArray, grams: FloatArray, insulin: FloatArray
) -> FloatArray:
    """Glucose under given insulin (open loop) at minutes 0, ..., n, mg/dL.

    Parameters
    ----------
    p
        The patient.
    minutes, grams
        Time and size of the meals, (m,).
    insulin
        Infusion in each minute, units, (n,).
    """
    x = p.start.copy()
    work = np.empty((5, N_STATES))
    stomach = np.array([0.0, 0.0, x[0] + x[1]])
    trace = np.empty(insulin.shape[0] + 1)
    trace[0] = x[12] / p.Vg
    for t in range(insulin.shape[0]):
        announced = 0.0
        for meal in range(minutes.shape[0]):
            if minutes[meal] == t:
                announced = grams[meal]
        eating = eat(stomach, x, announced)
        advance_minute(p, x, 1000.0 * eating, insulin[t] * U_TO_PMOL / p.BW, stomach[2], work)
        trace[t + 1] = x[12] / p.Vg
    return trace


@numba.njit(cache=True, nogil=True, error_model="numpy")
def run_day(
    p: Patient,
    sensor: Sensor,
    rules: Rules,
    minutes: IntArray,
    grams: FloatArray,
    noise: FloatArray,
    cr: float,
    cf: float,
    glucose: FloatArray,
    readings: FloatArray,
    insulin: FloatArray,
) -> tuple[float, float, int]:
    """One day under the bolus calculator (closed loop).

    Parameters
    ----------
    p, sensor, rules
        The patient, the sensor and the rules.
    minutes, grams
        Time and size of the meals, (m,).
    noise
        Noise of the readings at minutes 0, sample_time, ..., 1440, (n_samples + 1,).
    cr, cf
        Grams of carbohydrates, and mg/dL of excess glucose, covered by one unit of insulin.
    glucose
        Output: glucose at minutes 0, ..., 1440, mg/dL, (1441,).
    readings
        Output: mean reading of each sample, preceded by the first one, (n_samples + 1,).
    insulin
        Output: infusion during each sample, units a minute, (n_samples,).

    Returns
    -------
    tuple
        The return, the mean risk, and the minutes simulated. Outputs past those are NaN.
    """
    n_samples = MINUTES // sensor.sample_time
    x = p.start.copy()
    work = np.empty((5, N_STATES))
    stomach = np.array([0.0, 0.0, x[0] + x[1]])
    glucose[:] = math.nan
    readings[:] = math.nan
    insulin[:] = math.nan
    glucose[0] = x[12] / p.Vg
    held = min(max(glucose[0] + noise[0], sensor.low), sensor.high)
    readings[0] = held
    pump = rules.pump
    basal = delivered(rules.basal, pump.basal_step, pump.basal_low, pump.basal_high)
    announced = 0.0  # grams, in the sample before
    total = 0.0
    for sample in range(n_samples):
        units = bolus(rules, readings[sample], announced, cr, cf)
        rate = units / sensor.sample_time
        insulin[sample] = basal + delivered(rate, pump.bolus_step, pump.bolus_low, pump.bolus_high)
        infused = insulin[sample] * U_TO_PMOL / p.BW
        announced = 0.0
        mean_glucose = 0.0
        mean_reading = 0.0
        for t in range(sample * sensor.sample_time, (sample + 1) * sensor.sample_time):
            served = 0.0
            for meal in range(minutes.shape[0]):
                if minutes[meal] == t:
                    served = grams[meal]
            announced += served
            eating = eat(stomach, x, served)
            advance_minute(p, x, 1000.0 * eating, infused, stomach[2], work)
            glucose[t + 1] = x[12] / p.Vg
            if (t + 1) % sensor.sample_time == 0:
                level = glucose[t + 1] + noise[(t + 1) // sensor.sample_time]
                held = min(max(level, sensor.low), sensor.high)
            mean_glucose += glucose[t + 1] / sensor.sample_time
            mean_reading += held / sensor.sample_time
        readings[sample + 1] = mean_reading
        total += risk(mean_reading)
        if not rules.stop_low <= mean_glucose <= rules.stop_high:
            limit = sensor.low if mean_glucose < rules.stop_low else sensor.high
            total += (n_samples - sample - 1) * risk(limit)
            return score(rules, total / n_samples), total / n_samples, t + 1
    return score(rules, total / n_samples), total / n_samples, MINUTES


@numba.njit(cache=True, nogil=True, error_model="numpy")
def run_days(
    p: Patient,
    sensor: Sensor,
    rules: Rules,
    minutes: IntArray,
    grams: FloatArray,
    noise: FloatArray,
    ratios: FloatArray,
    returns: FloatArray,
) -> None:
    """`run_day` for n days, their CR and CF in `ratios` (n, 2); fills `returns` (n,)."""
    n_samples = MINUTES // sensor.sample_time
    glucose = np.empty(MINUTES + 1)
    readings = np.empty(n_samples + 1)
    insulin = np.empty(n_samples)
    for day in range(ratios.shape[0]):
        returns[day] = run_day(
            p,
            sensor,
            rules,
            minutes[day],
            grams[day],
            noise[day],
            ratios[day, 0],
            ratios[day, 1],
            glucose,
            readings,
            insulin,
        )[0]
