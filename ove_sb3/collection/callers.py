"""What steps a logging wrapper: wrappers around it, and the model that `learn` or others run."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium as gym
from stable_baselines3.common import atari_wrappers
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecEnv, VecExtractDictObs, VecFrameStack, VecNormalize

from ove_sb3._versions import known_classes
from ove_sb3.errors import InvalidInputError
from ove_sb3.policies.builtin import UniformPolicy
from ove_sb3.policies.policy import Policy
from ove_sb3.policies.sb3.fingerprint import normalizer_parts

STEP_METHODS = frozenset({"step", "step_async", "step_wait", "reset"})
_CHANGE_OBSERVATIONS = (
    gym.ObservationWrapper,
    VecFrameStack,
    VecExtractDictObs,
    *known_classes(gym.wrappers, "NormalizeObservation", "FrameStackObservation"),
    *known_classes(gym.vector, "VectorObservationWrapper"),
)
# Those that act in `reset` take steps that the model did not choose.
_CHANGE_ACTIONS = (
    gym.ActionWrapper,
    *known_classes(gym.wrappers, "AtariPreprocessing", "MaxAndSkipObservation", "RepeatAction"),
    *known_classes(gym.vector, "VectorActionWrapper"),
    *known_classes(atari_wrappers, "MaxAndSkipEnv", "StickyActionEnv", "NoopResetEnv"),
    *known_classes(atari_wrappers, "FireResetEnv", "EpisodicLifeEnv"),
)


def passes_on(owner: Any, policy: Policy) -> bool:
    """Whether `owner`, whose step runs the logging wrapper's, is a wrapper around it.

    Refuses those that let the model act on other observations than `policy` is evaluated on, or
    execute other actions than the model's. Only classes of the libraries are known, and classes
    derived from them.
    """
    kind = _kind(owner.__class__)
    if kind == "normalizer":
        if owner.norm_obs and not _accounts_for(policy, owner):
            raise InvalidInputError(
                "`model` must have the VecNormalize around the logging wrapper as its own, got a "
                "model without it: the model would act on other observations than its "
                "probabilities are computed from. Load the model with env=, or call "
                "model.set_env, and then set_model(model); or put the logging wrapper around "
                "VecNormalize."
            )
    elif kind == "changes actions":
        raise _misplaced(owner, "changes or adds actions, whose probabilities are not the model's")
    elif kind == "changes observations" and type(policy) is not UniformPolicy:
        raise _misplaced(
            owner,
            "changes observations: the model would act on others than its probabilities are "
            "computed from",
        )
    return kind is not None


@functools.cache
def _kind(owner: type) -> str | None:
    """What a class of wrappers does to a step; None for other classes. Asked at every step."""
    if issubclass(owner, VecNormalize):
        return "normalizer"
    if issubclass(owner, _CHANGE_ACTIONS):
        return "changes actions"
    if issubclass(owner, _CHANGE_OBSERVATIONS):
        return "changes observations"
    return "other" if issubclass(owner, (gym.Wrapper, VecEnv, gym.vector.VectorEnv)) else None


def _accounts_for(policy: Policy, normalizer: VecNormalize) -> bool:
    """Whether a policy normalizes observations as `normalizer` does now."""
    if type(policy) is UniformPolicy:
        return True
    own = getattr(policy, "normalizer", None)
    if own is None or own is normalizer:
        return own is normalizer
    # Another one may have the same statistics, as in an EvalCallback.
    parts = list(normalizer_parts(own))
    return None not in parts and parts == list(normalizer_parts(normalizer))


def _misplaced(owner: Any, why: str) -> InvalidInputError:
    return InvalidInputError(
        "`env` must be logged as the model sees it, got "
        f"{type(owner).__name__} around the logging wrapper, which {why}. Put the logging wrapper "
        f"around {type(owner).__name__}."
    )


def check_normalizer(model: Any, normalizer: VecNormalize | None) -> None:
    """Refuse a built-in policy inside VecNormalize: it expects original observations."""
    if normalizer is None or not normalizer.norm_obs:
        return
    if isinstance(model, Policy) and type(model) is not UniformPolicy:
        raise InvalidInputError(
            "`model` must be a model of stable-baselines3 if the logged environment has a "
            f"VecNormalize, got {type(model).__name__}, which takes original observations. Log the "
            "environment without VecNormalize, or use ove_sb3.collect."
        )


def check_actor(actor: Any, model: Any) -> None:
    """Refuse another model than the one that the logging wrapper was given."""
    if actor is model or not isinstance(actor, (BaseAlgorithm, BasePolicy)):
        return  # a class of the user's own may call the model
    name, bound = type(actor).__name__, type(model).__name__
    if getattr(actor, "policy", None) is model:
        got = f"the policy of this {name}, without its exploration and its warm-up"
    else:
        got = f"another object, of class {bound}"
    raise InvalidInputError(
        f"`model` must be the one that acts, here of class {name}, but the logging wrapper was "
        f"given {got}. Call set_model(model) with the model that acts, or train with the callback "
        "ove_sb3.BindLogger()."
    )
