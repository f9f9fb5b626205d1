"""PPO, A2C, TRPO and MaskablePPO: one head of the network gives the parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common import distributions as sb3
from stable_baselines3.common.torch_layers import MlpExtractor
from stable_baselines3.common.vec_env import VecNormalize
from typing_extensions import override

from ove_sb3.errors import PLACE, InvalidInputError, UnsupportedPolicyError
from ove_sb3.policies.box import ClippedNormal, SquashedNormal
from ove_sb3.policies.discrete import Categorical, MultiCategorical, log_bernoulli, log_softmax
from ove_sb3.policies.distribution import ActionDistribution
from ove_sb3.policies.observations import Observation
from ove_sb3.policies.policy import NO_CONTEXT, Masks, PolicyContext
from ove_sb3.policies.registry import register_adapter

from . import acting
from .adapter import NetworkAdapter
from .networks import PlainMlp, double_copy, is_narrow, is_untouched, refuse_nan, to_float64

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


class ActorCriticAdapter(NetworkAdapter):
    """ActorCriticPolicy: PPO, A2C, TRPO, and MaskablePPO."""

    def __init__(self, policy: Any, normalizer: VecNormalize | None) -> None:
        super().__init__(policy, policy, normalizer, "pi_features_extractor")
        self.masked = type(policy.action_dist).__name__.startswith("Maskable")
        kind = type(policy.action_dist)
        if kind not in _HEADS and kind.__name__ not in _MASKABLE_HEADS:
            raise UnsupportedPolicyError(
                f"`model` must use a distribution of stable-baselines3, got {kind.__qualname__}. "
                "Register the policy class with `ove_sb3.register_policy`."
            )
        shared = policy.share_features_extractor
        if shared and policy.features_extractor is not policy.pi_features_extractor:
            raise UnsupportedPolicyError(
                "`model` must use one features extractor if it shares it, but "
                "policy.pi_features_extractor is not policy.features_extractor: `learn` and "
                "`predict` would act differently. Set both."
            )

    @override
    def distribution(
        self, observations: Observation, context: PolicyContext = NO_CONTEXT
    ) -> ActionDistribution:
        policy: Any = self.policy
        mlp = self._plain_mlp()
        if mlp is not None:
            output = mlp(self.reader.flat_features(observations))
            refuse_nan(output, observations)
            return self._family(output, context.action_masks)
        with self._forward():
            features = self.reader.features(observations)
            latent = policy.mlp_extractor.forward_actor(features)
            if not self._checked and policy.share_features_extractor:
                self._compare(latent, policy.mlp_extractor(features)[0])
            return self._head(latent, context.action_masks, observations)

    @override
    def unroll(
        self, observations: Observation, lengths: NDArray[np.int64], action_masks: Masks | None
    ) -> ActionDistribution:
        single = super().unroll(observations, lengths, action_masks)
        policy: Any = self.policy
        gaussian = isinstance(policy.action_dist, sb3.DiagGaussianDistribution)
        if not (gaussian and isinstance(single, ClippedNormal)):
            return single
        narrow = is_narrow(single.mean, single.std)
        if not narrow.any():
            return single
        with self._forward():
            extractor, net = double_copy(policy.mlp_extractor), double_copy(policy.action_net)
            features = self.reader.features(observations).double()
            mean = to_float64(net(extractor.forward_actor(features)))
        return ClippedNormal(self.bounds, np.where(narrow, mean, single.mean), single.std)

    def _compare(self, predicting: torch.Tensor, learning: torch.Tensor) -> None:
        """Refuse extractors whose two methods differ: `predict` calls one, `learn` the other."""
        if not torch.allclose(predicting, learning, rtol=1e-4, atol=1e-5, equal_nan=True):
            raise UnsupportedPolicyError(
                "`model` must have an mlp_extractor whose forward(features) returns "
                "forward_actor(features) first, but they differ: `learn` and `predict` act "
                "differently. Let `forward` call `forward_actor`."
            )

    @override
    def _bypassed_modules(self) -> tuple[torch.nn.Module, ...]:
        policy: Any = self.policy
        return (policy, policy.mlp_extractor)

    def _plain_mlp(self) -> PlainMlp | None:
        """Fast evaluation of the network, as long as all of it is SB3's own."""
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
        refuse_nan(output, observations)
        if not isinstance(policy.action_dist, sb3.StateDependentNoiseDistribution):
            return self._family(output, action_masks)
        # The noise matrix is Gaussian; so is the action, if the matrix is redrawn at every step.
        variance = latent**2 @ policy.action_dist.get_std(policy.log_std) ** 2
        family = SquashedNormal if policy.squash_output else ClippedNormal
        return family(self.bounds, output.astype(np.float64), np.sqrt(to_float64(variance)))

    def _family(self, output: NDArray[Any], action_masks: Masks | None) -> ActionDistribution:
        """Distribution with the parameters that the network returned."""
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

    def last_log_probs(self, actions: NDArray[Any]) -> NDArray[Any] | None:
        """Log-probabilities of the `actions` that `learn` has just drawn, without a forward pass.

        SB3 keeps the parameters of the last draw in the policy's distribution object. For a
        Discrete space the log-probabilities of all choices are returned, (n, k), otherwise those of
        the actions, (n,); None if the object does not hold them.
        """
        last: Any = getattr(self.policy.action_dist, "distribution", None)
        if type(last) is torch.distributions.Categorical and len(last.logits) == len(actions):
            logits: NDArray[Any] = last.logits.cpu().numpy()
            return logits
        kind: Any = self.policy.action_dist
        output: torch.Tensor | None = None
        if type(kind) is sb3.DiagGaussianDistribution:
            output = last.mean
        elif type(kind) is sb3.BernoulliDistribution:
            output = last.logits
        elif type(kind) is sb3.MultiCategoricalDistribution:
            output = torch.cat([part.logits for part in last], dim=1)
        if output is None or len(output) != len(actions):
            return None
        return self._family(output.cpu().numpy(), None).log_prob(actions)

    def _masks(self, action_masks: Masks | None, shape: tuple[int, ...]) -> Masks | None:
        if not self.masked:
            return None
        if action_masks is None:
            raise InvalidInputError(
                "`action_masks` must be given for a policy with action masks, got None. Pass the "
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
                f"`action_masks` must leave at least one choice, got none at {PLACE} "
                f"({int(empty.sum())} of {shape[0]} rows). Let the environment end the episode "
                "when no action is valid.",
                row=int(np.flatnonzero(empty)[0]),
            )
        return masks


register_adapter(
    "stable_baselines3.common.on_policy_algorithm.OnPolicyAlgorithm",
    "sb3_contrib.ppo_mask.ppo_mask.MaskablePPO",
    make=acting.policy_of,
    acting=acting.MODEL,
)
register_adapter(
    "stable_baselines3.common.policies.ActorCriticPolicy",
    "sb3_contrib.common.maskable.policies.MaskableActorCriticPolicy",
    make=ActorCriticAdapter,
    acting=acting.ACTOR_CRITIC,
)
