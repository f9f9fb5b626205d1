"""The paper's intervals from concentration inequalities, Algorithms 3 and 4, with errors mended.

What differs from the letter of the paper, and why:

- Algorithm 4 takes ``X_i >= 0`` for granted, but the CDIS form of rho G^2 is negative for some
  trajectories when rewards change sign. The least possible product of two rewards is subtracted as
  control variate, and c^2 times it added back.
- Theorem 6 adds back xi_G = max(G_min^2, G_max^2) where c^2 xi_R is subtracted; the two differ when
  the range of returns is not c times that of the rewards.
- c = (1 - gamma^T) / (1 - gamma) belongs to T rewards, not to the T + 1 of the paper's sums; c = T
  at gamma = 1.
- Episodes that end early are padded with rewards of 0, so the range of rewards is widened to
  contain 0.
- With fewer than 40 trajectories the share of 1/20 for the threshold is raised to 2 of them.
"""

from __future__ import annotations

import math

import numpy as np

from ove_sb3._validation import FloatArray, IntArray

from .limits import Limits
from .mean_bounds import MeanBound
from .statistics import TrajectoryStatistics


def paper_variance_upper(
    stats: TrajectoryStatistics,
    limits: Limits,
    delta: float,
    order: IntArray,
    bound: MeanBound,
) -> float:
    """Upper bound: CI+ of E[rho G^2] at delta/2 less CI- of its squared mean at delta/4 a side."""
    low, high = paper_mean_bounds(stats, limits, delta / 2, order, bound)
    propagated = 0.0 if low <= 0.0 <= high else min(low**2, high**2)
    return _second_moment_upper(stats, limits, delta / 2, order, bound) - propagated


def paper_variance_lower(
    stats: TrajectoryStatistics,
    limits: Limits,
    delta: float,
    order: IntArray,
    bound: MeanBound,
) -> float:
    """Lower bound: CI- of E[rho G^2] at delta/2 less CI+ of its squared mean at delta/4 a side."""
    low, high = paper_mean_bounds(stats, limits, delta / 2, order, bound)
    propagated = max(low**2, high**2)
    return _second_moment_lower(stats, limits, delta / 2, order, bound) - propagated


def paper_mean_bounds(
    stats: TrajectoryStatistics,
    limits: Limits,
    delta: float,
    order: IntArray,
    bound: MeanBound,
) -> tuple[float, float]:
    """Lower and upper bound on E[G], each at delta/2, clipped to the range of the return."""
    return (
        paper_mean_lower(stats, limits, delta / 2, order, bound),
        paper_mean_upper(stats, limits, delta / 2, order, bound),
    )


def paper_mean_lower(
    stats: TrajectoryStatistics,
    limits: Limits,
    delta: float,
    order: IntArray,
    bound: MeanBound,
) -> float:
    """CI- of Y - R_min A, plus c R_min."""
    values, low, high, weight = _first_moment(stats, limits)
    excess = np.maximum(values - low * weight[0], 0.0)[order]
    value = low + bound(excess, delta, (high - low) * weight[1])
    return float(min(max(value, limits.return_range[0]), limits.return_range[1]))


def paper_mean_upper(
    stats: TrajectoryStatistics,
    limits: Limits,
    delta: float,
    order: IntArray,
    bound: MeanBound,
) -> float:
    """CI+ of Y - R_max A, plus c R_max."""
    values, low, high, weight = _first_moment(stats, limits)
    deficit = np.maximum(high * weight[0] - values, 0.0)[order]
    value = high - bound(deficit, delta, (high - low) * weight[1])
    return float(min(max(value, limits.return_range[0]), limits.return_range[1]))


def _first_moment(
    stats: TrajectoryStatistics, limits: Limits
) -> tuple[FloatArray, float, float, tuple[FloatArray, float]]:
    """Values with mean mu, the limits per unit of weight, the weights and their bound."""
    if limits.scaled_reward_range is None:
        low, high = limits.return_range
        return stats.weights * stats.returns, low, high, (stats.weights, limits.max_weight)
    low, high = limits.scaled_reward_range
    return stats.pdis, low, high, (stats.pdis_ones / stats.annuity, limits.max_pdis_weight)


def _second_moment(
    stats: TrajectoryStatistics, limits: Limits
) -> tuple[FloatArray, float, float, tuple[FloatArray, float]]:
    """Return the same for E[rho G^2]: limits of a product of two rewards, times c^2."""
    if limits.scaled_reward_range is None:
        low, high = limits.return_range
        values = stats.weights * stats.returns**2
        least = 0.0 if low <= 0.0 <= high else min(low**2, high**2)
        return values, least, max(low**2, high**2), (stats.weights, limits.max_weight)
    low, high = limits.scaled_reward_range
    least = min(low**2, high**2, low * high)
    weights = stats.cdis_ones / stats.annuity**2
    return stats.cdis, least, max(low**2, high**2), (weights, limits.max_cdis_weight)


def _second_moment_lower(
    stats: TrajectoryStatistics,
    limits: Limits,
    delta: float,
    order: IntArray,
    bound: MeanBound,
) -> float:
    values, least, most, weight = _second_moment(stats, limits)
    # A negative least product needs the control variate; a positive one would only do harm.
    least = min(least, 0.0)
    excess = np.maximum(values - least * weight[0], 0.0)[order]
    return least + bound(excess, delta, (most - least) * weight[1])


def _second_moment_upper(
    stats: TrajectoryStatistics,
    limits: Limits,
    delta: float,
    order: IntArray,
    bound: MeanBound,
) -> float:
    values, least, most, weight = _second_moment(stats, limits)
    deficit = np.maximum(most * weight[0] - values, 0.0)[order]
    maximum = (most - least) * weight[1] if math.isfinite(weight[1]) else math.inf
    return most - bound(deficit, delta, maximum)
