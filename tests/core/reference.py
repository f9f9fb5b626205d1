"""The paper's formulas, term by term."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def padded(
    log_ratios: FloatArray, rewards: FloatArray, horizon: int
) -> tuple[FloatArray, FloatArray]:
    """Products of ratios and rewards of one episode, padded to the horizon as the paper says."""
    rho = np.exp(np.cumsum(log_ratios))
    missing = horizon - rho.size
    return np.concatenate([rho, np.full(missing, rho[-1])]), np.concatenate(
        [rewards, np.zeros(missing)]
    )


def pdis(
    log_ratios: FloatArray, rewards: FloatArray, gamma: float, horizon: int, shift: float = 0.0
) -> float:
    """Sum of rho_j gamma^j (R_j - shift)."""
    rho, reward = padded(log_ratios, rewards, horizon)
    return float(sum(rho[j] * gamma**j * (reward[j] - shift) for j in range(horizon)))


def cdis(
    log_ratios: FloatArray,
    rewards: FloatArray,
    gamma: float,
    horizon: int,
    shift: float = 0.0,
    xi: float = 0.0,
) -> float:
    """Double sum of rho_max(j,k) gamma^(j+k) ((R_j - shift)(R_k - shift) - xi)."""
    rho, reward = padded(log_ratios, rewards, horizon)
    total = 0.0
    for j in range(horizon):
        for k in range(horizon):
            product = (reward[j] - shift) * (reward[k] - shift) - xi
            total += rho[max(j, k)] * gamma ** (j + k) * product
    return total


def thomas_lower(values: FloatArray, threshold: float, delta: float) -> float:
    """Theorem of Thomas et al. (2015) with one threshold c, as printed in the paper's appendix."""
    n = values.size
    cut = np.minimum(values, threshold)
    inverse = 1.0 / (n / threshold)
    pairs = sum((a / threshold - b / threshold) ** 2 for a in cut for b in cut)
    return float(
        inverse * np.sum(cut / threshold)
        - inverse * 7 * n * math.log(2 / delta) / (3 * (n - 1))
        - inverse * math.sqrt(math.log(2 / delta) / (n - 1) * pairs)
    )
