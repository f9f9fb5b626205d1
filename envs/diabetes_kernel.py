"""The fast backend: whole days in compiled code, several at once.

Every lane of the integrator lives its own day by its own clock: while its patient eats it takes
four steps a minute (the filling of the stomach is the one fast part of the model), otherwise one.
Inputs jump only between minutes, where steps end. A lane whose day is over takes the next day
waiting.

numba's cache notices a change of this file, but not of the compiled functions it takes from other
files: after changing those, delete the cache (`make clean`).
"""

from __future__ import annotations

import numba
import numpy as np

from .diabetes_integrator import (
    EATING,
    INSULIN,
    LANES,
    PER_MEAL,
    advance,
    new_buffer,
    set_length,
    set_state,
)
from .diabetes_patient import Patient
from .diabetes_risk import risk
from .diabetes_rules import U_TO_PMOL, Rules, bolus, delivered, score
from .diabetes_sensor import MINUTES, Sensor
from .streams import FloatArray, IntArray

EATING_RATE = 5.0  # grams of carbohydrates a minute
_EATING_STEPS = 4

# Rows of the table of lanes.
_DAY = 0  # the day lived, or _VACANT
_MINUTE = 1  # minutes lived
_STEPS = 2  # steps left of this minute
_PLATE = 3  # grams announced and not eaten yet
_EATS = 4  # 1 if the last minute was spent eating
_MEAL = 5  # stomach content that sets the pace of emptying, mg: what the meal met, and eaten since
_ANNOUNCED = 6  # grams announced in this sample
_HELD = 7  # last reading of the sensor
_GLUCOSE = 8  # mean glucose of this sample, as far as it goes
_READING = 9  # mean reading of this sample, as far as it goes
_SAMPLE = 10  # samples completed
_RISK = 11  # sum of the risks of the samples
_ROWS = 12

_VACANT = -1

_GLUCOSE_STATE = 12 * LANES  # glucose under the skin, in the buffer of the integrator


@numba.njit(cache=True, nogil=True, inline="always", error_model="numpy")
def _start_minute(s: FloatArray, w: FloatArray, lane: int, announced: float) -> None:
    """What is eaten in the minute that begins; sets the inputs and the steps of the lane."""
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
    """Grams of carbohydrates announced in this minute of the day."""
    served = 0.0
    for meal in range(minutes.shape[1]):
        if minutes[day, meal] == minute:
            served = grams[day, meal]
    return served


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
        Time and size of the meals, (1, m).
    insulin
        Infusion in each minute, units, (n,).
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


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _begin_day(
    p: Patient, sensor: Sensor, w: FloatArray, s: FloatArray, lane: int, day: int, noise: float
) -> None:
    """Midnight in a lane, with the first reading of the sensor."""
    s[:, lane] = 0.0
    s[_DAY, lane] = day
    set_state(w, lane, p)
    reading = p.start[12] / p.Vg + noise
    s[_HELD, lane] = min(max(reading, sensor.low), sensor.high)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _infusion(
    sensor: Sensor, rules: Rules, s: FloatArray, lane: int, cr: float, cf: float
) -> float:
    """Insulin in the sample that begins, units a minute; clears the sums of the last sample."""
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
    """Count the minute in, take a reading if one is due; whether a sample is complete."""
    s[_MINUTE, lane] += 1.0
    sample = int(s[_SAMPLE, lane])
    complete = int(s[_MINUTE, lane]) == (sample + 1) * sensor.sample_time
    if complete:
        reading = level + noise[day, sample + 1]
        s[_HELD, lane] = min(max(reading, sensor.low), sensor.high)
        s[_SAMPLE, lane] += 1.0
    s[_GLUCOSE, lane] += level / sensor.sample_time
    s[_READING, lane] += s[_HELD, lane] / sensor.sample_time
    if complete:
        s[_RISK, lane] += risk(s[_READING, lane])
    return complete


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _end_day(sensor: Sensor, rules: Rules, s: FloatArray, lane: int, outcome: FloatArray) -> None:
    """Score the day; what is left of it after an early end counts at the limit of the sensor."""
    n_samples = MINUTES // sensor.sample_time
    limit = sensor.low if s[_GLUCOSE, lane] < rules.stop_low else sensor.high
    total = s[_RISK, lane] + (n_samples - s[_SAMPLE, lane]) * risk(limit)
    outcome[0] = score(rules, total / n_samples)
    outcome[1] = total / n_samples
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
    """Live n days under the bolus calculator (closed loop).

    Parameters
    ----------
    p, sensor, rules
        The patient, the sensor and the rules.
    minutes, grams
        Time and size of the meals, (n, m).
    noise
        Noise of the readings at minutes 0, sample_time, ..., 1440, (n, n_samples + 1).
    ratios
        CR and CF: grams of carbohydrates, and mg/dL of excess glucose, covered by one unit, (n, 2).
    outcomes
        Output: the return, the mean risk and the minutes simulated, (n, 3).
    glucose, readings, insulin
        Output, or nothing if they have no rows: glucose at minutes 0, ..., 1440, (n, 1441); the
        first reading and the mean reading of each sample, (n, n_samples + 1), mg/dL; infusion
        during each sample, units a minute, (n, n_samples). Entries past an early end are not
        written.
    """
    record = glucose.shape[0] > 0
    w, s = new_buffer(), np.zeros((_ROWS, LANES))
    s[_DAY] = _VACANT
    begun = ended = 0
    while True:
        for lane in range(LANES):
            day = int(s[_DAY, lane])
            begins = False  # a sample
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
