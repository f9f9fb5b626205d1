"""The diabetes environment as a batched stable-baselines3 ``VecEnv``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checks import check_count
from .diabetes import DiabetesEnv
from .diabetes_actions import check_actions
from .episodes import StepOutcome
from .streams import IntArray, KeyArray
from .vector import BatchedVecEnv


class DiabetesVecEnv(BatchedVecEnv):
    """`num_envs` patients at once, as a stable-baselines3 ``VecEnv``; a step is a day of each.

    Environment i seeded with ``seed(s)`` gives the same days as one environment reset with s + i.

    Parameters
    ----------
    num_envs
        Number of environments.
    env
        The environment to repeat; None is the default one.
    n_threads
        Threads to share the days among; the result does not depend on it.
    """

    def __init__(self, num_envs: int, env: DiabetesEnv | None = None, n_threads: int = 1) -> None:
        self._model = DiabetesEnv() if env is None else env
        self._n_threads = check_count("n_threads", n_threads)
        super().__init__(num_envs, self._model)

    def _begin(self, rows: IntArray, keys: KeyArray) -> None:
        """Nothing but the key, which the base class keeps, tells one midnight from another."""

    def _observe(self) -> NDArray[np.float32]:
        return np.ones((self.num_envs, 1), dtype=np.float32)

    def _advance(self, actions: NDArray[Any]) -> StepOutcome:
        model = self._model
        checked = check_actions(actions, self.num_envs, model.clip_actions)
        ratios = model.dosing.ratios(checked)
        rewards = model.days.returns(self._keys, ratios, self._n_threads)
        ended = np.ones(self.num_envs, dtype=np.bool_)
        return StepOutcome(rewards, ended, np.zeros_like(ended))
