"""The patient: the glucose-insulin model of the UVA/Padova simulator (Dalla Man et al., 2007).

Thirteen states; masses of glucose in mg (stomach, gut) and mg/kg, of insulin in pmol/kg. The
equations follow simglucose's statement of the model, including its rule that a state below zero
stays put.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np

from .streams import FloatArray

N_STATES = 13
EATING_RATE = 5.0  # grams of carbohydrates a minute


class Patient(NamedTuple):
    """The parameters of the model, named as in simglucose, and the initial state (13,)."""

    BW: float
    b: float
    d: float
    f: float
    kmax: float
    kmin: float
    kabs: float
    kp1: float
    kp2: float
    kp3: float
    Fsnc: float
    ke1: float
    ke2: float
    k1: float
    k2: float
    Vm0: float
    Vmx: float
    Km0: float
    m1: float
    m2: float
    m4: float
    m30: float
    ka1: float
    ka2: float
    kd: float
    ksc: float
    ki: float
    p2u: float
    Ib: float
    Vi: float
    Vg: float
    u2ss: float
    start: FloatArray

    @classmethod
    def from_table(cls, row: dict[str, float]) -> Patient:
        """From a row of simglucose's table of patients."""
        parameters = {name: row[name] for name in cls._fields if name != "start"}
        states = [row[name] for name in row if name.startswith("x0_")]
        return cls(**parameters, start=np.array(states))

    @property
    def basal(self) -> float:
        """Insulin that keeps a fasting patient at the initial glucose, units a minute."""
        return self.u2ss * self.BW / 6000.0


@numba.njit(cache=True, nogil=True, error_model="numpy")
def derivative(
    p: Patient, x: FloatArray, eating: float, insulin: float, meal: float, dx: FloatArray
) -> None:
    """Rates of change of the states, per minute.

    Parameters
    ----------
    p, x
        Patient and states (13,).
    eating
        Carbohydrates being eaten, mg a minute.
    insulin
        Insulin being infused, pmol/kg a minute.
    meal
        Stomach content that sets the pace of emptying, mg: what was there when the meal began, and
        what was eaten since.
    dx
        Output (13,).
    """
    # Stomach (solid, liquid) and gut. It empties fast when full or nearly empty, slowly in between:
    # kmin + (kmax - kmin)/2 (tanh(u) - tanh(v) + 2), where tanh(u) = 1 - 2 / (exp(2u) + 1).
    emptying = p.kmax
    if meal > 0.0:
        stomach = (x[0] + x[1]) / meal
        u = math.exp(5.0 / (1.0 - p.b) * (stomach - p.b))
        v = math.exp(5.0 / p.d * (stomach - p.d))
        emptying += (p.kmax - p.kmin) * (u - v) / ((u + 1.0) * (v + 1.0))
    dx[0] = eating - p.kmax * x[0]
    dx[1] = p.kmax * x[0] - emptying * x[1]
    dx[2] = emptying * x[1] - p.kabs * x[2]

    # Glucose in plasma and tissue: appearance, production, utilisation, excretion.
    appearance = p.f * p.kabs * x[2] / p.BW
    production = max(p.kp1 - p.kp2 * x[3] - p.kp3 * x[8], 0.0)
    excretion = p.ke1 * max(x[3] - p.ke2, 0.0)
    exchange = p.k1 * x[3] - p.k2 * x[4]
    utilisation = (p.Vm0 + p.Vmx * x[6]) * x[4] / (p.Km0 + x[4])
    dx[3] = appearance + production - p.Fsnc - excretion - exchange if x[3] >= 0.0 else 0.0
    dx[4] = exchange - utilisation if x[4] >= 0.0 else 0.0

    # Insulin: plasma and liver, its delayed actions, and the two depots under the skin.
    infused = p.ka1 * x[10] + p.ka2 * x[11]
    level = x[5] / p.Vi
    dx[5] = p.m1 * x[9] + infused - (p.m2 + p.m4) * x[5] if x[5] >= 0.0 else 0.0
    dx[6] = p.p2u * (level - p.Ib - x[6])
    dx[7] = p.ki * (level - x[7])
    dx[8] = p.ki * (x[7] - x[8])
    dx[9] = p.m2 * x[5] - (p.m1 + p.m30) * x[9] if x[9] >= 0.0 else 0.0
    dx[10] = insulin - (p.ka1 + p.kd) * x[10] if x[10] >= 0.0 else 0.0
    dx[11] = p.kd * x[10] - p.ka2 * x[11] if x[11] >= 0.0 else 0.0

    # Glucose under the skin, where the sensor sits.
    dx[12] = p.ksc * (x[3] - x[12]) if x[12] >= 0.0 else 0.0


@numba.njit(cache=True, nogil=True, error_model="numpy")
def advance_minute(
    p: Patient,
    x: FloatArray,
    eating: float,
    insulin: float,
    meal: float,
    work: FloatArray,
) -> None:
    """Integrate one minute by the classical Runge-Kutta method; `x` changes in place.

    Inputs are constant within a minute, so steps end where they jump. The filling of the stomach
    while eating is the one fast part of the model: four steps then, one otherwise.
    `work` is scratch space, (5, 13).
    """
    steps = 4 if eating > 0.0 else 1
    h = 1.0 / steps
    k1, k2, k3, k4, y = work[0], work[1], work[2], work[3], work[4]
    for _ in range(steps):
        derivative(p, x, eating, insulin, meal, k1)
        for i in range(N_STATES):
            y[i] = x[i] + 0.5 * h * k1[i]
        derivative(p, y, eating, insulin, meal, k2)
        for i in range(N_STATES):
            y[i] = x[i] + 0.5 * h * k2[i]
        derivative(p, y, eating, insulin, meal, k3)
        for i in range(N_STATES):
            y[i] = x[i] + h * k3[i]
        derivative(p, y, eating, insulin, meal, k4)
        for i in range(N_STATES):
            x[i] += h / 6.0 * (k1[i] + 2.0 * (k2[i] + k3[i]) + k4[i])
