"""Batched gridworlds as a stable-baselines3 ``VecEnv``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..common.checks import check_discrete_actions
from ..common.episodes import StepOutcome
from ..common.types import IntArray, KeyArray
from ..common.vec_env import BatchedVecEnv
from .env import GridworldEnv
from .kernel import first_states
from .model import N_ACTIONS
from .simulation import step_all


class GridworldVecEnv(BatchedVecEnv):
    """Batch of gridworlds stepped together in compiled code.

    After ``seed(s)``, environment i has the same episodes as a `GridworldEnv` reset with s + i.

    Parameters
    ----------
    num_envs
        Number of environments.
    env
        Gridworld to copy; None for the default one.
    """

    def __init__(self, num_envs: int, env: GridworldEnv | None = None) -> None:
        env = GridworldEnv() if env is None else env
        super().__init__(num_envs, env)
        self._grid = env.grid
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
