"""Fast backend: batches of days in compiled code.

Each lane of the integrator simulates its own day at its own pace: four steps per minute while the
patient eats (filling the stomach is the only fast part of the model), otherwise one. Inputs change
only between minutes, where steps end. A lane whose day is over takes the next waiting day.

numba's cache detects a change of this file, but not of the compiled functions imported from other
files. After changing those, delete the cache (`make clean`).
"""

from __future__ import annotations

import numba
import numpy as np

from ..common.types import FloatArray, IntArray
from .integrator import (
    EATING,
    INSULIN,
    LANES,
    PER_MEAL,
    advance,
    new_buffer,
    set_length,
    set_state,
)
from .patient import Patient
from .risk import risk
from .rules import Rules, bolus, delivered, mean_risk, score
from .sensor import Sensor
from .units import MINUTES, U_TO_PMOL

EATING_RATE = 5.0  # grams of carbohydrates per minute
_EATING_STEPS = 4

# Rows of the table of lanes.
_DAY = 0  # day being simulated, or _VACANT
_MINUTE = 1  # minutes simulated
_STEPS = 2  # steps left in this minute
_PLATE = 3  # grams announced but not eaten yet
_EATS = 4  # 1 if the patient ate in the last minute
_MEAL = 5  # stomach content before the meal plus grams eaten since, mg; sets the emptying rate
_ANNOUNCED = 6  # grams announced in this sample
_HELD = 7  # last reading of the sensor
_GLUCOSE = 8  # mean glucose of this sample so far
_READING = 9  # mean reading of this sample so far
_SAMPLE = 10  # completed samples
_RISK = 11  # sum of the risks of the completed samples
_ROWS = 12

_VACANT = -1

_GLUCOSE_STATE = 12 * LANES  # first entry of the glucose under the skin in the buffer


@numba.njit(cache=True, nogil=True, inline="always", error_model="numpy")
def _start_minute(s: FloatArray, w: FloatArray, lane: int, announced: float) -> None:
    """Set the food intake and the number of steps of a lane for the minute that begins."""
    s[_PLATE, lane] += announced
    eaten = min(EATING_RATE, s[_PLATE, lane])
    if eaten > 0.0:
        s[_PLATE, lane] -= eaten
        if s[_EATS, lane] == 0.0:
            s[_MEAL, lane] = w[lane] + w[LANES + lane]
        s[_MEAL, lane] += 1000.0 * eaten
        s[_STEPS, lane] = _EATING_STEPS
        w[PER_MEAL + lane] = 1.0 / s[_MEAL, lane]
        set_length(w, lane, 1.0 / _EATING_STEPS)
    else:
        s[_STEPS, lane] = 1.0
        if s[_EATS, lane] == 1.0 or s[_MINUTE, lane] == 0.0:
            set_length(w, lane, 1.0)
    w[EATING + lane] = 1000.0 * eaten
    s[_EATS, lane] = 1.0 if eaten > 0.0 else 0.0


@numba.njit(cache=True, nogil=True, inline="always", error_model="numpy")
def _serve(minutes: IntArray, grams: FloatArray, day: int, minute: int) -> float:
    """Grams of carbohydrates announced in a minute of a day."""
    served = 0.0
    for meal in range(minutes.shape[1]):
        if minutes[day, meal] == minute:
            served = grams[day, meal]
    return served


@numba.njit(cache=True, nogil=True, error_model="numpy")
def glucose_trace(
    p: Patient, minutes: IntArray, grams: FloatArray, insulin: FloatArray
) -> FloatArray:
    """Glucose at minutes 0, ..., n under a given infusion (open loop), mg/dL, (n + 1,).

    Parameters
    ----------
    p
        The patient.
    minutes, grams
        Time and size of the meals, (1, m).
    insulin
        Infusion in each minute, U/min, (n,).
    """
    w, s = new_buffer(), np.zeros((_ROWS, LANES))
    set_state(w, 0, p)
    trace = np.empty(insulin.shape[0] + 1)
    trace[0] = w[_GLUCOSE_STATE] / p.Vg
    for t in range(insulin.shape[0]):
        s[_MINUTE, 0] = t
        _start_minute(s, w, 0, _serve(minutes, grams, 0, t))
        w[INSULIN] = insulin[t] * U_TO_PMOL / p.BW
        for _ in range(int(s[_STEPS, 0])):
            advance(p, w)
        trace[t + 1] = w[_GLUCOSE_STATE] / p.Vg
    return trace


@numba.njit(cache=True, nogil=True, inline="always", error_model="numpy")
def _clipped_reading(sensor: Sensor, level: float, noise: float) -> float:
    """Reading of the sensor at a glucose level, mg/dL."""
    return min(max(level + noise, sensor.low), sensor.high)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _begin_day(
    p: Patient, sensor: Sensor, w: FloatArray, s: FloatArray, lane: int, day: int, noise: float
) -> None:
    """Set a lane to midnight of a day, with the first reading of the sensor."""
    s[:, lane] = 0.0
    s[_DAY, lane] = day
    set_state(w, lane, p)
    s[_HELD, lane] = _clipped_reading(sensor, p.start[12] / p.Vg, noise)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _infusion(
    sensor: Sensor, rules: Rules, s: FloatArray, lane: int, cr: float, cf: float
) -> float:
    """Infusion in the sample that begins, U/min; clears the sums of the last sample."""
    pump = rules.pump
    basal = delivered(rules.basal, pump.basal_step, pump.basal_low, pump.basal_high)
    rate = bolus(rules, s[_READING, lane], s[_ANNOUNCED, lane], cr, cf) / sensor.sample_time
    s[_ANNOUNCED, lane] = 0.0
    s[_GLUCOSE, lane] = 0.0
    s[_READING, lane] = 0.0
    return basal + delivered(rate, pump.bolus_step, pump.bolus_low, pump.bolus_high)


@numba.njit(cache=True, nogil=True, inline="always", error_model="numpy")
def _end_minute(
    sensor: Sensor, s: FloatArray, lane: int, level: float, noise: FloatArray, day: int
) -> bool:
    """Update the sums of a lane after a minute and return whether a sample is complete."""
    s[_MINUTE, lane] += 1.0
    sample = int(s[_SAMPLE, lane])
    complete = int(s[_MINUTE, lane]) == (sample + 1) * sensor.sample_time
    if complete:
        s[_HELD, lane] = _clipped_reading(sensor, level, noise[day, sample + 1])
        s[_SAMPLE, lane] += 1.0
    s[_GLUCOSE, lane] += level / sensor.sample_time
    s[_READING, lane] += s[_HELD, lane] / sensor.sample_time
    if complete:
        s[_RISK, lane] += risk(s[_READING, lane])
    return complete


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _end_day(sensor: Sensor, rules: Rules, s: FloatArray, lane: int, outcome: FloatArray) -> None:
    """Write return, mean risk and simulated minutes of a day."""
    outcome[1] = mean_risk(sensor, rules, s[_RISK, lane], s[_SAMPLE, lane], s[_GLUCOSE, lane])
    outcome[0] = score(rules, outcome[1])
    outcome[2] = s[_MINUTE, lane]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def run_days(
    p: Patient,
    sensor: Sensor,
    rules: Rules,
    minutes: IntArray,
    grams: FloatArray,
    noise: FloatArray,
    ratios: FloatArray,
    outcomes: FloatArray,
    glucose: FloatArray,
    readings: FloatArray,
    insulin: FloatArray,
) -> None:
    """Simulate n days under the bolus calculator (closed loop).

    Parameters
    ----------
    p, sensor, rules
        The patient, the sensor and the rules.
    minutes, grams
        Time and size of the meals, (n, m).
    noise
        Noise of the readings at minutes 0, sample_time, ..., 1440, (n, n_samples + 1).
    ratios
        CR and CF of each day, (n, 2).
    outcomes
        Output: return, mean risk and simulated minutes, (n, 3).
    glucose, readings, insulin
        Output, skipped if the arrays have no rows: glucose at minutes 0, ..., 1440, mg/dL, (n,
        1441); the first reading and the mean reading of each sample, mg/dL, (n, n_samples + 1); and
        the infusion during each sample, U/min, (n, n_samples). Entries after an early end are not
        written.
    """
    record = glucose.shape[0] > 0
    w, s = new_buffer(), np.zeros((_ROWS, LANES))
    s[_DAY] = _VACANT
    begun = ended = 0
    while True:
        for lane in range(LANES):
            day = int(s[_DAY, lane])
            begins = False  # whether a sample begins
            if day >= 0:
                s[_STEPS, lane] -= 1.0
                if s[_STEPS, lane] > 0.0:
                    continue
                level = w[_GLUCOSE_STATE + lane] / p.Vg
                begins = _end_minute(sensor, s, lane, level, noise, day)
                if record:
                    glucose[day, int(s[_MINUTE, lane])] = level
                if begins:
                    if record:
                        readings[day, int(s[_SAMPLE, lane])] = s[_READING, lane]
                    inside = rules.stop_low <= s[_GLUCOSE, lane] <= rules.stop_high
                    if s[_MINUTE, lane] == MINUTES or not inside:
                        _end_day(sensor, rules, s, lane, outcomes[day])
                        ended += 1
                        day = _VACANT
            if day < 0 and begun < ratios.shape[0]:
                day = begun
                begun += 1
                begins = True
                _begin_day(p, sensor, w, s, lane, day, noise[day, 0])
                if record:
                    glucose[day, 0] = p.start[12] / p.Vg
                    readings[day, 0] = s[_HELD, lane]
            elif day < 0:
                if s[_DAY, lane] >= 0:
                    set_length(w, lane, 0.0)
                s[_DAY, lane] = _VACANT
                continue
            if begins:
                rate = _infusion(sensor, rules, s, lane, ratios[day, 0], ratios[day, 1])
                w[INSULIN + lane] = rate * U_TO_PMOL / p.BW
                if record:
                    insulin[day, int(s[_SAMPLE, lane])] = rate
            served = _serve(minutes, grams, day, int(s[_MINUTE, lane]))
            s[_ANNOUNCED, lane] += served
            _start_minute(s, w, lane, served)
        if ended == ratios.shape[0]:
            break
        advance(p, w)
