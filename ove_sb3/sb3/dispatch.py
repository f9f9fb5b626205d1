"""From a model to the law of its actions.

The dispatch is on the model, because exploration lives there and not in the policy: epsilon, action
noise, the warm-up. A class that is not known, or that overrides the methods that act, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from stable_baselines3.common.vec_env import VecNormalize
from typing_extensions import override

from ove_sb3.errors import InvalidInputError, UnsupportedPolicyError

from .distributions import ActionDistribution
from .identity import Part, of_tensors
from .laws import NOTHING, ActorCriticLaw, Given, GreedyLaw, Law, Masks, SquashedActorLaw
from .networks import Observation, check_observations
from .noisy_actor import NoisyActorLaw
from .recurrent import RecurrentLaw

_LIBRARIES = ("stable_baselines3.", "sb3_contrib.")
_REGISTER = "Register its law with `ove_sb3.register_policy`."


class DistributionFunction(Protocol):
    """What `register_policy` takes."""

    def __call__(
        self,
        model: Any,
        observations: Any,
        *,
        action_masks: Masks | None,
        state: Any,
        episode_start: NDArray[np.bool_] | None,
    ) -> ActionDistribution:
        """The laws of the actions for a batch of observations."""


_registered: dict[type, DistributionFunction] = {}


def register_policy(cls: type, function: DistributionFunction) -> None:
    """Teach `log_prob`, `collect` and the wrappers the law of a class of models or policies.

    Parameters
    ----------
    cls : type
        The class; it must have ``observation_space`` and ``action_space``. Subclasses are
        included, and it takes precedence over what is known of its bases.
    function : callable
        ``function(model, observations, *, action_masks, state, episode_start)`` returns an
        `ActionDistribution` for a batch of observations. It must be the law of the executed
        action, and must not change the model.
    """
    if not isinstance(cls, type):
        raise InvalidInputError(f"`cls` must be a class, got {cls!r}.")
    if not callable(function):
        raise InvalidInputError(f"`function` must be callable, got {function!r}.")
    _registered[cls] = function


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
    """The law of the action that `model` executes, for a batch of observations.

    Parameters
    ----------
    model : BaseAlgorithm, BasePolicy or ready policy
        Models of stable-baselines3 and sb3-contrib, policies of this package, and classes made
        known by `register_policy`. For off-policy models the law includes their exploration:
        epsilon, action noise.
    observations : ndarray, (n, ...), or dict of such
        As the environment gives them: not normalised.
    action_masks : array_like of bool, (n, n_choices), optional
        For MaskablePPO, required.
    state : object, optional
        For policies with memory, the `state` of the previous distribution.
    episode_start : array_like of bool, (n,), optional
        Where the memory starts afresh.
    deterministic : bool
        The law of ``predict(..., deterministic=True)``; not for a Box.
    vec_normalize : VecNormalize, optional
        Normalises the observations; by default the model's own.

    Returns
    -------
    ActionDistribution
        With ``sample(rng)``, ``log_prob(actions)`` and ``state``.
    """
    law = law_of(model, vec_normalize=vec_normalize)
    batch, n = check_observations(observations, law.observation_space)
    masks = None if action_masks is None else np.asarray(action_masks, dtype=np.bool_)
    starts = None if episode_start is None else np.asarray(episode_start, dtype=np.bool_)
    if starts is not None and starts.shape != (n,):
        raise InvalidInputError(
            f"`episode_start` must have one entry per observation, {n}, got shape {starts.shape}."
        )
    found = law.distribution(batch, Given(masks, state, starts))
    return found.deterministic() if deterministic else found


def law_of(model: Any, *, vec_normalize: VecNormalize | None = None) -> Law:
    """The law of `model`, or an error that says why there is none."""
    if isinstance(model, Law):
        return model
    for cls in type(model).__mro__:
        if cls in _registered:
            return RegisteredLaw(model, _registered[cls])
        entry = _KNOWN.get(f"{cls.__module__}.{cls.__qualname__}")
        if entry is not None:
            _refuse_overrides(model, cls, entry.acting)
            if vec_normalize is None and hasattr(model, "get_vec_normalize_env"):
                vec_normalize = model.get_vec_normalize_env()
            return entry.make(model, vec_normalize)
    raise UnsupportedPolicyError(
        f"`model` must be of a known class, got {type(model).__qualname__}. {_REGISTER}"
    )


def greedy_law_of(policy: Any) -> Law:
    """The law of `policy` without exploration of its own, for DQN and QRDQN; else `law_of`."""
    normalizer = (
        policy.get_vec_normalize_env() if hasattr(policy, "get_vec_normalize_env") else None
    )
    bare = getattr(policy, "policy", policy)
    names = {cls.__name__ for cls in type(bare).__mro__}
    if names & {"DQNPolicy", "QRDQNPolicy"} and not any(
        cls in _registered for cls in type(policy).__mro__
    ):
        return GreedyLaw(bare, _value_network(bare), None, normalizer)
    return law_of(policy)


class RegisteredLaw(Law):
    """A law given by a user's function."""

    def __init__(self, model: Any, function: DistributionFunction) -> None:
        self.model, self.function = model, function
        self.observation_space, self.action_space = model.observation_space, model.action_space

    @override
    def distribution(self, observations: Observation, given: Given = NOTHING) -> ActionDistribution:
        return self.function(
            self.model,
            observations,
            action_masks=given.action_masks,
            state=given.state,
            episode_start=given.episode_start,
        )

    @override
    def identity(self) -> Iterator[Part]:
        yield None
        for part in (self.model, getattr(self.model, "policy", None)):
            if isinstance(part, torch.nn.Module):
                yield from of_tensors(part)


def _refuse_overrides(part: Any, known: type, acting: tuple[str, ...]) -> None:
    cls = type(part)
    for name in acting:
        if name in vars(part) or getattr(cls, name, None) is not getattr(known, name, None):
            raise UnsupportedPolicyError(
                f"`model` must act as {known.__qualname__} does, but {cls.__qualname__} overrides "
                f"`{name}`. {_REGISTER}"
            )


def _refuse_own(part: Any, names: tuple[str, ...], acting: tuple[str, ...]) -> None:
    """Refuse a part of a model that is not of a class of these names, or acts unlike it."""
    for cls in type(part).__mro__:
        if cls.__name__ in names and cls.__module__.startswith(_LIBRARIES):
            _refuse_overrides(part, cls, acting)
            return
    raise UnsupportedPolicyError(
        f"`model` must act through the class {' or '.join(names)} of stable-baselines3, got "
        f"{type(part).__qualname__}. {_REGISTER}"
    )


def _of_policy(model: Any, normalizer: VecNormalize | None) -> Law:
    policy = model.policy
    for cls in type(policy).__mro__:
        if cls in _registered:
            return RegisteredLaw(policy, _registered[cls])
    return law_of(policy, vec_normalize=normalizer)


def _of_dqn(model: Any, normalizer: VecNormalize | None) -> Law:
    return GreedyLaw(model.policy, _value_network(model.policy), model, normalizer)


def _value_network(policy: Any) -> Any:
    _refuse_own(policy, ("DQNPolicy", "QRDQNPolicy"), _POLICY)
    network = policy.q_net if hasattr(policy, "q_net") else policy.quantile_net
    _refuse_own(network, ("QNetwork", "QuantileNetwork"), _NETWORK)
    return network


def _of_sac(model: Any, normalizer: VecNormalize | None) -> Law:
    law = law_of(model.policy, vec_normalize=normalizer)
    if isinstance(law, SquashedActorLaw):
        law.model = model
        law.check_noise()
    return law


def _of_squashed(policy: Any, normalizer: VecNormalize | None) -> Law:
    _refuse_own(policy.actor, ("Actor",), (*_NETWORK, "get_action_dist_params"))
    return SquashedActorLaw(policy, policy.actor, normalizer)


def _of_td3(model: Any, normalizer: VecNormalize | None) -> Law:
    _refuse_own(model.policy, ("TD3Policy",), _POLICY)
    _refuse_own(model.policy.actor, ("Actor",), _NETWORK)
    law = NoisyActorLaw(model, normalizer)
    _ = law.noise  # refuses what has no density
    return law


def _of_ars(model: Any, normalizer: VecNormalize | None) -> Law:
    return law_of(model.policy, vec_normalize=normalizer)


def _of_ars_policy(policy: Any, normalizer: VecNormalize | None) -> Law:
    if not hasattr(policy.action_space, "n"):
        raise UnsupportedPolicyError(
            "`model` must be stochastic on a Box: ARS is deterministic and its actions have no "
            "density. Use it with a Discrete action space only."
        )
    return GreedyLaw(policy, policy, None, normalizer)


def _refuse_bare(remedy: str) -> Callable[[Any, VecNormalize | None], Law]:
    def refuse(policy: Any, normalizer: VecNormalize | None) -> Law:
        del normalizer
        raise UnsupportedPolicyError(
            f"`model` must be the model and not its bare {type(policy).__name__}, which never "
            f"explores. {remedy}"
        )

    return refuse


class _Known(NamedTuple):
    make: Callable[[Any, VecNormalize | None], Law]
    acting: tuple[str, ...]


_MODEL = ("predict", "_sample_action")
_POLICY = ("predict", "_predict", "forward", "obs_to_tensor", "scale_action", "unscale_action")
_NETWORK = ("forward", "_predict", "extract_features")
_ACTOR_CRITIC = (*_POLICY, "get_distribution", "_get_action_dist_from_latent", "extract_features")
_EPSILON = "Pass the model, or ove_sb3.EpsilonGreedy(policy, epsilon)."
# By name, so that sb3-contrib is needed only by those who use it.
_KNOWN: dict[str, _Known] = {
    "stable_baselines3.common.on_policy_algorithm.OnPolicyAlgorithm": _Known(_of_policy, _MODEL),
    "sb3_contrib.ppo_mask.ppo_mask.MaskablePPO": _Known(_of_policy, _MODEL),
    "sb3_contrib.ppo_recurrent.ppo_recurrent.RecurrentPPO": _Known(_of_policy, _MODEL),
    "stable_baselines3.dqn.dqn.DQN": _Known(_of_dqn, _MODEL),
    "sb3_contrib.qrdqn.qrdqn.QRDQN": _Known(_of_dqn, _MODEL),
    "stable_baselines3.sac.sac.SAC": _Known(_of_sac, _MODEL),
    "sb3_contrib.tqc.tqc.TQC": _Known(_of_sac, _MODEL),
    "sb3_contrib.crossq.crossq.CrossQ": _Known(_of_sac, _MODEL),
    "stable_baselines3.td3.td3.TD3": _Known(_of_td3, _MODEL),
    "sb3_contrib.ars.ars.ARS": _Known(_of_ars, _MODEL),
    "stable_baselines3.common.policies.ActorCriticPolicy": _Known(
        lambda policy, normalizer: ActorCriticLaw(policy, normalizer), _ACTOR_CRITIC
    ),
    "sb3_contrib.common.maskable.policies.MaskableActorCriticPolicy": _Known(
        lambda policy, normalizer: ActorCriticLaw(policy, normalizer), _ACTOR_CRITIC
    ),
    "sb3_contrib.common.recurrent.policies.RecurrentActorCriticPolicy": _Known(
        lambda policy, normalizer: RecurrentLaw(policy, normalizer),
        (*_ACTOR_CRITIC, "_process_sequence"),
    ),
    "stable_baselines3.sac.policies.SACPolicy": _Known(_of_squashed, _POLICY),
    "sb3_contrib.tqc.policies.TQCPolicy": _Known(_of_squashed, _POLICY),
    "sb3_contrib.crossq.policies.CrossQPolicy": _Known(_of_squashed, _POLICY),
    "sb3_contrib.ars.policies.ARSPolicy": _Known(_of_ars_policy, _POLICY),
    "stable_baselines3.dqn.policies.DQNPolicy": _Known(_refuse_bare(_EPSILON), ()),
    "sb3_contrib.qrdqn.policies.QRDQNPolicy": _Known(_refuse_bare(_EPSILON), ()),
    "stable_baselines3.td3.policies.TD3Policy": _Known(
        _refuse_bare("Pass the model with its action noise."), ()
    ),
}
