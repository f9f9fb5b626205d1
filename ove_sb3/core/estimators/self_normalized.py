"""Self-normalized (weighted) importance sampling: low variance, biased at finite n."""

from __future__ import annotations

import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.core.statistics import TrajectoryStatistics

from .base import Estimator, add


def self_normalized_mean(weights: FloatArray, values: FloatArray) -> float:
    """Sum of w x over sum of w; 0 if no weight is left."""
    total = weights.sum()
    return float(np.sum(weights * values) / total) if total > 0.0 else 0.0


def _mean(stats: TrajectoryStatistics) -> float:
    return self_normalized_mean(stats.weights, stats.returns)


def _squares(stats: TrajectoryStatistics) -> FloatArray:
    return np.asarray((stats.returns - _mean(stats)) ** 2)


def _variance(stats: TrajectoryStatistics) -> float:
    return self_normalized_mean(stats.weights, _squares(stats))


def _influence(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Influence on the self-normalized mean of `values`, (n,)."""
    average = weights.mean()
    if average == 0.0:
        return np.zeros_like(values)
    return np.asarray(weights * (values - self_normalized_mean(weights, values)) / average)


add(
    Estimator(
        "wis", "mean", _mean, influence=lambda stats: _influence(stats.weights, stats.returns)
    )
)
add(
    Estimator(
        "wis",
        "variance",
        _variance,
        influence=lambda stats: _influence(stats.weights, _squares(stats)),
    )
)
