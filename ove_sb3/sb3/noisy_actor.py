"""The law of TD3 and DDPG: action noise around a deterministic actor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecNormalize
from typing_extensions import override

from ove_sb3._validation import FloatArray
from ove_sb3.errors import UnsupportedPolicyError

from .box_distributions import ClippedNormal
from .distributions import ActionDistribution
from .identity import Part
from .laws import NOTHING, Given, Masks, NetworkLaw
from .networks import Observation, check_output, to_float64
from .noise import GaussianNoise


class NoisyActorLaw(NetworkLaw):
    """TD3 and DDPG with Gaussian action noise: a Gaussian around the actor's output, clipped.

    With Ornstein-Uhlenbeck noise, `state` is the noise before the draw, (n, d), in units of the
    half-width of the Box.
    """

    def __init__(self, model: Any, normalizer: VecNormalize | None) -> None:
        super().__init__(model.policy, model.policy.actor, normalizer)
        self.model = model

    @property
    def noise(self) -> GaussianNoise:
        """The model's noise of this moment: schedules replace it."""
        if self.model.action_noise is None:
            raise UnsupportedPolicyError(
                "`model` must have action noise: without it "
                f"{type(self.model).__name__} is deterministic and its actions have no density. "
                "Set model.action_noise = NormalActionNoise(...), also to evaluate it as a "
                "candidate."
            )
        return GaussianNoise(self.model.action_noise)

    @override
    def distribution(self, observations: Observation, given: Given = NOTHING) -> ActionDistribution:
        mean = self.mean(observations)
        n, d = mean.shape
        noise = self.noise
        shift, std = noise.parameters(n, d, given.state, given.episode_start)
        half = self.bounds.half_width
        law = ClippedNormal(self.bounds, self.bounds.from_unit(mean + shift), std * half)
        return _WithNoiseState(law, self.bounds.from_unit(mean)) if noise.has_state else law

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
        with self._forward():
            actor: Any = self.network
            found = to_float64(actor.mu(self.reader.features(observations)))
        check_output(found, observations)
        return found

    @override
    def variables(self) -> Iterator[Part]:
        yield from super().variables()
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
