"""Risk of a glucose level.

References
----------
.. [1] B. P. Kovatchev, D. J. Cox, L. A. Gonder-Frederick and W. Clarke, "Symmetrization of the
   blood glucose measurement scale and its applications", Diabetes Care, 1997.
"""

from __future__ import annotations

import math

import numba


@numba.njit(cache=True, nogil=True, error_model="numpy")
def risk(glucose: float) -> float:
    """Kovatchev's risk of a glucose level in mg/dL [1]_: 0 near 112.5, high on both sides.

    ``10 f^2`` with ``f = 1.509 (ln(glucose)^1.084 - 5.381)``. Below 1 mg/dL, where the power is
    undefined, the risk at 1 mg/dL.
    """
    f = 1.509 * (math.log(max(glucose, 1.0)) ** 1.084 - 5.381)
    return float(10.0 * f * f)
