"""Trajectories that were assigned to known policies, as in an A/B test.

Arm j acted in n_j of n trajectories: at random, or as planned. Their weights are those of a mixture
of the arms with shares alpha_j. Given the arms, a variable x has means mu_i that differ from
trajectory to trajectory, and only their average is that of the mixture, if the shares are the
realized ones, n_j / n. That is enough for bets of constant size: by the inequality of arithmetic
and geometric means,

    E[prod (1 + lam (x_i - s))] = prod (1 + lam (mu_i - s)) <= (1 + lam (mean of mu_i - s))^n.

The shares that count are those of the trajectories that are bet on. Weights of other shares are
corrected: a trajectory of arm j counts alpha_j n / n_j times.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ove_sb3._validation import FloatArray, IntArray
from ove_sb3.errors import InvalidInputError

from .statistics import TrajectoryStatistics

ASSIGNED_TO = "assigned_to"
"""Logged column: number of the policy that acted, at every step."""
ARMS = "assigned_arms"
"""Column: the arm of every trajectory."""
SHARES = "assigned_shares"
"""Column: the share that the weights assume for the arm of a trajectory."""
_WEIGHTED = ("weights", "pdis", "cdis", "pdis_ones", "cdis_ones", "cdis_cross")
_ROUNDING = 1e-9


def is_assigned(stats: TrajectoryStatistics) -> bool:
    """Whether trajectories were assigned to policies, and their arms are known."""
    return ARMS in stats.columns


def share_factors(stats: TrajectoryStatistics, counted: IntArray) -> FloatArray:
    """Factors on the weights of all trajectories, (n,), if those in `counted` are bet on.

    The weights of `counted`, multiplied by them, are those of the mixture with realized shares.
    """
    arms, first, index = np.unique(stats[ARMS], return_index=True, return_inverse=True)
    shares = stats[SHARES][first]
    counts = np.bincount(index[counted], minlength=arms.size)
    if not (np.abs(stats[SHARES] - shares[index]) <= _ROUNDING).all():
        raise InvalidInputError(
            "`data` must have one share for every policy that acted, got several: logs of "
            "different shares were joined. Join them first, and call as_mixture on the result."
        )
    if abs(shares.sum() - 1.0) > _ROUNDING or not counts.all():
        raise InvalidInputError(
            "`data` must hold at least 2 episodes of every policy that acted, got "
            f"{dict(zip(arms.astype(int).tolist(), np.bincount(index).tolist(), strict=True))}. "
            "Call as_mixture on the episodes that are evaluated."
        )
    return np.asarray((shares * counted.size / counts)[index])


def balanced(stats: TrajectoryStatistics) -> TrajectoryStatistics:
    """Statistics with the weights of the realized shares of all trajectories."""
    if not is_assigned(stats):
        return stats
    return reweighted(stats, share_factors(stats, np.arange(len(stats))))


def reweighted(stats: TrajectoryStatistics, factors: FloatArray) -> TrajectoryStatistics:
    """Statistics whose weights are multiplied by factors, (n,)."""
    if np.allclose(factors, 1.0, rtol=_ROUNDING, atol=0.0):
        return stats
    columns = dict(stats.columns)
    for name in _WEIGHTED:
        columns[name] = columns[name] * factors
    columns[SHARES] = columns[SHARES] / factors
    return replace(
        stats,
        columns=columns,
        max_log_weight=stats.max_log_weight + float(np.log(factors.max())),
        step_sums=None,
        end_sums=None,
        steps=None,
    )


def even_order(arms: FloatArray, rng: np.random.Generator) -> IntArray:
    """Random order in which every stretch has about the same share of each arm."""
    position = np.empty(arms.size)
    for arm in np.unique(arms):
        own = np.flatnonzero(arms == arm)
        position[own] = (rng.permutation(own.size) + rng.random()) / own.size
    return np.argsort(position, kind="stable")
