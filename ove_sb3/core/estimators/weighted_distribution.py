"""The self-normalized weighted distribution of the return, and estimates from it.

Probabilities, quantiles and means of the worst of the logged returns, under weights normalized to
1. The estimates are consistent, not unbiased.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.core.sorted_returns import sorted_returns
from ove_sb3.core.statistics import TrajectoryStatistics

from .base import Estimator, add
from .smooth import SmoothStatistic

_ROUNDING = 1e-12  # relative: returns that differ by less are equal


def rounding(returns: FloatArray) -> float:
    """Difference below which returns are equal: they are sums that were rounded."""
    return _ROUNDING * float(np.abs(returns).max())


def at_most(returns: FloatArray, x: float) -> np.ndarray:
    """Indicator of returns of at most x, (n,) of bool."""
    return np.asarray(returns <= x + rounding(returns))


@dataclass(frozen=True)
class WeightedDistribution:
    """Returns in increasing order, and the normalized weight up to each, (n,)."""

    values: FloatArray
    levels: FloatArray

    @classmethod
    def of(cls, returns: FloatArray, weights: FloatArray) -> WeightedDistribution:
        """Distribution of returns under weights; levels are NaN if there is no weight at all."""
        order = np.argsort(returns, kind="stable")
        return cls.of_sorted(returns[order], weights[order])

    @classmethod
    def of_sorted(cls, returns: FloatArray, weights: FloatArray) -> WeightedDistribution:
        """Distribution of returns that are in increasing order."""
        cumulative = np.cumsum(weights)
        total = cumulative[-1]
        levels = cumulative / total if total > 0.0 else np.full_like(cumulative, np.nan)
        return cls(returns, levels)

    def quantile(self, p: float) -> float:
        """Least value whose level is at least p."""
        if np.isnan(self.levels[-1]):
            return float("nan")
        index = int(np.searchsorted(self.levels, min(p, 1.0) - _ROUNDING))
        return float(self.values[min(index, self.values.size - 1)])

    def cvar(self, p: float) -> float:
        """Mean of the worst fraction p."""
        q = self.quantile(p)
        steps = np.diff(self.levels, prepend=0.0)
        return float(q - np.sum(steps * np.maximum(q - self.values, 0.0)) / p)


_KNOWN: WeakKeyDictionary[TrajectoryStatistics, WeightedDistribution] = WeakKeyDictionary()


def weighted_distribution(stats: TrajectoryStatistics) -> WeightedDistribution:
    """The candidate's distribution; sorted once per statistics."""
    if stats not in _KNOWN:
        known = sorted_returns(stats)
        _KNOWN[stats] = WeightedDistribution.of_sorted(known.values, stats.weights[known.order])
    return _KNOWN[stats]


def _normalized(stats: TrajectoryStatistics) -> FloatArray:
    average = stats.weights.mean()
    return stats.weights / average if average > 0.0 else np.zeros_like(stats.weights)


def _average(stats: TrajectoryStatistics, values: FloatArray) -> float:
    total = stats.weights.sum()
    return float(np.sum(stats.weights * values) / total) if total > 0.0 else float("nan")


def _centered(stats: TrajectoryStatistics, values: FloatArray) -> FloatArray:
    """Influence on the self-normalized mean of `values`, (n,)."""
    return np.asarray(_normalized(stats) * (values - _average(stats, values)))


# --- the probability of a return of at most x


def _probability(stats: TrajectoryStatistics, x: float) -> float:
    return _average(stats, at_most(stats.returns, x).astype(np.float64))


def _probability_influence(stats: TrajectoryStatistics, x: float) -> FloatArray:
    return _centered(stats, at_most(stats.returns, x).astype(np.float64))


def _unbiased_probability(stats: TrajectoryStatistics, x: float) -> float:
    return float(np.mean(stats.weights * at_most(stats.returns, x)))


def _unbiased_probability_influence(stats: TrajectoryStatistics, x: float) -> FloatArray:
    values = stats.weights * at_most(stats.returns, x)
    return np.asarray(values - values.mean())


add(Estimator("wis", "p_below", _probability, influence=_probability_influence, parametric=True))
add(
    Estimator(
        "is",
        "p_below",
        _unbiased_probability,
        influence=_unbiased_probability_influence,
        unbiased=True,
        parametric=True,
    )
)


# --- quantiles


def _quantile(stats: TrajectoryStatistics, p: float) -> float:
    return weighted_distribution(stats).quantile(p)


def _smooth_quantile(stats: TrajectoryStatistics, p: float) -> SmoothStatistic:
    """Level of the quantile: too small by e if the distribution function is too large by e."""
    below = at_most(stats.returns, _quantile(stats, p)).astype(np.float64)
    values = p - _centered(stats, below)
    return SmoothStatistic(values, np.zeros_like(values), split=False)


def _from_level(stats: TrajectoryStatistics, level: float) -> float:
    """Quantile at a level that may be outside [0, 1]."""
    return weighted_distribution(stats).quantile(max(level, 0.0))


add(
    Estimator(
        "wis",
        "quantile",
        _quantile,
        smooth=_smooth_quantile,
        link=_from_level,
        parametric=True,
    )
)


# --- the mean of the worst fraction p


def _cvar(stats: TrajectoryStatistics, p: float) -> float:
    return weighted_distribution(stats).cvar(p)


def _cvar_influence(stats: TrajectoryStatistics, p: float) -> FloatArray:
    shortfall = np.maximum(_quantile(stats, p) - stats.returns, 0.0)
    return _centered(stats, -shortfall / p)


add(Estimator("wis", "cvar", _cvar, influence=_cvar_influence, parametric=True))
