"""Batched Runge-Kutta steps, laid out for SIMD code.

Each lane of a buffer holds one patient, each row one quantity of all patients. Lanes are
independent: the result in one lane does not depend on the others.
"""

from __future__ import annotations

import numba
import numpy as np

from ..common.types import FloatArray
from .patient import N_STATES, Patient, emptying_arguments, slopes

LANES = 16

# First entries of the rows of a buffer. There are thirteen rows each for the states at the start of
# the step (from entry 0), the step lengths, the point at which slopes are evaluated, the slopes,
# and their weighted sum.
LENGTH = N_STATES * LANES
_POINT = 2 * N_STATES * LANES
_SLOPE = 3 * N_STATES * LANES
_SUM = 4 * N_STATES * LANES
EATING = 5 * N_STATES * LANES  # carbohydrate intake, mg/min
INSULIN = EATING + LANES  # insulin infusion, pmol/kg/min
PER_MEAL = INSULIN + LANES  # inverse of the stomach content after the last meal, 1/mg
_SIZE = PER_MEAL + LANES

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it leaves the nearest integer in the low bits


@numba.njit(inline="always", error_model="numpy")
def exp_simd(x: float) -> float:
    """exp(x) for |x| < 700 without branches: x = k ln 2 + r, a polynomial in r, 2^k by its bits."""
    shifted = x * _LOG2_E + _ROUND
    k = shifted - _ROUND
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    q = 1.0 / 479001600.0
    q = q * r + 1.0 / 39916800.0
    q = q * r + 1.0 / 3628800.0
    q = q * r + 1.0 / 362880.0
    q = q * r + 1.0 / 40320.0
    q = q * r + 1.0 / 5040.0
    q = q * r + 1.0 / 720.0
    q = q * r + 1.0 / 120.0
    q = q * r + 1.0 / 24.0
    q = q * r + 1.0 / 6.0
    q = q * r + 0.5
    q = q * r + 1.0
    q = q * r + 1.0
    power = (np.float64(shifted).view(np.int64) + np.int64(1023)) << np.int64(52)
    return float(q * np.int64(power).view(np.float64))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def new_buffer() -> FloatArray:
    """Buffer of idle lanes."""
    return np.zeros(_SIZE)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def set_state(w: FloatArray, lane: int, p: Patient) -> None:
    """Set a lane to the initial state of a patient."""
    for state in range(N_STATES):
        w[state * LANES + lane] = p.start[state]
    content = p.start[0] + p.start[1]
    w[PER_MEAL + lane] = 1.0 / content if content > 0.0 else 0.0  # unused if empty


@numba.njit(cache=True, nogil=True, error_model="numpy")
def set_length(w: FloatArray, lane: int, length: float) -> None:
    """Set the step length of a lane, in minutes; 0 makes the lane idle."""
    for state in range(N_STATES):
        w[LENGTH + state * LANES + lane] = length


@numba.njit(cache=True, nogil=True, error_model="numpy")
def advance(p: Patient, w: FloatArray) -> None:
    """Take one step of the classical Runge-Kutta method in every lane."""
    n = w.shape[0] // (_SIZE // LANES)  # number of lanes, hidden from the loop unroller
    for i in range(N_STATES * n):
        w[_POINT + i] = w[i]
    _fill_slopes(p, w, n)
    for i in range(N_STATES * n):
        w[_SUM + i] = w[_SLOPE + i]
        w[_POINT + i] = w[i] + 0.5 * w[LENGTH + i] * w[_SLOPE + i]
    _fill_slopes(p, w, n)
    for i in range(N_STATES * n):
        w[_SUM + i] += 2.0 * w[_SLOPE + i]
        w[_POINT + i] = w[i] + 0.5 * w[LENGTH + i] * w[_SLOPE + i]
    _fill_slopes(p, w, n)
    for i in range(N_STATES * n):
        w[_SUM + i] += 2.0 * w[_SLOPE + i]
        w[_POINT + i] = w[i] + w[LENGTH + i] * w[_SLOPE + i]
    _fill_slopes(p, w, n)
    for i in range(N_STATES * n):
        w[i] += (1.0 / 6.0) * w[LENGTH + i] * (w[_SUM + i] + w[_SLOPE + i])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _fill_slopes(p: Patient, w: FloatArray, n: int) -> None:
    """Evaluate the slopes at the point of each of the n lanes."""
    for lane in range(n):
        content = (w[_POINT + lane] + w[_POINT + LANES + lane]) * w[PER_MEAL + lane]
        full, empty = emptying_arguments(p, content)
        k = slopes(
            p,
            w[_POINT + lane],
            w[_POINT + LANES + lane],
            w[_POINT + 2 * LANES + lane],
            w[_POINT + 3 * LANES + lane],
            w[_POINT + 4 * LANES + lane],
            w[_POINT + 5 * LANES + lane],
            w[_POINT + 6 * LANES + lane],
            w[_POINT + 7 * LANES + lane],
            w[_POINT + 8 * LANES + lane],
            w[_POINT + 9 * LANES + lane],
            w[_POINT + 10 * LANES + lane],
            w[_POINT + 11 * LANES + lane],
            w[_POINT + 12 * LANES + lane],
            w[EATING + lane],
            w[INSULIN + lane],
            exp_simd(full),
            exp_simd(empty),
        )
        w[_SLOPE + lane] = k[0]
        w[_SLOPE + LANES + lane] = k[1]
        w[_SLOPE + 2 * LANES + lane] = k[2]
        w[_SLOPE + 3 * LANES + lane] = k[3]
        w[_SLOPE + 4 * LANES + lane] = k[4]
        w[_SLOPE + 5 * LANES + lane] = k[5]
        w[_SLOPE + 6 * LANES + lane] = k[6]
        w[_SLOPE + 7 * LANES + lane] = k[7]
        w[_SLOPE + 8 * LANES + lane] = k[8]
        w[_SLOPE + 9 * LANES + lane] = k[9]
        w[_SLOPE + 10 * LANES + lane] = k[10]
        w[_SLOPE + 11 * LANES + lane] = k[11]
        w[_SLOPE + 12 * LANES + lane] = k[12]
