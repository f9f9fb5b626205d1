"""Point estimates of the mean and the variance of the candidate's return."""

from __future__ import annotations

import warnings

import numpy as np

from ove_sb3._validation import FloatArray, check_choice
from ove_sb3.errors import InvalidInputError, SupportWarning

from .crossfit import crossfit_mean, crossfit_variance
from .statistics import TrajectoryStatistics

MEAN_ESTIMATORS = ("pdis", "crossfit", "is", "wis")
VARIANCE_ESTIMATORS = (
    "crossfit",
    "pair_cdis",
    "pair",
    "cdis",
    "is",
    "naive_is",
    "naive_plugin",
    "wis",
)
_EPSILON = float(np.finfo(np.float64).eps)
_ROUGH = 1e-3  # relative rounding error that is not tolerated
UNBIASED_VARIANCE_ESTIMATORS = ("crossfit", "pair_cdis", "pair", "cdis", "is")


def estimate_mean(stats: TrajectoryStatistics, *, estimator: str = "pdis") -> float:
    """Estimate the candidate's expected return.

    Parameters
    ----------
    stats : TrajectoryStatistics
        From `trajectory_statistics`.
    estimator : {"pdis", "crossfit", "is", "wis"}
        Per-decision importance sampling, the same with control variates fitted on the other folds
        (as in the default of `estimate_variance`) and full-trajectory importance sampling are
        unbiased. ``"crossfit"`` has by far the least variance as a rule; ``"wis"`` is
        self-normalised: often close, but biased at finite n.

    Returns
    -------
    float
    """
    check_choice(estimator, "estimator", MEAN_ESTIMATORS)
    warn_if_blind(stats)
    w, G = stats.weights, stats.returns
    if estimator == "pdis":
        return float(stats.pdis.mean())
    if estimator == "crossfit":
        return crossfit_mean(stats)
    if estimator == "is":
        return float(np.mean(w * G))
    return self_normalised_mean(w, G)


def estimate_variance(
    stats: TrajectoryStatistics,
    *,
    estimator: str = "crossfit",
    mean_square: str | None = None,
    clip: bool = False,
) -> float:
    """Estimate the variance of the candidate's return.

    Parameters
    ----------
    stats : TrajectoryStatistics
        From `trajectory_statistics`.
    estimator : str
        Unbiased and unchanged when all returns are shifted:

        - ``"crossfit"`` (default): centred coupled-decision importance sampling with control
          variates fitted on the other folds; never far from the best on any of the test beds.
        - ``"pair_cdis"``: weighted pairs of trajectories, step by step.
        - ``"pair"``: weighted pairs of whole trajectories; never negative.

        The paper's, unbiased but sensitive to where zero lies:

        - ``"cdis"``: Algorithm 1. ``"is"``: the same with full-trajectory weights.

        For comparison only, biased:

        - ``"naive_is"`` (the paper's sigma^2!!, not even consistent), ``"naive_plugin"``
          (sigma^2!), ``"wis"`` (self-normalised).
    mean_square : {"split", "u"}, optional
        For ``"cdis"`` and ``"is"``: how the square of the mean is estimated. ``"split"`` (the
        paper's, default) multiplies the means of the first n//2 trajectories and of the rest;
        ``"u"`` uses all pairs.
    clip : bool
        Return at least 0 (the paper's sigma^2+). This makes an unbiased estimate biased.

    Returns
    -------
    float
        Unbiased estimates other than ``"pair"`` can be negative.
    """
    check_choice(estimator, "estimator", VARIANCE_ESTIMATORS)
    if mean_square is not None:
        check_choice(mean_square, "mean_square", ("split", "u"))
        if estimator not in ("cdis", "is"):
            raise InvalidInputError(
                f"`mean_square` applies to the estimators 'cdis' and 'is' only, got {estimator!r}. "
                "Leave it out."
            )
    if not isinstance(clip, (bool, np.bool_)):
        raise InvalidInputError(f"`clip` must be True or False, got {clip!r}.")
    warn_if_blind(stats)
    value = _variance(stats, estimator, mean_square or "split")
    return max(value, 0.0) if clip else value


def sample_variance(values: FloatArray) -> float:
    """Unbiased variance of a sample; exactly 0 if all values are equal."""
    return float(values.var(ddof=1)) if np.ptp(values) > 0.0 else 0.0


def self_normalised_mean(weights: FloatArray, values: FloatArray) -> float:
    """Sum of w x over sum of w; 0 if no weight is left."""
    total = weights.sum()
    return float(np.sum(weights * values) / total) if total > 0.0 else 0.0


def warn_if_blind(stats: TrajectoryStatistics) -> None:
    """Warn when every trajectory has weight 0."""
    if not stats.weights.any():
        warnings.warn(
            "every logged trajectory has importance weight 0: the log says nothing about the "
            "candidate. Log with a behavior policy that can take the candidate's actions.",
            SupportWarning,
            stacklevel=3,
        )


def _variance(stats: TrajectoryStatistics, estimator: str, mean_square: str) -> float:
    w, G = stats.weights, stats.returns
    n = stats.n_trajectories
    if estimator == "crossfit":
        return crossfit_variance(stats)
    if estimator == "pair_cdis":
        return _pair_cdis(stats)
    if estimator == "pair":
        return _pair(w, G)
    if estimator == "cdis":
        return _second_moment_minus_square(stats.cdis, stats.pdis, mean_square)
    if estimator == "is":
        return _second_moment_minus_square(w * G**2, w * G, mean_square)
    if estimator == "naive_is":
        return float(np.var(w * G, ddof=1))
    if estimator == "naive_plugin":
        return float(np.sum(w * (G - np.mean(w * G)) ** 2) / (n - 1))
    return self_normalised_mean(w, (G - self_normalised_mean(w, G)) ** 2)


def _second_moment_minus_square(second: FloatArray, first: FloatArray, mean_square: str) -> float:
    """Mean of `second` minus an unbiased estimate of the squared mean of `first` (Algorithm 1)."""
    if mean_square == "u":
        return float(second.mean() - squared_mean(first))
    half = first.size // 2
    return float(second.mean() - first[:half].mean() * first[half:].mean())


def squared_mean(values: FloatArray) -> float:
    """Unbiased estimate of the squared mean from all pairs i != j."""
    n = values.size
    return float((values.sum() ** 2 - np.sum(values**2)) / (n * (n - 1)))


def _pair(weights: FloatArray, returns: FloatArray) -> float:
    """1/2 sum over i != j of w_i w_j (G_i - G_j)^2, over n (n - 1)."""
    # Centring first changes nothing in exact arithmetic and keeps the difference from cancelling.
    centred = returns - self_normalised_mean(weights, returns)
    n = weights.size
    first, second = np.sum(weights * centred), np.sum(weights * centred**2)
    return float(max(weights.sum() * second - first**2, 0.0) / (n * (n - 1)))


def _pair_cdis(stats: TrajectoryStatistics) -> float:
    """Sum over t of V_t(S_t) - V_t(S_{t-1}), V_t the pair form under the weights of step t."""
    n = stats.n_trajectories
    # An episode that has ended goes on with its last weight and return.
    ended = np.cumsum(stats.end_sums, axis=1)[:, :-1]
    rho = stats.step_sums[0] + ended[0]
    before, before_squared = stats.step_sums[1] + ended[1], stats.step_sums[2] + ended[2]
    after, after_squared = stats.step_sums[3] + ended[1], stats.step_sums[4] + ended[2]
    gained = rho * (after_squared - before_squared) - (after - before) * (after + before)
    rounding = _EPSILON * float(np.sum(rho * after_squared))
    if stats.far_from_zero and rounding > _ROUGH * abs(float(gained.sum())):
        raise InvalidInputError(
            "returns must not be so far from 0 that their differences are lost in rounding, got "
            f"{stats.returns.min():.10g} to {stats.returns.max():.10g} for estimator='pair_cdis'. "
            "Use 'crossfit' or 'pair', or subtract a constant from all rewards."
        )
    return float(gained.sum() / (n * (n - 1)))
