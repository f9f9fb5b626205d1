"""Exact mean and variance of a gridworld return by dynamic programming."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .checks import check_number, check_probabilities
from .episodes import Moments
from .gridworld_kernel import N_ACTIONS, Grid
from .streams import FloatArray


def policy_table(grid: Grid, policy: ArrayLike) -> FloatArray:
    """`policy` as checked probabilities, (horizon or 1, n_states, 8)."""
    table = np.asarray(policy, dtype=np.float64)
    shape = (grid.destinations.shape[0], N_ACTIONS)
    if table.ndim == 3:
        return check_probabilities("policy", table, (grid.horizon, *shape))
    return check_probabilities("policy", table, shape)[np.newaxis]


def move_probabilities(grid: Grid, table: FloatArray) -> FloatArray:
    """Probability of each executed move, after slipping, same shape as `table`."""
    return (1.0 - grid.slip) * table + grid.slip / N_ACTIONS


def exact_moments(grid: Grid, policy: ArrayLike, gamma: float = 1.0) -> Moments:
    """Mean and variance of ``sum_t gamma^t R_t``.

    Backwards in time, with m and v the mean and variance of the return from a cell onwards and Z
    the outcome ``R + gamma m(next)`` of one move: ``m = E[Z]`` and ``v = Var[Z] + gamma^2
    E[v(next)]`` (the law of total variance), which involves no difference of large numbers.
    """
    gamma = check_number("gamma", gamma, 0.0, 1.0)
    moves = move_probabilities(grid, policy_table(grid, policy))
    reached = grid.destinations == grid.goal
    rewards = np.where(reached, grid.goal_reward, grid.step_reward)
    mean = np.zeros(grid.destinations.shape[0])
    variance = np.zeros_like(mean)
    for time in reversed(range(grid.horizon)):
        p = moves[min(time, moves.shape[0] - 1)]
        outcome = rewards + gamma * np.where(reached, 0.0, mean[grid.destinations])
        spread = gamma**2 * np.where(reached, 0.0, variance[grid.destinations])
        mean = (p * outcome).sum(axis=1)
        variance = (p * ((outcome - mean[:, np.newaxis]) ** 2 + spread)).sum(axis=1)
    first_mean = mean[grid.starts]
    total = float(first_mean.mean())
    return Moments(total, float((variance[grid.starts] + (first_mean - total) ** 2).mean()))
