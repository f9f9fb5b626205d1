"""What is asked of environments: one VecEnv of any kind, its horizon, masks and normaliser."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

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

from ove_sb3.core.errors import InvalidInputError
from ove_sb3.data.metadata import Metadata, describe_space

MASK_METHOD = "action_masks"


def as_vec_env(env: Any, n_envs: int) -> tuple[VecEnv, bool]:
    """`env` as a VecEnv, and whether it was made here and must be closed."""
    if isinstance(env, str):
        return DummyVecEnv([_maker(env) for _ in range(n_envs)]), True
    if n_envs != 1:
        raise InvalidInputError(
            f"`n_envs` must be 1 unless `env` is a gymnasium id, got {n_envs}. Pass a VecEnv."
        )
    if isinstance(env, VecEnv):
        return env, False
    if isinstance(env, gym.Env):
        return DummyVecEnv([lambda: env]), False
    raise InvalidInputError(
        "`env` must be a gymnasium id, a gymnasium.Env or a stable-baselines3 VecEnv, got "
        f"{type(env).__name__}. Wrap several environments in DummyVecEnv or SubprocVecEnv."
    )


def _maker(env_id: str) -> Any:
    return lambda: gym.make(env_id)


def split_normalizer(venv: VecEnv) -> tuple[VecEnv, VecNormalize | None]:
    """The environment that gives original observations and rewards, and the normaliser above it.

    Image transposition is taken off as well: policies transpose by themselves.
    """
    normalizer = None
    while isinstance(venv, (VecTransposeImage, VecNormalize)):
        if isinstance(venv, VecNormalize):
            normalizer = venv
        venv = venv.venv
    inner = venv
    while isinstance(inner, VecEnvWrapper):
        inner = inner.venv
        if isinstance(inner, VecNormalize):
            raise InvalidInputError(
                "`env` must have VecNormalize as its outermost wrapper, got "
                f"{type(venv).__name__} around it: the original observations would be lost. Stack "
                "or transform first, then normalise."
            )
    return venv, normalizer


def has_masks(venv: VecEnv) -> bool:
    """Whether the environments tell which actions are valid."""
    try:
        return bool(venv.has_attr(MASK_METHOD))
    except AttributeError:
        return False


def read_masks(venv: VecEnv) -> NDArray[np.bool_]:
    """The masks of all environments, (n_envs, n_choices)."""
    if not has_masks(venv):
        raise InvalidInputError(
            "`env` must have a method `action_masks` for a policy that is masked. Add it, or wrap "
            "the environment in sb3_contrib's ActionMasker."
        )
    masks = venv.env_method(MASK_METHOD)
    return np.stack([np.asarray(mask, dtype=np.bool_).ravel() for mask in masks])


def metadata_of(
    venv: VecEnv,
    *,
    seed: int | None = None,
    reward_range: tuple[float, float] | None = None,
    n_envs: int | None = None,
    behavior: str | None = None,
    fingerprint: str | None = None,
) -> Metadata:
    """What a log of `venv` carries besides its numbers."""
    return Metadata(
        **_known(venv, _spec(venv)),
        seed=seed,
        reward_range=reward_range,
        n_envs=n_envs,
        behavior=behavior,
        fingerprint=fingerprint,
    )


def metadata_of_env(
    env: gym.Env[Any, Any], *, reward_range: tuple[float, float] | None = None
) -> Metadata:
    """What a log of a single environment carries besides its numbers."""
    return Metadata(**_known(env, env.spec), reward_range=reward_range, n_envs=1)


def _known(env: Any, spec: Any) -> dict[str, Any]:
    return {
        "env_id": getattr(spec, "id", None),
        "horizon": getattr(spec, "max_episode_steps", None),
        "observation_space": describe_space(env.observation_space),
        "action_space": describe_space(env.action_space),
        "versions": versions(),
    }


def _spec(venv: VecEnv) -> Any:
    try:
        specs = venv.get_attr("spec")
    except (AttributeError, NotImplementedError):
        return None
    limits = {getattr(spec, "max_episode_steps", None) for spec in specs}
    return specs[0] if len(limits) == 1 else None


def versions() -> dict[str, str]:
    """Versions of the libraries that a log depends on."""
    found = {}
    for name in ("ove-sb3", "gymnasium", "stable-baselines3", "sb3-contrib", "torch", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def copy_rows(observations: Any) -> Any:
    """A copy that later steps of the environment cannot change."""
    if isinstance(observations, Mapping):
        return {key: np.array(array) for key, array in observations.items()}
    return np.array(observations)
