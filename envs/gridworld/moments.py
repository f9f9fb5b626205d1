"""Exact mean and variance of a gridworld return."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..common.checks import check_finite
from ..common.episodes import Moments
from ..common.types import FloatArray
from .model import N_ACTIONS, Grid, policy_table


def move_probabilities(grid: Grid, table: FloatArray) -> FloatArray:
    """Probability of each executed move, after slipping, in the shape of `table`."""
    return (1.0 - grid.slip) * table + grid.slip / N_ACTIONS


def exact_moments(grid: Grid, policy: ArrayLike, gamma: float = 1.0) -> Moments:
    """Mean and variance of ``sum_t gamma^t R_t`` by dynamic programming, backward in time.

    Let m and v be the mean and variance of the return from a cell on, and ``Z = R + gamma m(next)``
    the outcome of one move. Then ``m = E[Z]`` and, by the law of total variance, ``v = Var[Z] +
    gamma^2 E[v(next)]``. No difference of large numbers occurs.
    """
    gamma = check_finite(gamma, "gamma", 0.0, 1.0)
    moves = move_probabilities(grid, policy_table(grid, policy))
    reached = grid.destinations == grid.goal
    rewards = np.where(reached, grid.goal_reward, grid.step_reward)
    mean = np.zeros(grid.destinations.shape[0])
    variance = np.zeros_like(mean)
    for time in reversed(range(grid.horizon)):
        p = moves[min(time, moves.shape[0] - 1)]
        z = rewards + gamma * np.where(reached, 0.0, mean[grid.destinations])
        later = gamma**2 * np.where(reached, 0.0, variance[grid.destinations])
        mean = (p * z).sum(axis=1)
        variance = (p * ((z - mean[:, np.newaxis]) ** 2 + later)).sum(axis=1)
    first_mean = mean[grid.starts]
    total = float(first_mean.mean())
    return Moments(total, float((variance[grid.starts] + (first_mean - total) ** 2).mean()))
