"""The patient: the glucose-insulin model of the UVA/Padova simulator (Dalla Man et al., 2007).

Thirteen states: carbohydrates in the stomach (0 solid, 1 liquid) and the gut (2), mg; glucose in
plasma (3), tissue (4) and under the skin (12), mg/kg; insulin in plasma (5), liver (9) and the two
depots under the skin (10, 11), pmol/kg; its delayed actions (6, 7, 8). The equations follow
simglucose's statement of the model, including its rule that a mass below zero stays put.
"""

from __future__ import annotations

from typing import NamedTuple

import numba

N_STATES = 13

Slopes = tuple[
    float, float, float, float, float, float, float, float, float, float, float, float, float
]


class Patient(NamedTuple):
    """The parameters of the model, named as in simglucose, and the initial state."""

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
    start: tuple[float, ...]

    @classmethod
    def from_table(cls, row: dict[str, float]) -> Patient:
        """From a row of simglucose's table of patients."""
        parameters = {name: row[name] for name in cls._fields if name != "start"}
        start = tuple(row[name] for name in row if name.startswith("x0_"))
        return cls(**parameters, start=start)

    @property
    def basal(self) -> float:
        """Insulin that keeps a fasting patient at the initial glucose, units a minute."""
        return self.u2ss * self.BW / 6000.0


@numba.njit(inline="always", error_model="numpy")
def slopes(
    p: Patient,
    x0: float,
    x1: float,
    x2: float,
    x3: float,
    x4: float,
    x5: float,
    x6: float,
    x7: float,
    x8: float,
    x9: float,
    x10: float,
    x11: float,
    x12: float,
    eating: float,
    insulin: float,
    full: float,
    empty: float,
) -> Slopes:
    """Rates of change of the thirteen states, per minute.

    Parameters
    ----------
    p, x0, ..., x12
        Patient and states.
    eating
        Carbohydrates being eaten, mg a minute.
    insulin
        Insulin being infused, pmol/kg a minute.
    full, empty
        The exponentials of `emptying_arguments`.

    Notes
    -----
    Free of branches and calls, so that a loop over patients becomes SIMD code.
    """
    # The stomach empties fast when full or nearly empty, slowly in between, at the rate
    # kmin + (kmax - kmin)/2 (tanh(u) - tanh(v) + 2), where tanh(u) = 1 - 2 / (exp(2u) + 1).
    rate = p.kmax + (p.kmax - p.kmin) * (full - empty) / ((full + 1.0) * (empty + 1.0))
    appearance = p.f * p.kabs / p.BW * x2
    production = max(p.kp1 - p.kp2 * x3 - p.kp3 * x8, 0.0)
    excretion = p.ke1 * max(x3 - p.ke2, 0.0)
    exchange = p.k1 * x3 - p.k2 * x4
    utilisation = (p.Vm0 + p.Vmx * x6) * x4 / (p.Km0 + x4)
    absorbed = p.ka1 * x10 + p.ka2 * x11
    level = 1.0 / p.Vi * x5
    return (
        eating - p.kmax * x0,
        p.kmax * x0 - rate * x1,
        rate * x1 - p.kabs * x2,
        appearance + production - p.Fsnc - excretion - exchange if x3 >= 0.0 else 0.0,
        exchange - utilisation if x4 >= 0.0 else 0.0,
        p.m1 * x9 + absorbed - (p.m2 + p.m4) * x5 if x5 >= 0.0 else 0.0,
        p.p2u * (level - p.Ib - x6),
        p.ki * (level - x7),
        p.ki * (x7 - x8),
        p.m2 * x5 - (p.m1 + p.m30) * x9 if x9 >= 0.0 else 0.0,
        insulin - (p.ka1 + p.kd) * x10 if x10 >= 0.0 else 0.0,
        p.kd * x10 - p.ka2 * x11 if x11 >= 0.0 else 0.0,
        p.ksc * (x3 - x12) if x12 >= 0.0 else 0.0,
    )


@numba.njit(inline="always", error_model="numpy")
def emptying_arguments(p: Patient, content: float) -> tuple[float, float]:
    """Twice the arguments of the two tanh in the emptying of the stomach.

    `content` is the share of the last meal (and of what it met) that is still in the stomach.
    """
    return 5.0 / (1.0 - p.b) * (content - p.b), 5.0 / p.d * (content - p.d)
