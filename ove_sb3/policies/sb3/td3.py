"""TD3 and DDPG: action noise around a deterministic actor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecNormalize
from typing_extensions import override

from ove_sb3._validation import FloatArray, as_generator
from ove_sb3.errors import UnsupportedPolicyError
from ove_sb3.policies.bounds import BoxBounds
from ove_sb3.policies.box import ClippedNormal
from ove_sb3.policies.distribution import ActionDistribution, Rng
from ove_sb3.policies.fingerprint import Part
from ove_sb3.policies.observations import Observation
from ove_sb3.policies.policy import NO_CONTEXT, Masks, PolicyContext
from ove_sb3.policies.registry import register_adapter
from ove_sb3.policies.rounding import SquashedGrid

from . import acting
from .adapter import NetworkAdapter
from .generators import numpy_generator
from .networks import refuse_nan
from .noise import GaussianNoise


class TD3Adapter(NetworkAdapter):
    """TD3 or DDPG with Gaussian action noise: a Gaussian around the actor's output, clipped.

    With Ornstein-Uhlenbeck noise, `state` is the noise before the draw, (n, d), in units of the
    half-width of the Box.
    """

    def __init__(self, model: Any, normalizer: VecNormalize | None) -> None:
        super().__init__(model.policy, model.policy.actor, normalizer)
        self.model = model

    @property
    def noise(self) -> GaussianNoise:
        """Current noise of the model; a schedule may replace it."""
        if self.model.action_noise is None:
            raise UnsupportedPolicyError(
                "`model` must have action noise: without it "
                f"{type(self.model).__name__} is deterministic and its actions have no density. "
                "Set model.action_noise = NormalActionNoise(...), also to evaluate it as a "
                "candidate."
            )
        return GaussianNoise(self.model.action_noise)

    @override
    def distribution(
        self, observations: Observation, context: PolicyContext = NO_CONTEXT
    ) -> ActionDistribution:
        mean = self.mean(observations)
        n, d = mean.shape
        noise = self.noise
        shift, std = noise.parameters(n, d, context.state, context.episode_start)
        half = self.bounds.half_width
        noisy_mean = self.bounds.from_unit(mean + shift)
        if noise.has_state:
            center = self.bounds.from_unit(mean)
            return _NoiseStateNormal(self.bounds, noisy_mean, std * half, center)
        return _NoisyActor(self.bounds, noisy_mean, std * half)

    @override
    def unroll(
        self, observations: Observation, lengths: NDArray[np.int64], action_masks: Masks | None
    ) -> ActionDistribution:
        if self.noise.has_state:
            raise UnsupportedPolicyError(
                "`model` must not have Ornstein-Uhlenbeck noise as a candidate: the noise before "
                "each draw is not known from a log, because clipping hides it. Set "
                "model.action_noise = NormalActionNoise(...) to evaluate it."
            )
        return super().unroll(observations, lengths, action_masks)

    @property
    @override
    def has_noise_state(self) -> bool:
        return self.noise.has_state

    @override
    def generators(self) -> Iterable[tuple[Any, Any]]:
        return numpy_generator()

    def mean(self, observations: Observation) -> FloatArray:
        """Output of the actor in [-1, 1], (n, d), to which SB3 adds the noise.

        Before that, SB3 scales it to the bounds and back, which loses digits.
        """
        policy: Any = self.policy
        with self._forward():
            actor: Any = self.network
            output = actor.mu(self.reader.features(observations)).cpu().numpy()
        refuse_nan(output, observations)
        executed = policy.unscale_action(output.reshape(-1, *self.bounds.space.shape))
        return np.asarray(policy.scale_action(executed), np.float64).reshape(output.shape)

    @override
    def _learned_parts(self) -> Iterator[Part]:
        yield from super()._learned_parts()
        yield from self.noise.fingerprint_parts()


class _NoisyActor(ClippedNormal):
    """Clipped normal, rounded as SB3 rounds it: in single precision in [-1, 1], then scaled."""

    @property
    @override
    def _grid(self) -> SquashedGrid:
        return self.bounds.squashed_grid

    @override
    def sample(self, rng: Rng = None) -> NDArray[Any]:
        unit = np.clip(self.bounds.to_unit(self._draw(as_generator(rng))), -1.0, 1.0)
        return self._grid.scale(unit.astype(np.float32)).reshape(-1, *self.bounds.space.shape)


class _NoiseStateNormal(_NoisyActor):
    """Clipped normal whose next `state` is its unclipped noise."""

    def __init__(
        self, bounds: BoxBounds, mean: FloatArray, std: FloatArray, center: FloatArray
    ) -> None:
        super().__init__(bounds, mean, std)
        self._center = center

    def _draw(self, rng: np.random.Generator) -> FloatArray:
        x = super()._draw(rng)
        self.state = (x - self._center) / self.bounds.half_width
        return x


def _of_model(model: Any, normalizer: VecNormalize | None) -> TD3Adapter:
    acting.check_acts_as(model.policy, ("TD3Policy",), acting.POLICY)
    acting.check_acts_as(model.policy.actor, ("Actor",), acting.NETWORK)
    adapter = TD3Adapter(model, normalizer)
    _ = adapter.noise  # refuses noise without a density
    return adapter


register_adapter("stable_baselines3.td3.td3.TD3", make=_of_model, acting=acting.MODEL)
register_adapter(
    "stable_baselines3.td3.policies.TD3Policy",
    make=acting.refuse_bare_policy("Pass the model with its action noise."),
)
