"""Exact mean and variance of a recommender's reward."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from ..common.episodes import Moments
from ..common.types import FloatArray
from .model import Market, policy_table


def clipped_normal_moments(
    mean: FloatArray, sd: FloatArray, low: float, high: float
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of ``clip(N(mean, sd^2), low, high)``, elementwise.

    With a = (low - mean)/sd, b = (high - mean)/sd, and phi and Phi the standard normal density and
    distribution function, the deviation D of the clipped value from `mean` has
    ``E[D] = (low - mean) Phi(a) + (high - mean) Phi(-b) + sd (phi(a) - phi(b))`` and
    ``E[D^2] = (low - mean)^2 Phi(a) + (high - mean)^2 Phi(-b)
    + sd^2 (1 - Phi(a) - Phi(-b) + a phi(a) - b phi(b))``. If sd = 0, the clipped value is constant.
    """
    constant = sd == 0
    scale = np.where(constant, 1.0, sd)
    a, b = (low - mean) / scale, (high - mean) / scale
    below, above = ndtr(a), ndtr(-b)
    density_a, density_b = (np.exp(-0.5 * x**2) / np.sqrt(2.0 * np.pi) for x in (a, b))
    first = (low - mean) * below + (high - mean) * above + scale * (density_a - density_b)
    inside = 1.0 - below - above + a * density_a - b * density_b
    second = (low - mean) ** 2 * below + (high - mean) ** 2 * above + scale**2 * inside
    return (
        np.where(constant, np.clip(mean, low, high), mean + first),
        np.where(constant, 0.0, np.maximum(second - first**2, 0.0)),
    )


def exact_moments(market: Market, policy: ArrayLike) -> Moments:
    """Mean and variance over contexts, items and noise, by the law of total variance."""
    weights = market.contexts[:, np.newaxis] * policy_table(market, policy)
    mean, variance = clipped_normal_moments(market.means, market.sds, market.low, market.high)
    total = float((weights * mean).sum())
    return Moments(total, float((weights * (variance + (mean - total) ** 2)).sum()))
