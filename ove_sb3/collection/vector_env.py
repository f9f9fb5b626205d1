"""Environments of `gymnasium.vector` as a VecEnv of stable-baselines3."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

from ove_sb3.errors import InvalidInputError
from ove_sb3.policies.observations import copy_observations, take_rows

NEXT_STEP, SAME_STEP, DISABLED = "NextStep", "SameStep", "Disabled"
MASK_METHOD = "action_masks"
_FINAL_OBSERVATIONS = ("final_obs", "final_observation")  # since gymnasium 1.0, and before


class GymnasiumVecEnv(VecEnv):
    """A `gymnasium.vector.VectorEnv` with the interface of a VecEnv.

    An environment that resets itself in the step after the end of an episode ignores the action of
    that step. `restarting` marks such environments; their step belongs to no episode.

    Parameters
    ----------
    env : gymnasium.vector.VectorEnv
        With any autoreset mode. It is not closed with this one.

    Attributes
    ----------
    restarting : ndarray of bool, (n_envs,)
        Environments that ignore the next action.
    started : ndarray of bool, (n_envs,)
        Environments whose last observation is the first of an episode.
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        self.env = env
        self.mode = _autoreset_mode(env)
        self.restarting = np.zeros(env.num_envs, dtype=np.bool_)
        self.started = np.ones(env.num_envs, dtype=np.bool_)
        if isinstance(inner := getattr(env.unwrapped, "envs", None), (list, tuple)):
            self.envs = inner  # in this process
        self._actions: Any = None
        self._infos: list[dict[str, Any]] = [{} for _ in range(env.num_envs)]
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> Any:
        """Begin new episodes in all environments."""
        observations, _ = self.env.reset(seed=self._seeds[0])
        self._reset_seeds()
        self.restarting = np.zeros(self.num_envs, dtype=np.bool_)
        self.started = np.ones(self.num_envs, dtype=np.bool_)
        return observations

    def step_async(self, actions: Any) -> None:
        """Keep the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Step all environments; those that ended are reset as `mode` says."""
        observations, rewards, terminated, truncated, infos = self.env.step(self._actions)
        terminated, truncated = (np.array(ends, dtype=np.bool_) for ends in (terminated, truncated))
        dones = terminated | truncated
        ignored = self.restarting
        if infos:
            for i in np.flatnonzero(~ignored).tolist():  # the others keep that of their last step
                self._infos[i] = _info_of(infos, i)
        else:
            self._infos = [
                info if skipped else {}
                for info, skipped in zip(self._infos, ignored.tolist(), strict=True)
            ]
        for i in np.flatnonzero(dones).tolist():
            final, info = self._final(observations, infos, i)
            self._infos[i] = {
                **info,
                "terminal_observation": final,
                "terminated": bool(terminated[i]),
                "TimeLimit.truncated": bool(truncated[i]),
            }
        if self.mode == DISABLED and dones.any():
            observations, _ = self.env.reset(options={"reset_mask": dones.copy()})
        if self.mode == NEXT_STEP:
            self.restarting, self.started = dones, ignored
        else:
            self.started = dones
        return observations, np.array(rewards, dtype=np.float64), dones, list(self._infos)

    def _final(
        self, observations: Any, infos: Mapping[str, Any], i: int
    ) -> tuple[Any, dict[str, Any]]:
        """Last observation of an episode, None if unknown, and its info."""
        if self.mode != SAME_STEP:
            return copy_observations(take_rows(observations, i)), self._infos[i]
        finals = [infos[name] for name in _FINAL_OBSERVATIONS if name in infos]
        final = finals[0] if finals else None
        last = infos.get("final_info")
        if isinstance(last, Mapping):
            info = _info_of(last, i)
        else:
            info = dict(last[i]) if last is not None and last[i] is not None else self._infos[i]
        return None if final is None else take_rows(final, i), info

    def close(self) -> None:
        """Leave the environment open: it belongs to the caller."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Attribute of every environment, or that of all of them together."""
        if hasattr(self, "envs"):
            values = [_attribute(env, attr_name) for env in self.envs]
        elif (of_all := _call(self.env, attr_name)) is not None:
            values = list(of_all)
        else:
            values = [getattr(self.env, attr_name)] * self.num_envs
        return [values[i] for i in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Not needed for logging."""
        raise NotImplementedError

    def env_method(
        self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any
    ) -> list[Any]:
        """Call a method of every environment."""
        values: Sequence[Any]
        if hasattr(self, "envs"):
            methods: Iterable[Callable[..., Any]] = (
                _attribute(env, method_name) for env in self.envs
            )
            values = [method(*args, **kwargs) for method in methods]
        else:
            values = list(self.env.call(method_name, *args, **kwargs))  # type: ignore[attr-defined]
        if method_name == MASK_METHOD:  # nothing may be allowed any more when an episode has ended
            values = [
                np.ones_like(mask) if ended else mask
                for mask, ended in zip(values, self.restarting, strict=True)
            ]
        return [values[i] for i in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Whether every environment has a wrapper; unknown in other processes."""
        raise NotImplementedError


def _attribute(env: gym.Env[Any, Any], name: str) -> Any:
    """Attribute of an environment or of one that it wraps."""
    while not hasattr(env, name) and isinstance(env, gym.Wrapper):
        env = env.env
    return getattr(env, name)


def _call(env: gym.vector.VectorEnv[Any, Any, Any], name: str) -> Sequence[Any] | None:
    """Attribute of every environment; None if `env` has it for all of them together.

    Before gymnasium 1.0 every vectorized environment has a method `call`, which does nothing in
    the base class.
    """
    call: Callable[[str], Sequence[Any] | None] | None = getattr(env, "call", None)
    return None if call is None else call(name)


def _autoreset_mode(env: gym.vector.VectorEnv[Any, Any, Any]) -> str:
    """When the environments reset themselves: a name of gymnasium's AutoresetMode."""
    stated = (env.metadata or {}).get("autoreset_mode")
    if stated is not None:
        name = str(getattr(stated, "value", stated))
        if name in (NEXT_STEP, SAME_STEP, DISABLED):
            return name
    release = tuple(int(part) for part in gym.__version__.split(".")[:2])
    if stated is None and release < (1, 1):  # before the mode could be chosen
        return SAME_STEP if release < (1, 0) else NEXT_STEP
    raise InvalidInputError(
        "`env` must say when it resets itself, in metadata['autoreset_mode'], got "
        f"{stated!r}. Set it to a gymnasium.vector.AutoresetMode."
    )


def _info_of(infos: Mapping[str, Any], i: int) -> dict[str, Any]:
    """Info of one environment, from those of all."""
    info: dict[str, Any] = {}
    for name, values in infos.items():
        there: NDArray[np.bool_] | None = infos.get(f"_{name}")
        if there is None and (name.startswith("_") or isinstance(values, (str, bytes))):
            continue
        if there is not None and not there[i]:
            continue
        if isinstance(values, Mapping):
            info[name] = _info_of(values, i)
        elif np.ndim(values) and len(values) > i:
            info[name] = values[i]
    return info
