"""Importance sampling: per decision, coupled decision and full trajectory.

``cdis`` is Algorithm 1 of the paper; ``is`` does the same with full-trajectory weights. Both square
the mean by multiplying the means of two halves. ``cdis_u`` and ``is_u`` use all pairs instead.
"""

from __future__ import annotations

import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.core.statistics import TrajectoryStatistics

from .base import Estimator, add
from .smooth import SmoothStatistic, squared_mean


def _pdis(stats: TrajectoryStatistics) -> float:
    return float(stats.pdis.mean())


def _is_mean(stats: TrajectoryStatistics) -> float:
    return float(np.mean(stats.weights * stats.returns))


def _average(values: FloatArray) -> SmoothStatistic:
    return SmoothStatistic(values, np.zeros_like(values), split=False)


def _coupled(stats: TrajectoryStatistics) -> tuple[FloatArray, FloatArray]:
    return stats.cdis, stats.pdis


def _whole(stats: TrajectoryStatistics) -> tuple[FloatArray, FloatArray]:
    w, G = stats.weights, stats.returns
    return w * G**2, w * G


def _from_halves(second: FloatArray, first: FloatArray) -> float:
    """Mean of `second` minus the product of the means of two halves of `first` (Algorithm 1)."""
    half = first.size // 2
    return float(second.mean() - first[:half].mean() * first[half:].mean())


def _from_pairs(second: FloatArray, first: FloatArray) -> float:
    """Mean of `second` minus the squared mean of `first` from all pairs i != j."""
    return float(second.mean() - squared_mean(first))


def _naive_is(stats: TrajectoryStatistics) -> float:
    """Variance of rho G (the paper's sigma^2!!); not even consistent."""
    return float(np.var(stats.weights * stats.returns, ddof=1))


def _naive_is_smooth(stats: TrajectoryStatistics) -> SmoothStatistic:
    weighted = stats.weights * stats.returns
    return SmoothStatistic(weighted**2, weighted, split=False)


def _naive_plugin(stats: TrajectoryStatistics) -> float:
    """Weighted mean of (G - mu)^2 about the IS estimate of mu (the paper's sigma^2!)."""
    w, G = stats.weights, stats.returns
    return float(np.sum(w * (G - np.mean(w * G)) ** 2) / (len(stats) - 1))


def _naive_plugin_influence(stats: TrajectoryStatistics) -> FloatArray:
    w, G = stats.weights, stats.returns
    a, b = w.mean(), np.mean(w * G)
    values = w * G**2 + (2 * a * b - 4 * b) * w * G + b**2 * w  # of c - 2 b^2 + a b^2
    return np.asarray(values - values.mean())


def _whole_smooth(stats: TrajectoryStatistics, *, split: bool) -> SmoothStatistic:
    weighted = stats.weights * stats.returns
    return SmoothStatistic(weighted * stats.returns, weighted, split)


add(Estimator("pdis", "mean", _pdis, smooth=lambda stats: _average(stats.pdis), unbiased=True))
add(
    Estimator(
        "is",
        "mean",
        _is_mean,
        smooth=lambda stats: _average(stats.weights * stats.returns),
        unbiased=True,
    )
)
add(
    Estimator(
        "cdis",
        "variance",
        lambda stats: _from_halves(*_coupled(stats)),
        smooth=lambda stats: SmoothStatistic(*_coupled(stats), split=True),
        unbiased=True,
    )
)
add(
    Estimator(
        "is",
        "variance",
        lambda stats: _from_halves(*_whole(stats)),
        smooth=lambda stats: _whole_smooth(stats, split=True),
        unbiased=True,
    )
)
add(
    Estimator(
        "cdis_u",
        "variance",
        lambda stats: _from_pairs(*_coupled(stats)),
        smooth=lambda stats: SmoothStatistic(*_coupled(stats), split=False),
        unbiased=True,
    )
)
add(
    Estimator(
        "is_u",
        "variance",
        lambda stats: _from_pairs(*_whole(stats)),
        smooth=lambda stats: _whole_smooth(stats, split=False),
        unbiased=True,
    )
)
add(Estimator("naive_is", "variance", _naive_is, smooth=_naive_is_smooth))
add(Estimator("naive_plugin", "variance", _naive_plugin, influence=_naive_plugin_influence))
