"""Bet sizes that hedge an option: the capital reaches its aim if the sum is large enough.

Think of p as the price of an option that pays 1 if the sum of the observations exceeds a threshold.
If observations are many and small, their sum is about normal, and p = Q(z), where Q is the upper
tail of the normal distribution and z the distance to the threshold in standard deviations of what
remains. The bet that follows this price is its derivative by the sum, relative to p:
``phi(z) / Q(z)``, the hazard rate of the normal distribution, per standard deviation.

A bettor with these bets ends near 0 or near 1, whichever way the sum got there. The result depends
little on the order of the observations, and the bound is about that of the normal distribution.
None of this is needed for validity: bets of any size are valid.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from scipy.special import log_ndtr, ndtri_exp

_STEP = 0.01  # of the table, in u = sqrt(-2 log p)
_U = np.arange(0.0, 30.0, _STEP)
_Z = -ndtri_exp(-0.5 * _U**2)
_HAZARD_RATES = np.exp(-0.5 * _Z**2 - 0.5 * math.log(2.0 * math.pi) - log_ndtr(-_Z))
_HAZARD_RATES[0] = 0.0  # p = 1: nothing is left to hedge


@numba.njit(cache=True, nogil=True)
def hedge(missing: float) -> float:
    """Bet per standard deviation of what remains, if log p is `missing` below that of the aim."""
    return float(hazard_rate(math.sqrt(2.0 * max(missing, 0.0))))


@numba.njit(cache=True, nogil=True)
def hazard_rate(u: float) -> float:
    """Hazard rate of the normal distribution where its upper tail is exp(-u^2 / 2), u >= 0."""
    k = int(u / _STEP)
    if k + 1 >= _HAZARD_RATES.shape[0]:
        return u  # its limit for small p
    share = u / _STEP - k
    return float((1.0 - share) * _HAZARD_RATES[k] + share * _HAZARD_RATES[k + 1])
