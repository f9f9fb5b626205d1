"""Glucose-insulin model of the UVA/Padova simulator [1]_.

Thirteen states: carbohydrates in the stomach (0 solid, 1 liquid) and the gut (2), mg; glucose in
plasma (3), tissue (4) and under the skin (12), mg/kg; insulin in plasma (5), liver (9) and the two
depots under the skin (10, 11), pmol/kg; delayed insulin actions (6, 7, 8). The equations follow
simglucose, including its rule that a negative mass does not change.

References
----------
.. [1] C. Dalla Man, R. A. Rizza and C. Cobelli, "Meal simulation model of the glucose-insulin
   system", IEEE Transactions on Biomedical Engineering, 2007.
"""

from __future__ import annotations

from typing import NamedTuple

import numba

from .units import U_TO_PMOL

N_STATES = 13

Slopes = tuple[
    float, float, float, float, float, float, float, float, float, float, float, float, float
]


class Patient(NamedTuple):
    """Parameters of the model, named as in simglucose, and the initial state."""

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
        """Patient from a row of simglucose's table."""
        parameters = {name: row[name] for name in cls._fields if name != "start"}
        start = tuple(row[name] for name in row if name.startswith("x0_"))
        return cls(**parameters, start=start)

    @property
    def basal(self) -> float:
        """Insulin that keeps a fasting patient at the initial glucose, U/min."""
        return self.u2ss * self.BW / U_TO_PMOL


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
        Carbohydrate intake, mg/min.
    insulin
        Insulin infusion, pmol/kg/min.
    full, empty
        Exponentials of the `emptying_arguments`.

    Notes
    -----
    Without branches or calls, so that a loop over patients compiles to SIMD code.
    """
    # The stomach empties fast when full or nearly empty and slowly in between, at the rate
    # kmin + (kmax - kmin)/2 (tanh(u) - tanh(v) + 2), where tanh(u) = 1 - 2 / (exp(2u) + 1).
    rate = p.kmax + (p.kmax - p.kmin) * (full - empty) / ((full + 1.0) * (empty + 1.0))
    appearance = p.f * p.kabs / p.BW * x2
    production = max(p.kp1 - p.kp2 * x3 - p.kp3 * x8, 0.0)
    excretion = p.ke1 * max(x3 - p.ke2, 0.0)
    exchange = p.k1 * x3 - p.k2 * x4
    utilization = (p.Vm0 + p.Vmx * x6) * x4 / (p.Km0 + x4)
    absorbed = p.ka1 * x10 + p.ka2 * x11
    level = 1.0 / p.Vi * x5
    return (
        eating - p.kmax * x0,
        p.kmax * x0 - rate * x1,
        rate * x1 - p.kabs * x2,
        appearance + production - p.Fsnc - excretion - exchange if x3 >= 0.0 else 0.0,
        exchange - utilization if x4 >= 0.0 else 0.0,
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
    """Twice the arguments of the two tanh terms in the gastric emptying rate.

    `content` is the stomach content as a fraction of the content right after the last meal.
    """
    return 5.0 / (1.0 - p.b) * (content - p.b), 5.0 / p.d * (content - p.d)
