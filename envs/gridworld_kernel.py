"""Compiled steps of the gridworld, one and many at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from .streams import FloatArray, IntArray, KeyArray, uniform

N_ACTIONS = 8


class Grid(NamedTuple):
    """Everything a compiled step needs to know.

    Attributes
    ----------
    destinations
        Cell reached by each move if it does not slip, (n_states, 8).
    starts
        Cells in which an episode may begin, equally likely, (n_starts,).
    moves_per_slip
        8 / slip, or 0 without slip.
    goal, slip, step_reward, goal_reward, horizon
        As in `GridworldEnv`.
    """

    destinations: IntArray
    starts: IntArray
    goal: int
    slip: float
    moves_per_slip: float
    step_reward: float
    goal_reward: float
    horizon: int


@numba.njit(cache=True, nogil=True)
def first_state(grid: Grid, key: np.uint64) -> int:
    """The cell in which the episode `key` begins (its uniform number 0)."""
    n = grid.starts.shape[0]
    return int(grid.starts[min(int(uniform(key, 0) * n), n - 1)])


@numba.njit(cache=True, nogil=True)
def next_state(grid: Grid, key: np.uint64, time: int, state: int, action: int) -> int:
    """The cell after step number `time` (its uniform number time + 1).

    With probability `slip` the move is one of the eight drawn at random, whatever the action.
    """
    u = uniform(key, time + 1)
    any_move = min(int(u * grid.moves_per_slip), N_ACTIONS - 1)  # uniform on 0..7 given u < slip
    return int(grid.destinations[state, any_move if u < grid.slip else action])


@numba.njit(cache=True, nogil=True)
def first_states(grid: Grid, keys: KeyArray) -> IntArray:
    """`first_state` of every key, (n,)."""
    states = np.empty(keys.shape[0], dtype=np.int64)
    for i in range(keys.shape[0]):
        states[i] = first_state(grid, keys[i])
    return states


@numba.njit(cache=True, nogil=True)
def advance(
    grid: Grid,
    keys: KeyArray,
    times: IntArray,
    states: IntArray,
    actions: IntArray,
    rewards: FloatArray,
    terminated: NDArray[Any],
    truncated: NDArray[Any],
) -> None:
    """One step of every episode; `times` and `states` change in place, the rest is output."""
    for i in range(keys.shape[0]):
        states[i] = next_state(grid, keys[i], times[i], states[i], actions[i])
        times[i] += 1
        terminated[i] = states[i] == grid.goal
        truncated[i] = times[i] >= grid.horizon and not terminated[i]
        rewards[i] = grid.goal_reward if terminated[i] else grid.step_reward


@numba.njit(cache=True, nogil=True)
def run_table(
    grid: Grid,
    keys: KeyArray,
    action_keys: KeyArray,
    cumulative: FloatArray,
    log_table: FloatArray,
    states: IntArray,
    actions: IntArray,
    log_probs: FloatArray,
    rewards: FloatArray,
    lengths: IntArray,
) -> int:
    """Whole episodes under a table of action probabilities; returns the number of steps.

    Parameters
    ----------
    grid, keys, action_keys
        Law and randomness: of the environment, and of the policy, (n,).
    cumulative, log_table
        Cumulative action probabilities and log-probabilities, (horizon or 1, n_states, 8).
    states, actions, log_probs, rewards
        Output, room for n * horizon steps, filled from the start.
    lengths
        Output, (n,).
    """
    last = cumulative.shape[0] - 1
    used = 0
    for i in range(keys.shape[0]):
        state = first_state(grid, keys[i])
        time = 0
        while True:
            u = uniform(action_keys[i], time)
            table = min(time, last)
            action = 0
            for other in range(N_ACTIONS - 1):  # counting is quicker than a search: no branches
                action += u >= cumulative[table, state, other]
            states[used] = state
            actions[used] = action
            log_probs[used] = log_table[table, state, action]
            state = next_state(grid, keys[i], time, state, action)
            reached = state == grid.goal
            rewards[used] = grid.goal_reward if reached else grid.step_reward
            used += 1
            time += 1
            if reached or time >= grid.horizon:
                break
        lengths[i] = time
    return used
