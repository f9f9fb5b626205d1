"""Methods of stable-baselines3 classes that decide on actions; overriding one is refused."""

from __future__ import annotations

from typing import Any, NoReturn

from stable_baselines3.common.vec_env import VecNormalize

from ove_sb3.errors import UnsupportedPolicyError
from ove_sb3.policies.policy import Policy
from ove_sb3.policies.registry import REGISTER, AdapterFunction, refuse_overrides, resolve

_LIBRARIES = ("stable_baselines3.", "sb3_contrib.")
MODEL = ("predict", "_sample_action")
POLICY = ("predict", "_predict", "forward", "obs_to_tensor", "scale_action", "unscale_action")
NETWORK = ("forward", "_predict", "extract_features")
ACTOR_CRITIC = (*POLICY, "get_distribution", "_get_action_dist_from_latent", "extract_features")


def check_acts_as(part: Any, names: tuple[str, ...], acting: tuple[str, ...]) -> None:
    """Refuse a part of a model unless it is of a library class of these names, and acts like it."""
    for cls in type(part).__mro__:
        if cls.__name__ in names and cls.__module__.startswith(_LIBRARIES):
            refuse_overrides(part, cls, acting)
            return
    raise UnsupportedPolicyError(
        f"`model` must act through the class {' or '.join(names)} of stable-baselines3, got "
        f"{type(part).__qualname__}. {REGISTER}"
    )


def policy_of(model: Any, vec_normalize: VecNormalize | None) -> Policy:
    """Adapter of a model that adds no exploration to its policy."""
    return resolve(model.policy, vec_normalize)


def refuse_bare_policy(remedy: str) -> AdapterFunction:
    """Adapter of a policy without exploration of its own: an error with this remedy."""

    def refuse(policy: Any, vec_normalize: VecNormalize | None) -> NoReturn:
        del vec_normalize
        raise UnsupportedPolicyError(
            f"`model` must be the model and not its bare {type(policy).__name__}, which never "
            f"explores. {remedy}"
        )

    return refuse
