"""The recommender as a batched stable-baselines3 ``VecEnv``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checks import check_discrete_actions
from .episodes import StepOutcome
from .recommender import RecommenderEnv
from .recommender_batch import first_contexts, rewards_of
from .streams import IntArray, KeyArray
from .vector import BatchedVecEnv


class RecommenderVecEnv(BatchedVecEnv):
    """`num_envs` recommenders at once, as a stable-baselines3 ``VecEnv``.

    Environment i seeded with ``seed(s)`` gives the same episodes as one recommender reset with s +
    i.

    Parameters
    ----------
    num_envs
        Number of environments.
    env
        The recommender to repeat; None is the default one.
    """

    def __init__(self, num_envs: int, env: RecommenderEnv | None = None) -> None:
        env = RecommenderEnv() if env is None else env
        self._market = env.market
        super().__init__(num_envs, env)
        self._contexts = np.zeros(num_envs, dtype=np.int64)

    def _begin(self, rows: IntArray, keys: KeyArray) -> None:
        self._contexts[rows] = first_contexts(self._market, keys)

    def _observe(self) -> IntArray:
        return self._contexts.copy()

    def _advance(self, actions: NDArray[Any]) -> StepOutcome:
        items = check_discrete_actions(actions, self._market.means.shape[1], (self.num_envs,))
        rewards = rewards_of(self._market, self._keys, self._contexts, items)
        ended = np.ones(self.num_envs, dtype=np.bool_)
        return StepOutcome(rewards, ended, np.zeros_like(ended))
