"""Wrappers that carry something over from one episode to the next ones."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from stable_baselines3.common.atari_wrappers import EpisodicLifeEnv
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper

from ove_sb3._versions import known_classes

from .vector_env import GymnasiumVecEnv

_WRAPPERS = (gym.Wrapper, *known_classes(gym.vector, "VectorWrapper", "VectorEnvWrapper"))
_NORMALIZING = ("NormalizeObservation", "NormalizeReward")
_DEPENDENT = (
    EpisodicLifeEnv,
    *known_classes(gym.wrappers, *_NORMALIZING),
    *known_classes(getattr(gym.wrappers, "vector", None), *_NORMALIZING),
)
_SWITCH = "update_running_mean"
_ATTRIBUTES = (_SWITCH, "was_real_done")  # of these wrappers alone


class ChangingEnvironment:
    """Wrappers around environments that make an episode depend on earlier ones.

    These are wrappers of gymnasium with running statistics, whose updates can be switched on and
    off at any time, and EpisodicLifeEnv of stable-baselines3, where an episode goes on where the
    last one lost a life. In other processes the switch is out of sight, and running statistics
    count as updated.

    Parameters
    ----------
    env : gymnasium.Env or VecEnv
    """

    def __init__(self, env: gym.Env[Any, Any] | VecEnv) -> None:
        inner: Any = env
        while isinstance(inner, VecEnvWrapper):
            inner = inner.venv
        local = [inner] if isinstance(inner, gym.Env) else list(getattr(inner, "envs", ()))
        if isinstance(inner, GymnasiumVecEnv):
            local.append(inner.env)
        self._wrappers = [wrapper for one in local for wrapper in _dependent_wrappers(one)]
        self._elsewhere = isinstance(inner, VecEnv) and _any_elsewhere(inner)

    @property
    def changes(self) -> bool:
        """Whether a step or a reset changes later episodes now."""
        return self._elsewhere or (
            bool(self._wrappers) and any(_is_active(wrapper) for wrapper in self._wrappers)
        )


def _dependent_wrappers(env: Any) -> list[Any]:
    wrappers = []
    while isinstance(env, _WRAPPERS):
        wrapper: Any = env
        if isinstance(wrapper, _DEPENDENT):
            wrappers.append(wrapper)
        env = wrapper.env
    return wrappers


def _is_active(wrapper: Any) -> bool:
    """Whether it is switched on; statistics could not be switched off before gymnasium 1.0."""
    return not hasattr(type(wrapper), _SWITCH) or bool(wrapper.update_running_mean)


def _any_elsewhere(venv: VecEnv) -> bool:
    """Whether environments in other processes have such a wrapper, as far as they tell."""
    if hasattr(venv, "envs"):
        return False
    if isinstance(venv, GymnasiumVecEnv):
        inner: Any = venv.env.unwrapped
        # Before gymnasium 1.0 the question would stop the processes.
        if isinstance(inner, gym.vector.AsyncVectorEnv) and hasattr(gym.Env, "has_wrapper_attr"):
            return any(any(inner.call("has_wrapper_attr", name)) for name in _ATTRIBUTES)
        return False
    try:
        return any(any(venv.env_is_wrapped(kind)) for kind in _DEPENDENT)
    except (AttributeError, NotImplementedError):
        return False
