"""Batches of gridworld episodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ove_sb3._validation import as_generator, check_integer

from ..common.checks import check_discrete_actions
from ..common.episodes import Episodes, StepOutcome
from ..common.policies import Policy, draw_actions
from ..common.streams import draw_keys
from ..common.tables import cumulative_table, log_table
from ..common.types import FloatArray, IntArray, KeyArray, Rng
from .kernel import advance, first_states, run_table
from .model import N_ACTIONS, Grid, policy_table

_CHUNK_STEPS = 1 << 25

#: Actions and log-probabilities at a time step, from the running episodes and their states.
ChooseActions = Callable[[int, IntArray, IntArray], tuple[IntArray, FloatArray]]


def simulate(grid: Grid, policy: ArrayLike | Policy, n: int, rng: Rng = None) -> Episodes:
    """Run `n` episodes; see `GridworldEnv.simulate`."""
    n = check_integer(n, "n", 1)
    generator = as_generator(rng)
    keys = draw_keys(generator, n)
    if callable(policy):
        return _run_together(grid, keys, _choose_by_function(policy, generator))
    if np.asarray(policy).dtype.kind in "iu":
        fixed = check_discrete_actions(policy, N_ACTIONS, (n, grid.horizon))
        return _run_together(
            grid, keys, lambda t, running, _: (fixed[running, t], np.zeros(running.shape))
        )
    return _run_table(grid, keys, policy_table(grid, policy), draw_keys(generator, n))


def step_all(
    grid: Grid, keys: KeyArray, times: IntArray, states: IntArray, actions: IntArray
) -> StepOutcome:
    """Step every episode; `times` and `states` are updated in place."""
    rewards = np.empty(keys.shape[0])
    terminated, truncated = np.empty((2, keys.shape[0]), dtype=np.bool_)
    advance(grid, keys, times, states, actions, rewards, terminated, truncated)
    return StepOutcome(rewards, terminated, truncated)


def _choose_by_function(policy: Policy, generator: np.random.Generator) -> ChooseActions:
    def choose(time: int, running: IntArray, states: IntArray) -> tuple[IntArray, FloatArray]:
        actions, log_probs = draw_actions(policy, states, generator)
        return check_discrete_actions(actions, N_ACTIONS, states.shape), log_probs

    return choose


def _run_table(grid: Grid, keys: KeyArray, table: FloatArray, action_keys: KeyArray) -> Episodes:
    """Episodes under a tabular policy, compiled, in chunks that bound the memory."""
    cumulative, log_probabilities = cumulative_table(table), log_table(table)
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
            log_probabilities,
            states,
            actions,
            log_probs,
            rewards,
            lengths[part],
        )
        for column in columns:
            column.resize(used, refcheck=False)  # frees the unused end without a copy
        parts.append(columns)
    joined = parts[0] if len(parts) == 1 else [np.concatenate(c) for c in zip(*parts, strict=True)]
    states, actions, log_probs, rewards = joined
    return Episodes(states, actions, log_probs, rewards, lengths)


def _run_together(grid: Grid, keys: KeyArray, choose: ChooseActions) -> Episodes:
    """Episodes in parallel: all running episodes take each time step together."""
    n = keys.shape[0]
    lengths = np.zeros(n, dtype=np.int64)
    running = np.arange(n)
    states = first_states(grid, keys)
    steps = []
    for time in range(grid.horizon):
        before = states.copy()
        actions, log_probs = choose(time, running, before)
        outcome = step_all(grid, keys[running], np.full(running.shape, time), states, actions)
        steps.append((running, before, actions, log_probs, outcome.rewards))
        lengths[running] += 1
        continues = ~(outcome.terminated | outcome.truncated)
        running, states = running[continues], states[continues]
        if not running.size:
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
