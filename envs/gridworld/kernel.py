"""Compiled gridworld episodes."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from ..common.streams import uniform
from ..common.types import FloatArray, IntArray, KeyArray
from .model import N_ACTIONS, Grid


@numba.njit(cache=True, nogil=True)
def first_state(grid: Grid, key: np.uint64) -> int:
    """Initial cell of the episode `key`, from uniform number 0."""
    n = grid.starts.shape[0]
    return int(grid.starts[min(int(uniform(key, 0) * n), n - 1)])


@numba.njit(cache=True, nogil=True)
def step(
    grid: Grid, key: np.uint64, time: int, state: int, action: int
) -> tuple[int, float, bool, bool]:
    """Next cell, reward, terminated and truncated of step number `time`, from uniform time + 1.

    With probability `slip` the action is replaced by one of the eight moves, drawn uniformly.
    """
    u = uniform(key, time + 1)
    random_move = min(int(u * grid.moves_per_slip), N_ACTIONS - 1)  # uniform given u < slip
    state = int(grid.destinations[state, random_move if u < grid.slip else action])
    terminated = state == grid.goal
    truncated = time + 1 >= grid.horizon and not terminated
    return state, grid.goal_reward if terminated else grid.step_reward, terminated, truncated


@numba.njit(cache=True, nogil=True)
def first_states(grid: Grid, keys: KeyArray) -> IntArray:
    """Initial cell of every episode, (n,)."""
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
    """Step every episode: `times` and `states` are updated, the last three arrays are output."""
    for i in range(keys.shape[0]):
        states[i], rewards[i], terminated[i], truncated[i] = step(
            grid, keys[i], times[i], states[i], actions[i]
        )
        times[i] += 1


@numba.njit(cache=True, nogil=True)
def run_table(
    grid: Grid,
    keys: KeyArray,
    action_keys: KeyArray,
    cumulative: FloatArray,
    log_probabilities: FloatArray,
    states: IntArray,
    actions: IntArray,
    log_probs: FloatArray,
    rewards: FloatArray,
    lengths: IntArray,
) -> int:
    """Run complete episodes under a tabular policy and return the number of steps.

    Parameters
    ----------
    grid
        The gridworld.
    keys, action_keys
        Keys of the random numbers of the environment and of the policy, (n,).
    cumulative, log_probabilities
        Cumulative action probabilities and log-probabilities, (horizon or 1, n_states, 8).
    states, actions, log_probs, rewards
        Output, with room for n * horizon steps; filled from the start.
    lengths
        Output, (n,).
    """
    last = cumulative.shape[0] - 1
    used = 0
    for i in range(keys.shape[0]):
        state = first_state(grid, keys[i])
        time = 0
        ended = False
        while not ended:
            u = uniform(action_keys[i], time)
            table = min(time, last)
            action = 0
            for other in range(N_ACTIONS - 1):  # counting is faster than a search: no branches
                action += u >= cumulative[table, state, other]
            states[used] = state
            actions[used] = action
            log_probs[used] = log_probabilities[table, state, action]
            state, rewards[used], terminated, truncated = step(grid, keys[i], time, state, action)
            ended = terminated or truncated
            used += 1
            time += 1
        lengths[i] = time
    return used
