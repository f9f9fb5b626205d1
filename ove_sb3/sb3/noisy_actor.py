"""The law of TD3 and DDPG: action noise around a deterministic actor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecNormalize
from typing_extensions import override

from ove_sb3.core.errors import UnsupportedPolicyError
from ove_sb3.core.validation import FloatArray

from .box_distributions import ClippedNormal
from .distributions import ActionDistribution
from .laws import NOTHING, Given, Masks, NetworkLaw
from .networks import Observation, evaluation_mode, to_float64
from .noise import GaussianNoise


class NoisyActorLaw(NetworkLaw):
    """TD3 and DDPG with Gaussian action noise: a Gaussian around the actor's output, clipped.

    With Ornstein-Uhlenbeck noise, `state` is the noise before the draw, (n, d), in units of the
    half-width of the Box.
    """

    def __init__(self, policy: Any, noise: GaussianNoise, normalizer: VecNormalize | None) -> None:
        actor = policy.actor
        super().__init__(policy, actor, actor.features_extractor, normalizer)
        self.actor, self.noise = actor, noise

    @override
    def distribution(self, observations: Observation, given: Given = NOTHING) -> ActionDistribution:
        mean = self.mean(observations)
        n, d = mean.shape
        shift, std = self.noise.parameters(n, d, given.state, given.episode_start)
        half = self.bounds.half_width
        law = ClippedNormal(self.bounds, self.bounds.from_unit(mean + shift), std * half)
        return _WithNoiseState(law, self.bounds.from_unit(mean)) if self.noise.has_state else law

    @override
    def roll(
        self, observations: Observation, lengths: NDArray[np.int64], action_masks: Masks | None
    ) -> ActionDistribution:
        if self.noise.has_state:
            raise UnsupportedPolicyError(
                "`model` must not have Ornstein-Uhlenbeck noise as a candidate: the noise before "
                "each draw is not known from a log, because clipping hides it. Set "
                "model.action_noise = NormalActionNoise(...) to evaluate it."
            )
        return super().roll(observations, lengths, action_masks)

    def mean(self, observations: Observation) -> FloatArray:
        """The actor's output in [-1, 1], (n, d)."""
        with evaluation_mode(self._modules):
            return to_float64(self.actor.mu(self.reader.features(observations)))

    @override
    def identity(self) -> Iterator[bytes]:
        yield from super().identity()
        yield from self.noise.identity()


class _WithNoiseState(ClippedNormal):
    """A clipped normal that remembers its unclipped noise as the next state."""

    def __init__(self, law: ClippedNormal, center: FloatArray) -> None:
        super().__init__(law.bounds, law.mean, law.std)
        self._center = center

    def _draw(self, rng: np.random.Generator) -> FloatArray:
        x = super()._draw(rng)
        self.state = (x - self._center) / self.bounds.half_width
        return x
