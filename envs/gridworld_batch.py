"""Thousands of gridworld episodes at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .checks import check_count, check_discrete_actions
from .episodes import Episodes, Policy, StepOutcome
from .gridworld_kernel import N_ACTIONS, Grid, advance, first_states, run_table
from .gridworld_moments import policy_table
from .streams import FloatArray, IntArray, KeyArray, Rng, draw_keys
from .tables import cumulative_table, log_table

_CHUNK_STEPS = 1 << 25

Choose = Callable[[int, IntArray, IntArray], tuple[IntArray, FloatArray]]


def simulate(grid: Grid, policy: ArrayLike | Policy, n: int, rng: Rng = None) -> Episodes:
    """Run `n` episodes; see `GridworldEnv.simulate`."""
    n = check_count("n", n)
    generator = np.random.default_rng(rng)
    keys = draw_keys(generator, n)
    if callable(policy):
        return _lockstep(grid, keys, _chooser_of_function(policy, generator))
    if np.asarray(policy).dtype.kind in "iu":
        given = check_discrete_actions(policy, N_ACTIONS, (n, grid.horizon))
        return _lockstep(grid, keys, lambda t, alive, _: (given[alive, t], np.zeros(alive.shape)))
    return _run_table(grid, keys, policy_table(grid, policy), draw_keys(generator, n))


def _chooser_of_function(policy: Policy, generator: np.random.Generator) -> Choose:
    def choose(time: int, alive: IntArray, states: IntArray) -> tuple[IntArray, FloatArray]:
        actions, log_probs = policy(states, generator)
        return (
            check_discrete_actions(actions, N_ACTIONS, states.shape),
            np.asarray(log_probs, dtype=np.float64).reshape(states.shape),
        )

    return choose


def _run_table(grid: Grid, keys: KeyArray, table: FloatArray, action_keys: KeyArray) -> Episodes:
    """Episodes under a table of probabilities, compiled, in chunks that bound the memory."""
    cumulative, logs = cumulative_table(table), log_table(table)
    chunk = max(1, _CHUNK_STEPS // grid.horizon)
    lengths = np.empty(keys.shape[0], dtype=np.int64)
    parts = []
    for first in range(0, keys.shape[0], chunk):
        part = slice(first, first + chunk)
        room = keys[part].shape[0] * grid.horizon
        columns = [np.empty(room, dtype=dtype) for dtype in (np.int64, np.int64, float, float)]
        states, actions, log_probs, rewards = columns
        used = run_table(
            grid,
            keys[part],
            action_keys[part],
            cumulative,
            logs,
            states,
            actions,
            log_probs,
            rewards,
            lengths[part],
        )
        for column in columns:
            column.resize(used, refcheck=False)  # gives the unused end back without a copy
        parts.append(columns)
    joined = parts[0] if len(parts) == 1 else [np.concatenate(c) for c in zip(*parts, strict=True)]
    states, actions, log_probs, rewards = joined
    return Episodes(states, actions, log_probs, rewards, lengths)


def _lockstep(grid: Grid, keys: KeyArray, choose: Choose) -> Episodes:
    """Episodes side by side, one step of all of them at a time."""
    n = keys.shape[0]
    lengths = np.zeros(n, dtype=np.int64)
    alive = np.arange(n)
    states = first_states(grid, keys)
    steps = []
    for time in range(grid.horizon):
        before = states.copy()
        actions, log_probs = choose(time, alive, before)
        outcome = step_all(grid, keys[alive], np.full(alive.shape, time), states, actions)
        steps.append((alive, before, actions, log_probs, outcome.rewards))
        lengths[alive] += 1
        going = ~(outcome.terminated | outcome.truncated)
        alive, states = alive[going], states[going]
        if not alive.size:
            break
    starts = np.cumsum(lengths) - lengths
    total = int(lengths.sum())
    columns: list[NDArray[Any]] = [np.empty(total, dtype=np.int64) for _ in range(2)]
    columns += [np.empty(total) for _ in range(2)]
    for time, (rows, *values) in enumerate(steps):
        for column, value in zip(columns, values, strict=True):
            column[starts[rows] + time] = value
    observations, chosen, log_prob, rewards = columns
    return Episodes(observations, chosen, log_prob, rewards, lengths)


def step_all(
    grid: Grid, keys: KeyArray, times: IntArray, states: IntArray, actions: IntArray
) -> StepOutcome:
    """One step of every episode; `times` and `states` change in place."""
    rewards = np.empty(keys.shape[0])
    terminated, truncated = np.empty((2, keys.shape[0]), dtype=np.bool_)
    advance(grid, keys, times, states, actions, rewards, terminated, truncated)
    return StepOutcome(rewards, terminated, truncated)
