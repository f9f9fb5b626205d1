"""Batched recommenders as a stable-baselines3 ``VecEnv``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..common.checks import check_discrete_actions
from ..common.episodes import StepOutcome
from ..common.types import IntArray, KeyArray
from ..common.vec_env import BatchedVecEnv
from .env import RecommenderEnv
from .model import draw_contexts, draw_rewards


class RecommenderVecEnv(BatchedVecEnv):
    """Batch of recommenders.

    After ``seed(s)``, environment i has the same episodes as a `RecommenderEnv` reset with s + i.

    Parameters
    ----------
    num_envs
        Number of environments.
    env
        Recommender to copy; None for the default one.
    """

    def __init__(self, num_envs: int, env: RecommenderEnv | None = None) -> None:
        env = RecommenderEnv() if env is None else env
        super().__init__(num_envs, env)
        self._market = env.market
        self._contexts = np.zeros(num_envs, dtype=np.int64)

    def _begin(self, rows: IntArray, keys: KeyArray) -> None:
        self._contexts[rows] = draw_contexts(self._market, keys)

    def _observe(self) -> IntArray:
        return self._contexts.copy()

    def _advance(self, actions: NDArray[Any]) -> StepOutcome:
        items = check_discrete_actions(actions, self._market.means.shape[1], (self.num_envs,))
        rewards = draw_rewards(self._market, self._keys, self._contexts, items)
        return StepOutcome.all_terminated(rewards)
