"""What the batched environments share: seeds, automatic resets, the manners of a ``VecEnv``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from .checks import check_count
from .episodes import StepOutcome
from .streams import FloatArray, IntArray, KeyArray, draw_keys

_KEYS_AHEAD = 64


class BatchedVecEnv(VecEnv):
    """Copies of one environment stepped together; episodes restart by themselves, as in SB3.

    Environment i has a generator of its own, seeded with ``seed + i`` as in SB3's ``DummyVecEnv``,
    from which it draws one key per episode: its episodes do not depend on the number of its
    neighbours.

    A subclass keeps the states: `_begin` starts new episodes, `_observe` reads all observations,
    `_advance` steps all episodes.

    Parameters
    ----------
    num_envs
        Number of environments.
    env
        The environment they are copies of; attributes such as ``reward_range`` are read from it.
    """

    def __init__(self, num_envs: int, env: gym.Env[Any, Any]) -> None:
        self.env = env
        self.metadata = env.metadata
        self._actions: NDArray[Any] | None = None
        n = check_count("num_envs", num_envs)
        self._generators: list[np.random.Generator | None] = [None] * n
        self._ahead = np.zeros((n, _KEYS_AHEAD), dtype=np.uint64)
        self._taken = np.full(n, _KEYS_AHEAD)
        self._keys = np.zeros(n, dtype=np.uint64)
        self._has_begun = False
        super().__init__(n, env.observation_space, env.action_space)

    @abstractmethod
    def _begin(self, rows: IntArray, keys: KeyArray) -> None:
        """Start the episodes `keys` in the environments `rows`, both (m,)."""

    @abstractmethod
    def _observe(self) -> NDArray[Any]:
        """A copy of the current observations, (num_envs, ...)."""

    @abstractmethod
    def _advance(self, actions: NDArray[Any]) -> StepOutcome:
        """Step every episode."""

    def reset(self) -> NDArray[Any]:
        """Begin an episode everywhere; seeds given by `seed` take effect here."""
        for row, seed in enumerate(self._seeds):
            if seed is not None or self._generators[row] is None:
                self._generators[row] = seeding.np_random(seed)[0]
                self._taken[row] = _KEYS_AHEAD
        self._reset_seeds()
        self._reset_options()
        self._restart(np.arange(self.num_envs))
        self.reset_infos = [{"key": int(key)} for key in self._keys]
        self._has_begun = True
        return self._observe()

    def step_async(self, actions: NDArray[Any]) -> None:
        """Take the actions, one per environment."""
        self._actions = np.asarray(actions)

    def step_wait(self) -> tuple[NDArray[Any], FloatArray, NDArray[np.bool_], list[dict[str, Any]]]:
        """Step; an ended episode's last observation is in its info, a new episode has begun."""
        if self._actions is None or not self._has_begun:
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
        """Begin the next episode of each of the environments `rows`."""
        for row in rows[self._taken[rows] == _KEYS_AHEAD]:
            generator = self._generators[row]
            assert generator is not None  # `reset` made one for every row
            self._ahead[row] = draw_keys(generator, _KEYS_AHEAD)
            self._taken[row] = 0
        keys = self._ahead[rows, self._taken[rows]]
        self._taken[rows] += 1
        self._keys[rows] = keys
        self._begin(rows, keys)

    def close(self) -> None:
        """Nothing to free."""

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[Any]:
        """The attribute of the environment they are copies of, once per index."""
        return [getattr(self.env, attr_name) for _ in self._get_indices(indices)]

    def set_attr(
        self, attr_name: str, value: Any, indices: int | Iterable[int] | None = None
    ) -> None:
        """Refused: the copies share one environment."""
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
        """Call a method of the environment they are copies of, once per index."""
        method = getattr(self.env, method_name)
        return [method(*method_args, **method_kwargs) for _ in self._get_indices(indices)]

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: Any = None
    ) -> list[bool]:
        """No copy is wrapped."""
        return [False for _ in self._get_indices(indices)]

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """Refused: the copies have no pictures."""
        raise NotImplementedError(
            f"{type(self).__name__} draws nothing. Render the single environment: reset it with "
            "the seed of the copy you want to see."
        )
