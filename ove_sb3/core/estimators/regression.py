"""The default estimator's control variates, fitted on all trajectories: smaller error, some bias.

`crossfit` fits on other folds what it applies to each, which makes it exactly unbiased. With few
trajectories that costs: every fit uses a part of them. Fitted once on all of them, the same
regression has a bias of order 1/n, downward as a rule, and at n = 100 a clearly smaller error.
"""

from __future__ import annotations

import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.core.statistics import TrajectoryStatistics

from .base import Estimator, add
from .crossfit import base_columns, control_form, fit_controls, second_moments, weighted_mean
from .smooth import SmoothStatistic

_STRONG = 1.0  # penalty of the differences between the two forms, less than with folds
_MOST_LEVERAGE = 0.9  # larger values, those of single huge weights, would dominate the resampling


def _fit(stats: TrajectoryStatistics) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Values for the variance and the mean, the leverage of each trajectory (n,), the center."""
    m = weighted_mean(stats.weights, stats.returns)
    base = base_columns(stats, m)
    fit = fit_controls(second_moments(base), control_form(stats), strong=_STRONG)
    second, first, controls = (
        np.einsum("...i,in->...n", coefficients, base)
        for coefficients in (fit.second, fit.first, fit.controls)
    )
    n = stats.n_trajectories
    explained = np.einsum("in,in->n", controls, np.linalg.solve(fit.system, controls))
    leverage = np.clip((1.0 + explained) / n, 0.0, _MOST_LEVERAGE)
    return second, first, leverage, m


def _mean(stats: TrajectoryStatistics) -> float:
    _, first, _, center = _fit(stats)
    return float(first.mean() + center)


def _variance(stats: TrajectoryStatistics) -> float:
    second, first, _, _ = _fit(stats)
    n = stats.n_trajectories
    pairs = (first.sum() ** 2 - np.sum(first**2)) / (n * (n - 1)) if n > 1 else 0.0
    return float(second.mean() - pairs)


def _as_unseen(values: FloatArray, leverage: FloatArray) -> FloatArray:
    """Values with residuals as large as if each trajectory had not been fitted on; same mean.

    A fit follows trajectories of large leverage, so that their residuals are too small (the
    jackknife correction, HC3, of MacKinnon and White 1985).
    """
    residuals = (values - values.mean()) / (1.0 - leverage)
    return np.asarray(values.mean() + residuals - residuals.mean())


def _smooth_mean(stats: TrajectoryStatistics) -> SmoothStatistic:
    _, first, leverage, center = _fit(stats)
    values = _as_unseen(first + center, leverage)
    return SmoothStatistic(values, np.zeros_like(values), split=False)


def _smooth_variance(stats: TrajectoryStatistics) -> SmoothStatistic:
    second, first, leverage, _ = _fit(stats)
    return SmoothStatistic(_as_unseen(second, leverage), first, split=False)


add(Estimator("regression", "mean", _mean, smooth=_smooth_mean))
add(Estimator("regression", "variance", _variance, smooth=_smooth_variance))
