"""Weighted pairs of trajectories: unbiased, and unchanged when all returns are shifted."""

from __future__ import annotations

import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.core.steps import running_sums
from ove_sb3.errors import InvalidInputError

from .base import Estimator, add
from .self_normalized import self_normalized_mean

_EPSILON = float(np.finfo(np.float64).eps)
_ROUGH = 1e-3  # relative rounding error that is not tolerated


def _pair(weights: FloatArray, returns: FloatArray) -> float:
    """1/2 sum over i != j of w_i w_j (G_i - G_j)^2, over n (n - 1)."""
    # Centering first changes nothing in exact arithmetic and keeps the difference from canceling.
    centered = returns - self_normalized_mean(weights, returns)
    n = weights.size
    first, second = np.sum(weights * centered), np.sum(weights * centered**2)
    return float(max(weights.sum() * second - first**2, 0.0) / (n * (n - 1)))


def _pair_influence(stats: TrajectoryStatistics) -> FloatArray:
    w = stats.weights
    g = stats.returns - self_normalized_mean(w, stats.returns)
    a, b, c = w.mean(), np.mean(w * g), np.mean(w * g**2)
    values = a * w * g**2 + c * w - 2 * b * w * g  # of a c - b^2
    return np.asarray(values - values.mean())


def _padded_sums(stats: TrajectoryStatistics) -> tuple[FloatArray, ...]:
    """Sums over all trajectories at every step of rho, and of rho S, rho S^2 before and after."""
    if stats.step_sums is None or stats.end_sums is None:
        raise InvalidInputError(
            "`estimator` 'pair_cdis' needs sums over steps, which a selection of trajectories does "
            "not have. Compute trajectory_statistics for the selected episodes."
        )
    # An episode that has ended continues with its last weight and return.
    ended = np.cumsum(stats.end_sums, axis=1)[:, :-1]
    rho = stats.step_sums[0] + ended[0]
    before, before_squared = stats.step_sums[1] + ended[1], stats.step_sums[2] + ended[2]
    after, after_squared = stats.step_sums[3] + ended[1], stats.step_sums[4] + ended[2]
    return rho, before, before_squared, after, after_squared


def _pair_cdis(stats: TrajectoryStatistics) -> float:
    """Sum over t of V_t(S_t) - V_t(S_{t-1}), V_t the pair form under the weights of step t."""
    n = stats.n_trajectories
    rho, before, before_squared, after, after_squared = _padded_sums(stats)
    gained = rho * (after_squared - before_squared) - (after - before) * (after + before)
    rounding = _EPSILON * float(np.sum(rho * after_squared))
    if stats.far_from_zero and rounding > _ROUGH * abs(float(gained.sum())):
        raise InvalidInputError(
            "returns must not be so far from 0 that their differences are lost in rounding, got "
            f"{stats.returns.min():.10g} to {stats.returns.max():.10g} for estimator='pair_cdis'. "
            "Use 'crossfit' or 'pair', or subtract a constant from all rewards."
        )
    return float(gained.sum() / (n * (n - 1)))


def _pair_cdis_influence(stats: TrajectoryStatistics) -> FloatArray:
    """Derivative of the sum over t of a_t c_t - b_t^2, in a second pass over the steps."""
    steps = stats.steps
    if steps is None:
        raise InvalidInputError(
            "`estimator` 'pair_cdis' needs the logged steps for an approximate interval, and they "
            "are no longer in memory. Use 'crossfit' or 'pair', or compute trajectory_statistics "
            "from the arrays of all steps."
        )
    n = len(stats)
    rho_mean, before, before_squared, after, after_squared = (
        sums / n for sums in _padded_sums(stats)
    )
    gained_squares, gained = after_squared - before_squared, after - before
    starts, lengths = steps.starts, steps.lengths
    time = np.arange(stats.n_steps) - np.repeat(starts, lengths)
    rho = np.exp(running_sums(steps.scores.log_ratios, lengths))
    reward = steps.gamma**time * steps.rewards
    S = running_sums(reward, lengths)
    S_before = S - reward
    running = rho * (
        gained_squares[time]
        + rho_mean[time] * (S**2 - S_before**2)
        - 2 * (after[time] * S - before[time] * S_before)
    )
    tails = [np.append(np.cumsum(x[::-1])[::-1], 0.0)[lengths] for x in (gained_squares, gained)]
    values = np.add.reduceat(running, starts)
    values += stats.weights * (tails[0] - 2 * stats.returns * tails[1])
    return np.asarray(values - values.mean())


add(Estimator("pair_cdis", "variance", _pair_cdis, influence=_pair_cdis_influence, unbiased=True))
add(
    Estimator(
        "pair",
        "variance",
        lambda stats: _pair(stats.weights, stats.returns),
        influence=_pair_influence,
        unbiased=True,
    )
)
