"""The gridworld as a batched stable-baselines3 ``VecEnv``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checks import check_discrete_actions
from .episodes import StepOutcome
from .gridworld import GridworldEnv
from .gridworld_batch import step_all
from .gridworld_kernel import N_ACTIONS, first_states
from .streams import IntArray, KeyArray
from .vector import BatchedVecEnv


class GridworldVecEnv(BatchedVecEnv):
    """`num_envs` gridworlds stepped together in compiled code, as a stable-baselines3 ``VecEnv``.

    Environment i seeded with ``seed(s)`` gives the same episodes as one gridworld reset with s + i.

    Parameters
    ----------
    num_envs
        Number of environments.
    env
        The gridworld to repeat; None is the default one.
    """

    def __init__(self, num_envs: int, env: GridworldEnv | None = None) -> None:
        env = GridworldEnv() if env is None else env
        self._grid = env.grid
        super().__init__(num_envs, env)
        self._states = np.zeros(num_envs, dtype=np.int64)
        self._times = np.zeros(num_envs, dtype=np.int64)

    def _begin(self, rows: IntArray, keys: KeyArray) -> None:
        self._states[rows] = first_states(self._grid, keys)
        self._times[rows] = 0

    def _observe(self) -> IntArray:
        return self._states.copy()

    def _advance(self, actions: NDArray[Any]) -> StepOutcome:
        checked = check_discrete_actions(actions, N_ACTIONS, (self.num_envs,))
        return step_all(self._grid, self._keys, self._times, self._states, checked)
