"""SAC, TQC and CrossQ: a squashed Gaussian with parameters from the actor network."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecNormalize
from typing_extensions import override

from ove_sb3._validation import FloatArray
from ove_sb3.errors import UnsupportedPolicyError
from ove_sb3.policies.box import SquashedNormal
from ove_sb3.policies.distribution import ActionDistribution
from ove_sb3.policies.observations import Observation
from ove_sb3.policies.policy import NO_CONTEXT, Masks, Policy, PolicyContext
from ove_sb3.policies.registry import register_adapter, resolve

from . import acting
from .adapter import NetworkAdapter
from .networks import double_copy, is_narrow, refuse_nan, to_float64


class SACAdapter(NetworkAdapter):
    """Policy of SAC, TQC or CrossQ.

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
    def distribution(
        self, observations: Observation, context: PolicyContext = NO_CONTEXT
    ) -> ActionDistribution:
        self.check_noise()
        actor: Any = self.network
        with self._forward():
            features = self.reader.features(observations)
            if actor.use_sde:
                latent = actor.latent_pi(features)
                mean = to_float64(actor.mu(latent))
                variance = latent**2 @ actor.action_dist.get_std(actor.log_std) ** 2
                std = np.sqrt(to_float64(variance))
            else:
                mean, std = _parameters(features, actor.latent_pi, actor.mu, actor.log_std)
        refuse_nan(mean, observations)
        return SquashedNormal(self.bounds, mean, std)

    @override
    def unroll(
        self, observations: Observation, lengths: NDArray[np.int64], action_masks: Masks | None
    ) -> ActionDistribution:
        single = super().unroll(observations, lengths, action_masks)
        assert isinstance(single, SquashedNormal)
        narrow = is_narrow(single.mean, single.std)
        actor: Any = self.network
        if actor.use_sde or not narrow.any():
            return single
        with self._forward():
            modules = [double_copy(part) for part in (actor.latent_pi, actor.mu, actor.log_std)]
            mean, std = _parameters(self.reader.features(observations).double(), *modules)
        mean, std = np.where(narrow, mean, single.mean), np.where(narrow, std, single.std)
        return SquashedNormal(self.bounds, mean, std)


def _parameters(
    features: torch.Tensor, latent_pi: Any, mu: Any, log_std: Any
) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation before squashing, both (n, d)."""
    latent = latent_pi(features)
    # The limits within which SB3 keeps the logarithm of the standard deviation.
    return to_float64(mu(latent)), np.exp(to_float64(log_std(latent).clamp(-20.0, 2.0)))


def _of_model(model: Any, normalizer: VecNormalize | None) -> Policy:
    policy = resolve(model.policy, normalizer)
    if isinstance(policy, SACAdapter):
        policy.model = model
        policy.check_noise()
    return policy


def _of_policy(policy: Any, normalizer: VecNormalize | None) -> SACAdapter:
    acting.check_acts_as(policy.actor, ("Actor",), (*acting.NETWORK, "get_action_dist_params"))
    return SACAdapter(policy, policy.actor, normalizer)


register_adapter(
    "stable_baselines3.sac.sac.SAC",
    "sb3_contrib.tqc.tqc.TQC",
    "sb3_contrib.crossq.crossq.CrossQ",
    make=_of_model,
    acting=acting.MODEL,
)
register_adapter(
    "stable_baselines3.sac.policies.SACPolicy",
    "sb3_contrib.tqc.policies.TQCPolicy",
    "sb3_contrib.crossq.policies.CrossQPolicy",
    make=_of_policy,
    acting=acting.POLICY,
)
