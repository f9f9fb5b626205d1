"""The law of actions of every kind of SB3 and sb3-contrib model.

A law maps observations to an `ActionDistribution`. It reads the model at the time of the call, so
that schedules and updates in the middle of an episode are followed.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common import distributions as sb3
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import MlpExtractor
from stable_baselines3.common.vec_env import VecNormalize
from typing_extensions import override

from ove_sb3.core.errors import InvalidInputError, UnsupportedPolicyError

from .box_distributions import BoxBounds, ClippedNormal, SquashedNormal
from .distributions import (
    ActionDistribution,
    Categorical,
    MultiCategorical,
    epsilon_greedy,
    log_bernoulli,
    log_softmax,
)
from .networks import (
    Observation,
    ObservationReader,
    PlainMlp,
    evaluation_mode,
    to_float64,
)

Masks = NDArray[np.bool_]


class Given(NamedTuple):
    """What the law of an action may depend on besides the observation.

    Attributes
    ----------
    action_masks : ndarray of bool, (n, n_choices), optional
        For policies that are masked.
    state : object, optional
        For policies with memory, the `state` of the previous distribution.
    episode_start : ndarray of bool, (n,), optional
        Where the memory starts afresh.
    """

    action_masks: Masks | None = None
    state: Any = None
    episode_start: NDArray[np.bool_] | None = None


NOTHING = Given()


class Law(ABC):
    """Maps observations to the law of the executed action.

    Attributes
    ----------
    observation_space, action_space : gymnasium.Space
    masked : bool
        Needs action masks.
    recurrent : bool
        Has a memory of the observations: `roll` evaluates whole episodes.
    """

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    masked: bool = False
    recurrent: bool = False

    @abstractmethod
    def distribution(self, observations: Observation, given: Given = NOTHING) -> ActionDistribution:
        """The law of the action for each of n observations, given with a batch dimension."""

    @abstractmethod
    def identity(self) -> Iterable[bytes] | None:
        """Everything the law depends on, as bytes; None if that cannot be told."""

    def roll(
        self, observations: Observation, lengths: NDArray[np.int64], action_masks: Masks | None
    ) -> ActionDistribution:
        """The laws of all steps of whole episodes."""
        del lengths
        return self.distribution(observations, Given(action_masks))

    def fingerprint(self) -> str | None:
        """Digest of `identity`: two laws that share it are the same law."""
        parts = self.identity()
        if parts is None:
            return None
        digest = hashlib.sha256(type(self).__name__.encode())
        for part in parts:
            digest.update(len(part).to_bytes(8, "little") + part)
        return digest.hexdigest()


class NetworkLaw(Law):
    """A law computed by the networks of an SB3 policy."""

    def __init__(
        self,
        policy: BasePolicy,
        actor: torch.nn.Module,
        extractor: torch.nn.Module,
        normalizer: VecNormalize | None,
    ) -> None:
        self.policy, self.normalizer = policy, normalizer
        self.observation_space, self.action_space = policy.observation_space, policy.action_space
        self.reader = ObservationReader(policy, extractor, normalizer)
        self._modules = list(actor.modules())
        if np.any(getattr(self.action_space, "start", 0)):
            raise InvalidInputError(
                f"`action_space` must start at 0 for a policy of stable-baselines3, got "
                f"{self.action_space}."
            )
        if isinstance(self.action_space, spaces.Box):
            self.bounds = BoxBounds(self.action_space)

    @override
    def identity(self) -> Iterator[bytes]:
        yield type(self.policy).__qualname__.encode()
        for name, tensor in sorted(self.policy.state_dict().items()):
            yield name.encode()
            yield np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes()
        if self.normalizer is not None:
            yield from _normalizer_identity(self.normalizer)


class ActorCriticLaw(NetworkLaw):
    """PPO, A2C, TRPO and MaskablePPO: one head of the network gives the parameters."""

    def __init__(self, policy: Any, normalizer: VecNormalize | None) -> None:
        extractor = policy.pi_features_extractor
        super().__init__(policy, policy, extractor, normalizer)
        self.masked = type(policy.action_dist).__name__.startswith("Maskable")
        kind = type(policy.action_dist)
        self._mlp: PlainMlp | None = None
        if (
            self.reader.plain
            and type(policy.mlp_extractor) is MlpExtractor
            and kind is not sb3.StateDependentNoiseDistribution
        ):
            self._mlp = PlainMlp.of(policy.mlp_extractor.policy_net, policy.action_net)
        if kind not in _HEADS and kind.__name__ not in _MASKABLE_HEADS:
            raise UnsupportedPolicyError(
                f"`model` must use a distribution of stable-baselines3, got {kind.__qualname__}. "
                "Register the law of the policy class with `ove_sb3.register_policy`."
            )

    @override
    def distribution(self, observations: Observation, given: Given = NOTHING) -> ActionDistribution:
        policy: Any = self.policy
        if self._mlp is not None:
            output = self._mlp(self.reader.flat_features(observations))
            return self._family(output, given.action_masks)
        with evaluation_mode(self._modules):
            features = self.reader.features(observations)
            return self._head(policy.mlp_extractor.forward_actor(features), given.action_masks)

    def _head(self, latent: torch.Tensor, action_masks: Masks | None) -> ActionDistribution:
        policy: Any = self.policy
        output = policy.action_net(latent).cpu().numpy()
        if not isinstance(policy.action_dist, sb3.StateDependentNoiseDistribution):
            return self._family(output, action_masks)
        # The noise matrix is Gaussian: so is the action, if the matrix is new at every step.
        variance = latent**2 @ policy.action_dist.get_std(policy.log_std) ** 2
        family = SquashedNormal if policy.squash_output else ClippedNormal
        return family(self.bounds, output.astype(np.float64), np.sqrt(to_float64(variance)))

    def _family(self, output: NDArray[Any], action_masks: Masks | None) -> ActionDistribution:
        """The law with the parameters that the network gave."""
        policy: Any = self.policy
        kind = policy.action_dist
        if isinstance(kind, sb3.DiagGaussianDistribution):
            std = np.exp(to_float64(policy.log_std))
            return ClippedNormal(self.bounds, output.astype(np.float64), std)
        masks = self._masks(action_masks, output.shape)
        if isinstance(self.action_space, spaces.Discrete):
            return Categorical(log_softmax(output, masks), self.action_space)
        if isinstance(kind, sb3.BernoulliDistribution):
            sizes = [2] * output.shape[1]
            return MultiCategorical(log_bernoulli(output), sizes, self.action_space)
        sizes = [int(size) for size in kind.action_dims]
        cuts = np.cumsum(sizes)[:-1]
        mask_parts = [None] * len(sizes) if masks is None else np.split(masks, cuts, axis=1)
        parts = [
            log_softmax(part, mask)
            for part, mask in zip(np.split(output, cuts, axis=1), mask_parts, strict=True)
        ]
        return MultiCategorical(np.concatenate(parts, axis=1), sizes, self.action_space)

    def drawn(self, actions: NDArray[Any]) -> NDArray[Any] | None:
        """What the policy still knows of the law that `learn` has just drawn `actions` from.

        SB3 keeps the parameters of the last draw in the policy's distribution object: right after
        the draw they are the law itself, and no forward pass is needed. For a Discrete space the
        log-probabilities of all choices, (n, k), otherwise those of the actions, (n,).
        """
        last: Any = getattr(self.policy.action_dist, "distribution", None)
        if type(last) is torch.distributions.Categorical and len(last.logits) == len(actions):
            logits: NDArray[Any] = last.logits.cpu().numpy()
            return logits
        kind: Any = self.policy.action_dist
        diagonal = type(kind) is sb3.DiagGaussianDistribution
        if diagonal and len(last.mean) == len(actions):
            return self._family(last.mean.cpu().numpy(), None).log_prob(actions)
        return None

    def _masks(self, action_masks: Masks | None, shape: tuple[int, ...]) -> Masks | None:
        if not self.masked:
            return None
        if action_masks is None:
            raise InvalidInputError(
                "`action_masks` must be given for a policy that is masked, got None. Pass the "
                "masks the policy acted under, np.ones((n, n_choices)) if it acted without."
            )
        masks = np.asarray(action_masks, dtype=np.bool_)
        if masks.size != np.prod(shape):
            raise InvalidInputError(
                f"`action_masks` must have shape {shape}, one row per observation, got "
                f"{masks.shape}."
            )
        masks = masks.reshape(shape)
        sizes = getattr(self.policy.action_dist, "action_dims", [shape[1]])
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int)
        if (empty := ~np.logical_or.reduceat(masks, starts, axis=1).all(axis=1)).any():
            raise InvalidInputError(
                "`action_masks` must leave at least one choice, got a row without any at row "
                f"{int(np.flatnonzero(empty)[0])} ({int(empty.sum())} of {shape[0]}). Let the "
                "environment end the episode when nothing is left to do."
            )
        return masks


_HEADS = (
    sb3.CategoricalDistribution,
    sb3.MultiCategoricalDistribution,
    sb3.BernoulliDistribution,
    sb3.DiagGaussianDistribution,
    sb3.StateDependentNoiseDistribution,
)
_MASKABLE_HEADS = (
    "MaskableCategoricalDistribution",
    "MaskableMultiCategoricalDistribution",
    "MaskableBernoulliDistribution",
)


class GreedyLaw(NetworkLaw):
    """DQN and QRDQN: uniform with probability epsilon, else the best of the network's values.

    Parameters
    ----------
    policy : BasePolicy
    network : torch.nn.Module
        Gives the action values, (n, k), or their quantiles, (n, quantiles, k).
    model : BaseAlgorithm or None
        Holds ``exploration_rate``; None: never explores.
    """

    def __init__(
        self,
        policy: BasePolicy,
        network: torch.nn.Module,
        model: Any,
        normalizer: VecNormalize | None,
    ) -> None:
        super().__init__(policy, network, network.features_extractor, normalizer)  # type: ignore[arg-type]
        self.model = model
        self.head: Any = next(
            getattr(network, name)
            for name in ("q_net", "quantile_net", "action_net")
            if hasattr(network, name)
        )
        self.n_quantiles: int | None = getattr(network, "n_quantiles", None)

    @property
    def epsilon(self) -> float:
        """Probability of a uniform choice at this moment."""
        return 0.0 if self.model is None else float(self.model.exploration_rate)

    @override
    def distribution(self, observations: Observation, given: Given = NOTHING) -> ActionDistribution:
        values = self.values(observations)
        log_p = epsilon_greedy(values.argmax(axis=1), values.shape[1], self.epsilon)
        return Categorical(log_p, self.action_space)  # type: ignore[arg-type]

    def values(self, observations: Observation) -> NDArray[Any]:
        """The network's action values, (n, k)."""
        with evaluation_mode(self._modules):
            values: torch.Tensor = self.head(self.reader.features(observations))
            if self.n_quantiles is not None:
                n_choices = int(self.action_space.n)  # type: ignore[attr-defined]
                values = values.view(-1, self.n_quantiles, n_choices).mean(dim=1)
        return values.cpu().numpy()

    @override
    def identity(self) -> Iterator[bytes]:
        yield from super().identity()
        yield np.float64(self.epsilon).tobytes()


class SquashedActorLaw(NetworkLaw):
    """SAC, TQC and CrossQ: a squashed Gaussian whose parameters the actor gives."""

    def __init__(self, policy: BasePolicy, actor: Any, normalizer: VecNormalize | None) -> None:
        super().__init__(policy, actor, actor.features_extractor, normalizer)
        self.actor = actor

    @override
    def distribution(self, observations: Observation, given: Given = NOTHING) -> ActionDistribution:
        actor = self.actor
        with evaluation_mode(self._modules):
            latent = actor.latent_pi(self.reader.features(observations))
            mean = to_float64(actor.mu(latent))
            if actor.use_sde:
                variance = latent**2 @ actor.action_dist.get_std(actor.log_std) ** 2
                return SquashedNormal(self.bounds, mean, np.sqrt(to_float64(variance)))
            # The limits within which SB3 keeps the logarithm of the standard deviation.
            std = np.exp(to_float64(actor.log_std(latent).clamp(-20.0, 2.0)))
        return SquashedNormal(self.bounds, mean, std)


def _normalizer_identity(normalizer: VecNormalize) -> Iterable[bytes]:
    if not normalizer.norm_obs:
        return
    statistics = normalizer.obs_rms
    named = statistics if isinstance(statistics, dict) else {"": statistics}
    for name, running in sorted(named.items()):
        yield name.encode()
        yield np.asarray(running.mean, np.float64).tobytes()
        yield np.asarray(running.var, np.float64).tobytes()
    yield np.array([normalizer.clip_obs, normalizer.epsilon]).tobytes()
