"""SAC, TQC and CrossQ: a squashed Gaussian with parameters from the actor network."""

from __future__ import annotations

from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecNormalize
from typing_extensions import override

from ove_sb3.errors import UnsupportedPolicyError
from ove_sb3.policies.box import SquashedNormal
from ove_sb3.policies.distribution import ActionDistribution
from ove_sb3.policies.observations import Observation
from ove_sb3.policies.policy import NO_CONTEXT, Policy, PolicyContext
from ove_sb3.policies.registry import register_adapter, resolve

from . import acting
from .adapter import NetworkAdapter
from .networks import refuse_nan, to_float64


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
            latent = actor.latent_pi(self.reader.features(observations))
            mean = to_float64(actor.mu(latent))
            refuse_nan(mean, observations)
            if actor.use_sde:
                variance = latent**2 @ actor.action_dist.get_std(actor.log_std) ** 2
                return SquashedNormal(self.bounds, mean, np.sqrt(to_float64(variance)))
            # The limits within which SB3 keeps the logarithm of the standard deviation.
            std = np.exp(to_float64(actor.log_std(latent).clamp(-20.0, 2.0)))
        return SquashedNormal(self.bounds, mean, std)


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
