"""Action distributions of models and policies of any known class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ove_sb3.errors import InvalidInputError, UnsupportedPolicyError

from .distribution import ActionDistribution
from .known_code import has_known_code
from .observations import as_batch
from .policy import Policy, PolicyContext
from .registry import RegisteredPolicy, registered_class, resolve

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecNormalize

_LIBRARIES = ("stable_baselines3.", "sb3_contrib.")


def action_distribution(
    model: Any,
    observations: Any,
    *,
    action_masks: ArrayLike | None = None,
    state: Any = None,
    episode_start: ArrayLike | None = None,
    deterministic: bool = False,
    vec_normalize: VecNormalize | None = None,
) -> ActionDistribution:
    """Distributions of the actions that `model` executes, for a batch of observations.

    Parameters
    ----------
    model : BaseAlgorithm, BasePolicy or built-in policy
        Models of stable-baselines3 and sb3-contrib, policies of this package, and classes
        registered with `register_policy`. The distribution of an off-policy model includes its
        exploration: epsilon, action noise.
    observations : ndarray, (n, ...), or dict of such
        As the environment returns them, not normalized.
    action_masks : array_like of bool, (n, n_choices), optional
        Required for MaskablePPO.
    state : object, optional
        For policies with memory, the `state` of the previous distribution.
    episode_start : array_like of bool, (n,), optional
        Where an episode begins and the memory is reset.
    deterministic : bool
        Act as ``predict(..., deterministic=True)``; not for a Box.
    vec_normalize : VecNormalize, optional
        Normalizes the observations; by default the model's own. Only for models and policies of
        stable-baselines3 and sb3-contrib.

    Returns
    -------
    ActionDistribution
        With ``sample(rng)``, ``log_prob(actions)`` and ``state``.
    """
    policy = as_given_policy(model, vec_normalize)
    batch = as_batch(observations, policy.observation_space)
    masks = None if action_masks is None else np.asarray(action_masks, dtype=np.bool_)
    starts = None if episode_start is None else np.asarray(episode_start, dtype=np.bool_)
    if starts is not None and starts.shape != (batch.n,):
        raise InvalidInputError(
            f"`episode_start` must have one entry per observation, {batch.n}, got shape "
            f"{starts.shape}."
        )
    distribution = policy.distribution(batch.observations, PolicyContext(masks, state, starts))
    return distribution.deterministic() if deterministic else distribution


def as_policy(
    model: Any, *, vec_normalize: VecNormalize | None = None, exploration: bool = True
) -> Policy:
    """`model` as a policy whose action distribution is known, or an error that says why not.

    Parameters
    ----------
    model : object
        See `action_distribution`.
    vec_normalize : VecNormalize, optional
        Normalizes the observations; by default the model's own.
    exploration : bool
        False for DQN and QRDQN without their exploration; of no effect for other classes.
    """
    if isinstance(model, Policy):
        if (cls := registered_class(model)) is not None:
            raise UnsupportedPolicyError(
                f"`model` must act in one way, got a {type(model).__qualname__}, a policy of this "
                f"package whose base {cls.__qualname__} was registered with another action "
                "distribution. Leave out one of the two."
            )
        return model
    if any(cls.__module__.startswith(_LIBRARIES) for cls in type(model).__mro__):
        from .sb3 import families  # noqa: F401  registers the adapters of the libraries

    return resolve(model, vec_normalize, exploration=exploration)


def as_given_policy(model: Any, vec_normalize: VecNormalize | None) -> Policy:
    """`as_policy` with the `vec_normalize` of a caller, refused where it would change nothing.

    Policies that are not made of models, such as a table, take any: they have nothing to normalize.
    """
    policy = as_policy(model, vec_normalize=vec_normalize)
    if vec_normalize is None or getattr(policy, "normalizer", None) is vec_normalize:
        return policy
    if isinstance(policy, RegisteredPolicy):
        remedy = "Normalize observations in the registered function."
    elif isinstance(model, Policy) and (model.origins or not has_known_code(model)):
        remedy = (
            "Give it to the models that the policy is made of, before it is made: "
            "model.set_env(vec_normalize), or load them with env=vec_normalize."
        )
    else:
        return policy
    raise InvalidInputError(
        f"`vec_normalize` must be None for {type(model).__qualname__}, which would ignore it, got "
        f"a {type(vec_normalize).__name__}. {remedy} In `compare`, name the candidates that it is "
        "for in a mapping."
    )
