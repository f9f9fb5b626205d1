"""Base class of the batched environments: seeding, automatic resets, ``VecEnv`` interface."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from ove_sb3._validation import check_integer

from .episodes import StepOutcome
from .streams import draw_keys
from .types import FloatArray, IntArray, KeyArray

_KEYS_PER_DRAW = 64


class BatchedVecEnv(VecEnv):
    """Copies of one environment that are stepped together and reset automatically, as in SB3.

    Environment i has its own generator, seeded with ``seed + i`` as in SB3's ``DummyVecEnv``, from
    which it draws one key per episode. Its episodes therefore do not depend on `num_envs`.

    A subclass stores the states and implements `_begin`, `_observe` and `_advance`.

    Parameters
    ----------
    num_envs
        Number of environments.
    env
        Environment to copy; attributes such as ``reward_range`` are read from it.
    """

    def __init__(self, num_envs: int, env: gym.Env[Any, Any]) -> None:
        self.env = env
        self.metadata = env.metadata
        self._actions: NDArray[Any] | None = None
        n = check_integer(num_envs, "num_envs", 1)
        self._generators: list[np.random.Generator | None] = [None] * n
        self._drawn_keys = np.zeros((n, _KEYS_PER_DRAW), dtype=np.uint64)
        self._n_used = np.full(n, _KEYS_PER_DRAW)
        self._keys = np.zeros(n, dtype=np.uint64)
        self._has_started = False
        super().__init__(n, env.observation_space, env.action_space)

    @abstractmethod
    def _begin(self, rows: IntArray, keys: KeyArray) -> None:
        """Start the episodes `keys` in the environments `rows`, both (m,)."""

    @abstractmethod
    def _observe(self) -> NDArray[Any]:
        """Copy of the current observations, (num_envs, ...)."""

    @abstractmethod
    def _advance(self, actions: NDArray[Any]) -> StepOutcome:
        """Step every episode with its action."""

    def reset(self) -> NDArray[Any]:
        """Start an episode in every environment; seeds set by `seed` take effect here."""
        for row, seed in enumerate(self._seeds):
            if seed is not None or self._generators[row] is None:
                self._generators[row] = seeding.np_random(seed)[0]
                self._n_used[row] = _KEYS_PER_DRAW
        self._reset_seeds()
        self._reset_options()
        self._restart(np.arange(self.num_envs))
        self.reset_infos = [{"key": int(key)} for key in self._keys]
        self._has_started = True
        return self._observe()

    def step_async(self, actions: NDArray[Any]) -> None:
        """Store the actions, one per environment."""
        self._actions = np.asarray(actions)

    def step_wait(self) -> tuple[NDArray[Any], FloatArray, NDArray[np.bool_], list[dict[str, Any]]]:
        """Step every environment and reset those whose episode has ended."""
        if self._actions is None or not self._has_started:
            raise gym.error.ResetNeeded("Call `reset` before the first `step`.")
        outcome = self._advance(self._actions)
        self._actions = None
        dones = outcome.terminated | outcome.truncated
        observations = self._observe()
        ended = np.flatnonzero(dones)
        if not ended.size:
            return observations, outcome.rewards, dones, [{} for _ in range(self.num_envs)]
        limits = outcome.truncated[ended].tolist()
        last: list[dict[str, Any]] = [
            {"terminal_observation": observation, "TimeLimit.truncated": limit}
            for observation, limit in zip(observations[ended], limits, strict=True)
        ]
        self._restart(ended)
        if ended.size == self.num_envs:
            return self._observe(), outcome.rewards, dones, last
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for row, info in zip(ended.tolist(), last, strict=True):
            infos[row] = info
        return self._observe(), outcome.rewards, dones, infos

    def _restart(self, rows: IntArray) -> None:
        """Start the next episode in the environments `rows`."""
        for row in rows[self._n_used[rows] == _KEYS_PER_DRAW]:
            generator = self._generators[row]
            assert generator is not None  # set by `reset`
            self._drawn_keys[row] = draw_keys(generator, _KEYS_PER_DRAW)
            self._n_used[row] = 0
        keys = self._drawn_keys[rows, self._n_used[rows]]
        self._n_used[rows] += 1
        self._keys[rows] = keys
        self._begin(rows, keys)

    def close(self) -> None:
        """Do nothing; there are no resources to release."""

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[Any]:
        """Attribute of the copied environment, once per index."""
        return [getattr(self.env, attr_name) for _ in self._get_indices(indices)]

    def set_attr(
        self, attr_name: str, value: Any, indices: int | Iterable[int] | None = None
    ) -> None:
        """Raise `NotImplementedError`: the copies share one environment."""
        raise NotImplementedError(
            f"Cannot set {attr_name!r}: the copies share one environment. Build a new "
            f"{type(self).__name__} from an environment with the value you want."
        )

    def env_method(
        self,
        method_name: str,
        *method_args: Any,
        indices: int | Iterable[int] | None = None,
        **method_kwargs: Any,
    ) -> list[Any]:
        """Call a method of the copied environment, once per index."""
        method = getattr(self.env, method_name)
        return [method(*method_args, **method_kwargs) for _ in self._get_indices(indices)]

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: Any = None
    ) -> list[bool]:
        """False for every index: the copies are not wrapped."""
        return [False for _ in self._get_indices(indices)]

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """Raise `NotImplementedError`: the copies cannot be rendered."""
        raise NotImplementedError(
            f"{type(self).__name__} does not render. Render a single environment reset with the "
            "seed of the copy instead."
        )
