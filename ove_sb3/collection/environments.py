"""Environments as vectorized ones: their horizon, action masks, normalizer and metadata."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from types import FrameType
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecEnv,
    VecEnvWrapper,
    VecNormalize,
    VecTransposeImage,
)

from ove_sb3._versions import library_versions
from ove_sb3.data.metadata import Metadata, describe_space
from ove_sb3.errors import InvalidInputError
from ove_sb3.policies.observations import copy_observations, is_image_space
from ove_sb3.policies.policy import Policy

from .vector_env import MASK_METHOD, GymnasiumVecEnv

_WORKERS = ("_worker", "_async_worker")
_WORKER_MODULES = (
    "stable_baselines3.common.vec_env.subproc_vec_env",
    "gymnasium.vector.async_vector_env",
)
DEFAULT_N_ENVS = 8  # on every machine: the episodes that a seed gives depend on it


def as_vec_env(env: Any, n_envs: int | None, n_episodes: int) -> tuple[VecEnv, bool]:
    """`env` as a VecEnv, and whether it was created here and must be closed."""
    if isinstance(env, str):
        n_envs = min(DEFAULT_N_ENVS, n_episodes) if n_envs is None else n_envs
        return DummyVecEnv([_maker(env) for _ in range(n_envs)]), True
    if n_envs not in (None, 1):
        raise InvalidInputError(
            f"`n_envs` must be 1 unless `env` is a gymnasium id, got {n_envs}. Pass a VecEnv."
        )
    if isinstance(env, VecEnv):
        return env, False
    if isinstance(env, gym.vector.VectorEnv):
        return GymnasiumVecEnv(env), False
    if isinstance(env, gym.Env):
        return DummyVecEnv([lambda: _CopiedOutputs(env)]), False
    raise InvalidInputError(
        "`env` must be a gymnasium id, a gymnasium.Env, a gymnasium.vector.VectorEnv or a "
        f"stable-baselines3 VecEnv, got {type(env).__name__}. Wrap several environments in "
        "DummyVecEnv or SubprocVecEnv."
    )


def _maker(env_id: str) -> Any:
    return lambda: _CopiedOutputs(gym.make(env_id))


class _CopiedOutputs(gym.Wrapper[Any, Any, Any, Any]):
    """Copies all observations and infos of an environment.

    DummyVecEnv resets an environment before anyone has seen its final observation and info, which
    are lost if the environment reuses them.
    """

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return copy_observations(observation), dict(info)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return copy_observations(observation), reward, terminated, truncated, dict(info)


def split_normalizer(venv: VecEnv) -> tuple[VecEnv, VecNormalize | None]:
    """The environment that returns original observations and rewards, and its VecNormalize.

    Image transposition is removed as well, because policies transpose images themselves.
    """
    normalizer = None
    while isinstance(venv, (VecTransposeImage, VecNormalize)):
        if isinstance(venv, VecNormalize):
            if normalizer is not None:
                raise InvalidInputError(
                    "`env` must have at most one VecNormalize, got one around another: "
                    "probabilities are computed from observations that one has normalized. Train "
                    "again, and use one VecNormalize, with norm_obs and norm_reward."
                )
            normalizer = venv
        venv = venv.venv
    inner = venv
    while isinstance(inner, VecEnvWrapper):
        inner = inner.venv
        if isinstance(inner, VecNormalize):
            raise InvalidInputError(
                "`env` must have VecNormalize as its outermost wrapper, got "
                f"{type(venv).__name__} around it: the original observations would be lost. Stack "
                "or transform first, then normalize."
            )
    return venv, normalizer


def check_spaces(policy: Policy, env: Any, remedy: str) -> None:
    """Refuse a policy that was made for other spaces than those of `env`."""
    ours, theirs = describe_space(policy.action_space), describe_space(env.action_space)
    if ours != theirs:
        raise InvalidInputError(
            f"`model` must have the action space of `env`, {theirs}, got {ours}. {remedy}"
        )
    describe_space(env.observation_space)  # refuses those that cannot be logged
    space: gym.Space[Any] | None = policy.observation_space
    if space is not None and not _compatible(space, env.observation_space):
        raise InvalidInputError(
            f"`model` must have the observation space of `env`, {env.observation_space}, got "
            f"{space}. {remedy}"
        )


def _compatible(ours: gym.Space[Any], theirs: gym.Space[Any]) -> bool:
    """Whether a policy for one space accepts observations of the other; bounds do not matter."""
    if isinstance(ours, gym.spaces.Dict) and isinstance(theirs, gym.spaces.Dict):
        return set(ours.spaces) == set(theirs.spaces) and all(
            _compatible(ours[key], theirs[key]) for key in ours.spaces
        )
    if not (isinstance(ours, gym.spaces.Box) and isinstance(theirs, gym.spaces.Box)):
        return describe_space(ours) == describe_space(theirs)
    if ours.shape == theirs.shape:
        return True
    moved = (theirs.shape[-1:] + theirs.shape[:-1], theirs.shape[1:] + theirs.shape[:1])
    return is_image_space(ours) and ours.shape in moved  # policies transpose images themselves


def n_parallel_envs() -> int:
    """Number of environments in the vectorized one that is stepping the caller; 1 without one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in ("step", "step_wait", "step_async"):
            owner = frame.f_locals.get("self")
            if isinstance(owner, (VecEnv, gym.vector.VectorEnv)) and owner.num_envs > 1:
                return int(owner.num_envs)
        frame = frame.f_back
    return 1


def in_worker() -> bool:
    """Whether the caller runs in a process of a vectorized environment, which steps others too."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in _WORKERS and frame.f_globals.get("__name__") in _WORKER_MODULES:
            return True
        frame = frame.f_back
    return False


def has_masks(venv: VecEnv) -> bool:
    """Whether the environments provide action masks."""
    try:
        return bool(venv.has_attr(MASK_METHOD))
    except AttributeError:
        return False


def read_masks(venv: VecEnv) -> NDArray[np.bool_]:
    """Action masks of all environments, (n_envs, n_choices)."""
    if not has_masks(venv):
        raise missing_masks()
    return stack_masks(venv.env_method(MASK_METHOD))


def stack_masks(masks: Iterable[Any]) -> NDArray[np.bool_]:
    """Action masks of one environment each, as one array, (n_envs, n_choices)."""
    return np.stack([np.asarray(mask, dtype=np.bool_).ravel() for mask in masks])


def missing_masks() -> InvalidInputError:
    """Error about an environment without action masks."""
    return InvalidInputError(
        f"`env` must have a method `{MASK_METHOD}` for a policy with action masks. Add it, or wrap "
        "the environment in sb3_contrib's ActionMasker."
    )


def n_choices(space: gym.Space[Any]) -> int:
    """Number of entries of an action mask."""
    if isinstance(space, gym.spaces.Discrete):
        return int(space.n)
    if isinstance(space, gym.spaces.MultiDiscrete):
        return int(np.sum(space.nvec))
    return 2 * int(np.prod(space.shape or ()))


def metadata_of(
    venv: VecEnv,
    *,
    seed: int | None = None,
    n_envs: int | None = None,
    reward_range: tuple[float, float] | None = None,
    behavior: str | None = None,
    fingerprint: str | None = None,
    components: Sequence[Mapping[str, Any]] = (),
) -> Metadata:
    """Metadata of a log of `venv`."""
    return Metadata(
        **_env_metadata(venv, _spec(venv), _horizon(venv)),
        seed=seed,
        n_envs=n_envs,
        reward_range=reward_range,
        behavior=behavior,
        fingerprint=fingerprint,
        components=tuple(components),
    )


def metadata_of_env(
    env: gym.Env[Any, Any], *, reward_range: tuple[float, float] | None = None
) -> Metadata:
    """Metadata of a log of a single environment."""
    return Metadata(
        **_env_metadata(env, env.spec, _limit(env)),
        reward_range=reward_range,
    )


def _env_metadata(env: Any, spec: Any, horizon: int | None) -> dict[str, Any]:
    return {
        "env_id": getattr(spec, "id", None),
        "horizon": horizon,
        "observation_space": describe_space(env.observation_space),
        "action_space": describe_space(env.action_space),
        "versions": library_versions(),
    }


def _spec(venv: VecEnv) -> Any:
    try:
        specs = venv.get_attr("spec")
    except (AttributeError, NotImplementedError):
        return None
    ids = {getattr(spec, "id", None) for spec in specs}
    return specs[0] if len(ids) == 1 else None


def _limit(env: Any) -> int | None:
    """Smallest limit on the steps of an episode among the environment's spec and wrappers."""
    limits = [getattr(env.spec, "max_episode_steps", None)]
    while isinstance(env, gym.Wrapper):
        if isinstance(env, gym.wrappers.TimeLimit):
            limits.append(env._max_episode_steps)
        env = env.env
    return min((int(limit) for limit in limits if limit is not None), default=None)


def _horizon(venv: VecEnv) -> int | None:
    """Largest limit of the environments; None unless all have one."""
    inner: Any = venv
    while isinstance(inner, VecEnvWrapper):
        inner = inner.venv
    local = hasattr(inner, "envs")
    limits = [_limit(env) for env in inner.envs] if local else _remote_limits(venv)
    known = [limit for limit in limits if limit is not None]
    return max(known) if known and len(known) == len(limits) else None


def _remote_limits(venv: VecEnv) -> list[int | None]:
    """Limits of environments in other processes."""
    try:
        limits = [getattr(spec, "max_episode_steps", None) for spec in venv.get_attr("spec")]
        if None in limits and all(venv.env_is_wrapped(gym.wrappers.TimeLimit)):
            limits = venv.get_attr("_max_episode_steps")
    except (AttributeError, NotImplementedError):
        return []
    return [None if limit is None else int(limit) for limit in limits]


def known_seeds(seeds: Any) -> list[int]:
    """The seeds among `seeds`, which may hold None."""
    seeds = seeds if isinstance(seeds, (list, tuple)) else []
    return [int(seed) for seed in seeds if isinstance(seed, (int, np.integer))]


def seeds_at_reset(venv: VecEnv) -> list[int]:
    """Seeds that the next reset passes to the environments; empty if they are not seeded."""
    return known_seeds(getattr(venv.unwrapped, "_seeds", None))


def stack_observations(observations: Sequence[Any]) -> Any:
    """Arrays, or dicts of arrays, stacked along a new first axis."""
    if isinstance(observations[0], Mapping):
        return {key: np.stack([row[key] for row in observations]) for key in observations[0]}
    return np.stack(observations)
