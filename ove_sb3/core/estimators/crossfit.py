"""The default estimator: centered CDIS with cross-fitted control variates.

Every variable with a known expectation is a control variate. For each of K folds, the following is
fitted on the other folds: a center m (the self-normalized mean); the two ways of estimating
``E_pi[(G - m)^2]``, coupled-decision and full-trajectory; and five quantities of mean zero, the
difference of those two, the same for the mean, and the three weights minus one. A ridge regression
removes what they explain, and the square of the small remaining mean is taken out by its unbiased
form over the pairs within the fold. Given the other folds, each fold's value is exactly unbiased.

The weights minus one are penalized lightly, the differences between the two forms strongly: on
heavy-tailed weights their fitted coefficients would rest on very few trajectories.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ove_sb3._validation import FloatArray, IntArray
from ove_sb3.core.statistics import TrajectoryStatistics

from .base import Estimator, add
from .smooth import SmoothStatistic

_MOST_FOLDS = 5
_SMALLEST_FOLD = 50  # smaller ones estimate the square of the remaining mean badly
_FOLD_SEED = 0  # of the assignment to folds, which does not depend on the data
_STRONG, _LIGHT = 3.0, 0.1  # penalties, relative to a standardized control variate
_EPSILON = float(np.finfo(np.float64).eps)
_ROUGH = 1e-6  # relative rounding error from which on a column is not used
_ROUNDING = 1e-10  # mean square of a control that is rounding error, relative to its terms
_NEGLIGIBLE = 1e-4  # and of one that is not used, relative to its terms times that of the weights


# The base columns: the fit uses only linear combinations of these.
_X, _B, _Y, _A, _W, _WG, _WGG, _ONE = range(_N_COLUMNS := 8)


@dataclass(frozen=True)
class CrossfitColumns:
    """Per-trajectory values whose means give the estimate; all (n,).

    Attributes
    ----------
    second
        Mean Var(G) + (mu - m)^2 given the other folds.
    first
        Mean mu - m.
    center
        The m of the trajectory's fold.
    fold
        Number of the trajectory's fold.
    """

    second: FloatArray
    first: FloatArray
    center: FloatArray
    fold: IntArray


def crossfit_mean(stats: TrajectoryStatistics) -> float:
    """Estimate the mean of the return; unbiased, and shifted as all returns are."""
    columns = crossfit_columns(stats)
    return float(np.mean(columns.first + columns.center))


def crossfit_variance(stats: TrajectoryStatistics) -> float:
    """Estimate the variance of the return; unbiased, unchanged by a shift of all returns."""
    columns = crossfit_columns(stats)
    sums, squares = (np.bincount(columns.fold, columns.first**power) for power in (1, 2))
    pairs = (sums**2 - squares) / (np.bincount(columns.fold) - 1)
    return float((columns.second.sum() - pairs.sum()) / stats.n_trajectories)


def crossfit_columns(stats: TrajectoryStatistics) -> CrossfitColumns:
    """Fit every fold's center and control variates on the other folds.

    With fewer than 4 trajectories there are no other folds to fit on: nothing is centered and
    no control variate is used.
    """
    n = stats.n_trajectories
    n_folds = min(_MOST_FOLDS, max(2, n // _SMALLEST_FOLD)) if n >= 4 else 1
    form = control_form(stats)
    # Not i % n_folds, which in a log of as many environments would be the environment.
    order = np.random.default_rng(_FOLD_SEED).permutation(n)
    fold = np.empty(n, np.int64)
    fold[order] = np.arange(n) % n_folds
    second, first, center = np.empty(n), np.empty(n), np.empty(n)
    for k in range(n_folds):
        own, others = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
        m = weighted_mean(stats.weights[others], stats.returns[others])
        base = base_columns(stats, m)
        fit = fit_controls(second_moments(base[:, others]), form)
        second[own] = np.einsum("i,in->n", fit.second, base[:, own])
        first[own] = np.einsum("i,in->n", fit.first, base[:, own])
        center[own] = m
    return CrossfitColumns(second, first, center, fold)


def weighted_mean(weights: FloatArray, returns: FloatArray) -> float:
    """Self-normalized mean; 0 without any weight."""
    return float(np.sum(weights * returns) / weights.sum()) if weights.any() else 0.0


def base_columns(stats: TrajectoryStatistics, center: float) -> FloatArray:
    """CDIS and PDIS with their weights, the full-trajectory forms with theirs, and ones; (8, n).

    Returns are measured from the center.
    """
    w, c = stats.weights, stats.effective_horizon
    G = stats.returns - center
    whole = [w, w * G, w * G**2, np.ones_like(w)]
    X, Y, A, B, E = stats.cdis, stats.pdis, stats.pdis_ones, stats.cdis_ones, stats.cdis_cross
    if not np.isfinite(c):
        zero = np.zeros_like(w)
        contrasts = [X - w * stats.returns**2, Y - w * stats.returns]
        return np.stack([contrasts[0], zero, contrasts[1], zero, *whole])
    r0 = center / c
    shifted = [X - 2 * r0 * E + r0**2 * B, B / c**2, Y - r0 * A, A / c]
    return np.stack([*shifted, *whole])


def second_moments(columns: FloatArray) -> FloatArray:
    """Sums of products of the columns, (k, n) -> (k, k)."""
    # einsum, not matmul: the last digits of the latter depend on its number of threads
    return np.asarray(np.einsum("in,jn->ij", columns, columns))


def control_form(stats: TrajectoryStatistics) -> str:
    """Name of the form that is centered, see `fit_controls`."""
    if not np.isfinite(stats.effective_horizon):
        return "unshifted"
    if stats.horizon == 1:
        return "whole"  # the two are the same
    if not stats.far_from_zero:
        return "coupled"
    w, G = stats.weights, stats.returns
    largest = np.abs(G).max() ** 2
    rounding = _EPSILON * largest * np.linalg.norm(stats.cdis_ones) / stats.effective_horizon**2
    rough = rounding > _ROUGH * np.linalg.norm(w * (G - weighted_mean(w, G)) ** 2)
    return "whole" if rough else "coupled"


@dataclass(frozen=True)
class ControlFit:
    """Linear combinations of the base columns that estimate, given the center m; all (..., 8).

    Attributes
    ----------
    second
        Has mean Var(G) + (mu - m)^2.
    first
        Has mean mu - m.
    controls
        The control variates in use, (k, 8), each with a mean square of 1.
    system
        Matrix of the normal equations, penalties included, (k, k).
    """

    second: FloatArray
    first: FloatArray
    controls: FloatArray
    system: FloatArray


def fit_controls(train: FloatArray, form: str, *, strong: float = _STRONG) -> ControlFit:
    """Fit the control variates on the second moments `train` of the base columns.

    `strong` is the penalty of the differences between the two forms. By `form` the combinations
    start from

    - ``"coupled"``: the coupled- and per-decision forms, with the full-trajectory ones as controls;
    - ``"whole"``: the full-trajectory forms alone, where the others are the same or would be
      nothing but rounding error;
    - ``"unshifted"``: the full-trajectory forms, with plain CDIS as control. Without horizon and
      discount no shift of the rewards shifts every return alike, so CDIS cannot be centered.
    """
    unit = np.eye(_N_COLUMNS)
    second = whole_second = unit[_WGG]
    first = whole_first = unit[_WG]
    contrasts, weights = [], [unit[_W], unit[_A], unit[_B]]
    if form == "coupled":
        second, first = unit[_X], unit[_Y]
        contrasts = [whole_second - second, whole_first - first]
    elif form == "unshifted":
        contrasts, weights = [unit[_X], unit[_Y]], [unit[_W]]
    if train[_ONE, _ONE] == 0.0:
        return ControlFit(second, first, np.empty((0, _N_COLUMNS)), np.empty((0, 0)))
    controls = np.stack([*contrasts, *(weight - unit[_ONE] for weight in weights)])
    squares = train / train[_ONE, _ONE]
    covariance = squares - np.outer(squares[_ONE], squares[_ONE])
    # The controls' means are known to be 0, so their spread is measured about 0. Where the other
    # folds happen to hold none of the large weights this shows, and the coefficients stay small.
    spreads = _mean_squares(controls, squares)
    # A control that is but rounding error, such as the contrasts at horizon one, is left out. So is
    # one that hardly varies in these folds although weights do: it may vary far more in the other.
    scale = spreads[len(contrasts) :].max()
    terms = _mean_squares(np.stack([second, first, whole_second, whole_first]), squares)
    sizes = np.full(len(controls), scale)
    sizes[: len(contrasts)] *= (terms[:2] + terms[2:])[: len(contrasts)]
    rounding = _ROUNDING * (np.abs(controls) @ np.diag(squares))
    used = spreads > np.maximum(_NEGLIGIBLE * sizes, rounding)
    controls = controls[used] / np.sqrt(spreads[used])[:, None]
    penalties = np.array([strong] * len(contrasts) + [_LIGHT] * len(weights))
    system = controls @ squares @ controls.T + np.diag(penalties[used])
    explained = controls @ covariance @ np.stack([second, first], axis=1)
    coefficients = np.linalg.solve(system, explained)
    return ControlFit(
        second - coefficients[:, 0] @ controls,
        first - coefficients[:, 1] @ controls,
        controls,
        system,
    )


def _mean_squares(combinations: FloatArray, squares: FloatArray) -> FloatArray:
    """Mean squares of linear combinations of the base columns, (k, 8) -> (k,)."""
    values = np.einsum("ij,jk,ik->i", combinations, squares, combinations)
    return np.asarray(np.maximum(values, 0.0))  # only rounding can be below


def _smooth_variance(stats: TrajectoryStatistics) -> SmoothStatistic:
    """Columns of the estimate, with everything fitted held fixed."""
    columns = crossfit_columns(stats)
    return SmoothStatistic(columns.second, columns.first, split=False)


def _smooth_mean(stats: TrajectoryStatistics) -> SmoothStatistic:
    columns = crossfit_columns(stats)
    values = columns.first + columns.center
    return SmoothStatistic(values, np.zeros_like(values), split=False)


add(Estimator("crossfit", "mean", crossfit_mean, smooth=_smooth_mean, unbiased=True))
add(Estimator("crossfit", "variance", crossfit_variance, smooth=_smooth_variance, unbiased=True))
