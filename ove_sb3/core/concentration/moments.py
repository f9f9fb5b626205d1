"""Moments of the return bounded by concentration inequalities: Algorithms 3 and 4, corrected.

Differences from the text of the paper:

- Algorithm 4 takes ``X_i >= 0`` for granted, but the CDIS form of rho G^2 is negative for some
  trajectories when rewards change sign. The least possible product of two rewards is subtracted as
  control variate, and c^2 times it added back.
- Theorem 6 adds back xi_G = max(G_min^2, G_max^2) where c^2 xi_R is subtracted; the two differ when
  the range of returns is not c times that of the rewards.
- c = (1 - gamma^T) / (1 - gamma) belongs to T rewards, not to the T + 1 of the paper's sums; c = T
  at gamma = 1.
- Episodes that end early are padded with rewards of 0, so the range of rewards is widened to
  contain 0.
- With fewer than 40 trajectories, 2 of them are used for the threshold instead of 1/20.
"""

from __future__ import annotations

import math

import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.core.sample import Sample

from .inequalities import Inequality


def paper_variance_upper(sample: Sample, delta: float, bound: Inequality) -> float:
    """Upper bound: CI+ of E[rho G^2] at delta/2 less CI- of its squared mean at delta/4 a side."""
    low, high = paper_mean_bounds(sample, delta / 2, bound)
    propagated = 0.0 if low <= 0.0 <= high else min(low**2, high**2)
    return _second_moment_upper(sample, delta / 2, bound) - propagated


def paper_variance_lower(sample: Sample, delta: float, bound: Inequality) -> float:
    """Lower bound: CI- of E[rho G^2] at delta/2 less CI+ of its squared mean at delta/4 a side."""
    low, high = paper_mean_bounds(sample, delta / 2, bound)
    propagated = max(low**2, high**2)
    return _second_moment_lower(sample, delta / 2, bound) - propagated


def paper_mean_bounds(sample: Sample, delta: float, bound: Inequality) -> tuple[float, float]:
    """Lower and upper bound on E[G], each at delta/2, clipped to the range of the return."""
    return (
        paper_mean_lower(sample, delta / 2, bound),
        paper_mean_upper(sample, delta / 2, bound),
    )


def paper_mean_lower(sample: Sample, delta: float, bound: Inequality) -> float:
    """CI- of Y - R_min A, plus c R_min."""
    values, low, high, weight = _first_moment(sample)
    excess = np.maximum(values - low * weight[0], 0.0)[sample.order]
    value = low + bound(excess, delta, (high - low) * weight[1])
    low_end, high_end = sample.limits.return_range
    return float(min(max(value, low_end), high_end))


def paper_mean_upper(sample: Sample, delta: float, bound: Inequality) -> float:
    """CI+ of Y - R_max A, plus c R_max."""
    values, low, high, weight = _first_moment(sample)
    deficit = np.maximum(high * weight[0] - values, 0.0)[sample.order]
    value = high - bound(deficit, delta, (high - low) * weight[1])
    low_end, high_end = sample.limits.return_range
    return float(min(max(value, low_end), high_end))


def _first_moment(sample: Sample) -> tuple[FloatArray, float, float, tuple[FloatArray, float]]:
    """Values with mean mu, the limits per unit of weight, the weights and their bound."""
    stats, limits = sample.stats, sample.limits
    if limits.scaled_reward_range is None:
        low, high = limits.return_range
        return stats.weights * stats.returns, low, high, (stats.weights, limits.max_weight)
    low, high = limits.scaled_reward_range
    return (
        stats.pdis,
        low,
        high,
        (stats.pdis_ones / stats.effective_horizon, limits.max_pdis_weight),
    )


def _second_moment(sample: Sample) -> tuple[FloatArray, float, float, tuple[FloatArray, float]]:
    """Values with mean E[rho G^2], limits of a product of two rewards times c^2, the weights."""
    stats, limits = sample.stats, sample.limits
    if limits.scaled_reward_range is None:
        low, high = limits.return_range
        values = stats.weights * stats.returns**2
        least = 0.0 if low <= 0.0 <= high else min(low**2, high**2)
        return values, least, max(low**2, high**2), (stats.weights, limits.max_weight)
    low, high = limits.scaled_reward_range
    least = min(low**2, high**2, low * high)
    weights = stats.cdis_ones / stats.effective_horizon**2
    return stats.cdis, least, max(low**2, high**2), (weights, limits.max_cdis_weight)


def _second_moment_lower(sample: Sample, delta: float, bound: Inequality) -> float:
    values, least, most, weight = _second_moment(sample)
    # A negative least product needs the control variate; a positive one would only do harm.
    least = min(least, 0.0)
    excess = np.maximum(values - least * weight[0], 0.0)[sample.order]
    return least + bound(excess, delta, (most - least) * weight[1])


def _second_moment_upper(sample: Sample, delta: float, bound: Inequality) -> float:
    values, least, most, weight = _second_moment(sample)
    deficit = np.maximum(most * weight[0] - values, 0.0)[sample.order]
    maximum = (most - least) * weight[1] if math.isfinite(weight[1]) else math.inf
    return most - bound(deficit, delta, maximum)
