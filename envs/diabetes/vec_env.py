"""Batched diabetes environments as a stable-baselines3 ``VecEnv``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ove_sb3._validation import check_integer

from ..common.episodes import StepOutcome
from ..common.types import IntArray, KeyArray
from ..common.vec_env import BatchedVecEnv
from .actions import check_actions
from .env import DiabetesEnv


class DiabetesVecEnv(BatchedVecEnv):
    """Batch of diabetes environments; one step is one day in each.

    After ``seed(s)``, environment i has the same days as a `DiabetesEnv` reset with s + i.

    Parameters
    ----------
    num_envs
        Number of environments.
    env
        Environment to copy; None for the default one.
    n_threads
        Number of threads; the result does not depend on it.
    """

    def __init__(self, num_envs: int, env: DiabetesEnv | None = None, n_threads: int = 1) -> None:
        self._model = DiabetesEnv() if env is None else env
        self._n_threads = check_integer(n_threads, "n_threads", 1)
        super().__init__(num_envs, self._model)

    def _begin(self, rows: IntArray, keys: KeyArray) -> None:
        """Do nothing: a day is determined by its key, which the base class stores."""

    def _observe(self) -> NDArray[np.float32]:
        return np.ones((self.num_envs, 1), dtype=np.float32)

    def _advance(self, actions: NDArray[Any]) -> StepOutcome:
        model = self._model
        checked = check_actions(actions, self.num_envs, model.clip_actions)
        rewards = model.days.returns(self._keys, model.dosing.ratios(checked), self._n_threads)
        return StepOutcome.all_terminated(rewards)
