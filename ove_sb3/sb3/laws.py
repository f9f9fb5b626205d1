"""The law of actions of every kind of SB3 and sb3-contrib model.

A law maps observations to an `ActionDistribution`. It reads the model at the time of the call, so
that schedules and updates in the middle of an episode are followed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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

from ove_sb3.errors import InvalidInputError, UnsupportedPolicyError

from .box_distributions import BoxBounds, ClippedNormal, SquashedNormal
from .distributions import (
    ActionDistribution,
    Categorical,
    MultiCategorical,
    epsilon_greedy,
    log_bernoulli,
    log_softmax,
)
from .identity import Part, digest, of_normalizer, of_space, of_structure, of_tensors, of_value
from .networks import (
    Observation,
    ObservationReader,
    PlainMlp,
    check_output,
    evaluation_mode,
    is_untouched,
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
    def identity(self) -> Iterable[Part]:
        """Everything the law depends on, as bytes; None stands for what cannot be told."""

    def variables(self) -> Iterable[Part]:
        """The parts of `identity` that training, or a schedule, changes."""
        return self.identity()

    def roll(
        self, observations: Observation, lengths: NDArray[np.int64], action_masks: Masks | None
    ) -> ActionDistribution:
        """The laws of all steps of whole episodes."""
        del lengths
        return self.distribution(observations, Given(action_masks))

    def fingerprint(self) -> str | None:
        """Digest of `identity`: two laws that share it are the same law. None if it has gaps."""
        return digest(type(self).__qualname__, self.identity(), whole=True)

    def condition(self) -> str | None:
        """Digest of `variables`: as long as it stays, this law has not changed."""
        return digest(type(self).__qualname__, self.variables(), whole=False)


class NetworkLaw(Law):
    """A law computed by the networks of an SB3 policy.

    Parameters
    ----------
    policy : BasePolicy
    network : torch.nn.Module
        The acting part of it.
    normalizer : VecNormalize or None
    extractor : str
        Name of the features extractor in `network`.
    """

    def __init__(
        self,
        policy: BasePolicy,
        network: torch.nn.Module,
        normalizer: VecNormalize | None,
        extractor: str = "features_extractor",
    ) -> None:
        self.policy, self.network, self.normalizer = policy, network, normalizer
        self.observation_space, self.action_space = policy.observation_space, policy.action_space
        self.reader = ObservationReader(policy, network, extractor, normalizer)
        self._tried = False
        if np.any(getattr(self.action_space, "start", 0)):
            raise InvalidInputError(
                f"`action_space` must start at 0 for a policy of stable-baselines3, got "
                f"{self.action_space}."
            )
        if isinstance(self.action_space, spaces.Box):
            self.bounds = BoxBounds(self.action_space)

    @override
    def identity(self) -> Iterator[Part]:
        # The policy's class is known to act as its library's does: see `dispatch`.
        yield from of_value((self.policy.squash_output, self.policy.normalize_images))
        yield from of_space(self.observation_space)
        yield from of_space(self.action_space)
        yield from of_structure(self.network)
        yield from self.variables()

    @override
    def variables(self) -> Iterator[Part]:
        yield from of_tensors(self.network)
        yield from of_normalizer(self.normalizer)

    @contextmanager
    def _forward(self) -> Iterator[None]:
        """For forward passes: in evaluation mode, and refused if they are not a function."""
        for module in self._passed_by():
            if module._forward_hooks or module._forward_pre_hooks:
                raise UnsupportedPolicyError(
                    f"`model` must have no forward hooks on its {type(module).__name__}: they may "
                    "change actions in a way that has no known law. Remove them, or hook the "
                    "layers inside."
                )
        before = None if self._tried else torch.get_rng_state()
        with evaluation_mode(self.network):
            yield
        if before is not None:
            if not torch.equal(before, torch.get_rng_state()):
                torch.set_rng_state(before)
                raise UnsupportedPolicyError(
                    "`model` must have networks without chance of their own, but their forward "
                    "pass draws random numbers: the probability of an action would be an average "
                    "over these. Remove layers that add noise in evaluation mode."
                )
            self._tried = True

    def _passed_by(self) -> tuple[torch.nn.Module, ...]:
        """Modules whose parts are called here one by one."""
        return (self.policy, self.network)


class ActorCriticLaw(NetworkLaw):
    """PPO, A2C, TRPO and MaskablePPO: one head of the network gives the parameters."""

    def __init__(self, policy: Any, normalizer: VecNormalize | None) -> None:
        super().__init__(policy, policy, normalizer, "pi_features_extractor")
        self.masked = type(policy.action_dist).__name__.startswith("Maskable")
        kind = type(policy.action_dist)
        if kind not in _HEADS and kind.__name__ not in _MASKABLE_HEADS:
            raise UnsupportedPolicyError(
                f"`model` must use a distribution of stable-baselines3, got {kind.__qualname__}. "
                "Register the law of the policy class with `ove_sb3.register_policy`."
            )
        shared = policy.share_features_extractor
        if shared and policy.features_extractor is not policy.pi_features_extractor:
            raise UnsupportedPolicyError(
                "`model` must use one features extractor if it shares it, but "
                "policy.pi_features_extractor is not policy.features_extractor: `learn` and "
                "`predict` would act differently. Set both."
            )

    @override
    def distribution(self, observations: Observation, given: Given = NOTHING) -> ActionDistribution:
        policy: Any = self.policy
        mlp = self._plain_mlp()
        if mlp is not None:
            output = mlp(self.reader.flat_features(observations))
            check_output(output, observations)
            return self._family(output, given.action_masks)
        with self._forward():
            features = self.reader.features(observations)
            latent = policy.mlp_extractor.forward_actor(features)
            if not self._tried and policy.share_features_extractor:
                self._compare(latent, policy.mlp_extractor(features)[0])
            return self._head(latent, given.action_masks, observations)

    def _compare(self, predicting: torch.Tensor, learning: torch.Tensor) -> None:
        """`predict` calls `forward_actor`, and `learn` the whole extractor."""
        if not torch.allclose(predicting, learning, rtol=1e-4, atol=1e-5, equal_nan=True):
            raise UnsupportedPolicyError(
                "`model` must have an mlp_extractor whose forward(features) returns "
                "forward_actor(features) first, but they differ: `learn` and `predict` act by "
                "different laws. Let `forward` call `forward_actor`."
            )

    @override
    def _passed_by(self) -> tuple[torch.nn.Module, ...]:
        policy: Any = self.policy
        return (policy, policy.mlp_extractor)

    def _plain_mlp(self) -> PlainMlp | None:
        """The short way through the network, if it is SB3's own at this moment."""
        policy: Any = self.policy
        parts = policy._modules
        extractor = parts["mlp_extractor"]
        if (
            not is_untouched(extractor, MlpExtractor)
            or "forward_actor" in extractor.__dict__
            or policy._forward_hooks
            or policy._forward_pre_hooks
            or type(policy.action_dist) is sb3.StateDependentNoiseDistribution
            or not self.reader.plain
        ):
            return None
        return PlainMlp.of(extractor._modules["policy_net"], parts["action_net"])

    def _head(
        self, latent: torch.Tensor, action_masks: Masks | None, observations: Observation
    ) -> ActionDistribution:
        policy: Any = self.policy
        output = policy.action_net(latent).cpu().numpy()
        check_output(output, observations)
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
        given: torch.Tensor | None = None
        if type(kind) is sb3.DiagGaussianDistribution:
            given = last.mean
        elif type(kind) is sb3.BernoulliDistribution:
            given = last.logits
        elif type(kind) is sb3.MultiCategoricalDistribution:
            given = torch.cat([part.logits for part in last], dim=1)
        if given is None or len(given) != len(actions):
            return None
        return self._family(given.cpu().numpy(), None).log_prob(actions)

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
        super().__init__(policy, network, normalizer)
        self.model = model
        names = ("q_net", "quantile_net", "action_net")
        self._head = next(name for name in names if hasattr(network, name))
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
        with self._forward():
            head: Any = getattr(self.network, self._head)
            values: torch.Tensor = head(self.reader.features(observations))
            if self.n_quantiles is not None:
                n_choices = int(self.action_space.n)  # type: ignore[attr-defined]
                values = values.view(-1, self.n_quantiles, n_choices).mean(dim=1)
        found = values.cpu().numpy()
        check_output(found, observations)
        return found

    @override
    def variables(self) -> Iterator[Part]:
        yield from super().variables()
        yield from of_value(self.epsilon)


class SquashedActorLaw(NetworkLaw):
    """SAC, TQC and CrossQ: a squashed Gaussian whose parameters the actor gives.

    Attributes
    ----------
    model : BaseAlgorithm or None
        Must have no action noise.
    """

    model: Any = None

    def check_noise(self) -> None:
        """Refuse noise on top of the policy's own."""
        if self.model is not None and self.model.action_noise is not None:
            raise UnsupportedPolicyError(
                "`model` must have no action noise besides the "
                f"{type(self.model).__name__} policy's own: a clipped sum of squashed and added "
                "noise has no closed-form density. Set model.action_noise = None."
            )

    @override
    def distribution(self, observations: Observation, given: Given = NOTHING) -> ActionDistribution:
        self.check_noise()
        actor: Any = self.network
        with self._forward():
            latent = actor.latent_pi(self.reader.features(observations))
            mean = to_float64(actor.mu(latent))
            check_output(mean, observations)
            if actor.use_sde:
                variance = latent**2 @ actor.action_dist.get_std(actor.log_std) ** 2
                return SquashedNormal(self.bounds, mean, np.sqrt(to_float64(variance)))
            # The limits within which SB3 keeps the logarithm of the standard deviation.
            std = np.exp(to_float64(actor.log_std(latent).clamp(-20.0, 2.0)))
        return SquashedNormal(self.bounds, mean, std)
