"""The risk of a glucose level (Kovatchev et al., 1997; symmetrised scale in mg/dL)."""

from __future__ import annotations

import math

import numba


@numba.njit(cache=True, nogil=True, error_model="numpy")
def risk(glucose: float) -> float:
    """``10 f^2`` with ``f = 1.509 (ln(glucose)^1.084 - 5.381)``: 0 near 112.5, high on both sides.

    Below 1 mg/dL, where the power is undefined, it is the risk at 1.
    """
    f = 1.509 * (math.log(max(glucose, 1.0)) ** 1.084 - 5.381)
    return float(10.0 * f * f)
