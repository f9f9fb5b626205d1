"""Action noise of stable-baselines3: its distribution and its state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from stable_baselines3.common.noise import (
    ActionNoise,
    NormalActionNoise,
    OrnsteinUhlenbeckActionNoise,
    VectorizedActionNoise,
)

from ove_sb3._validation import FloatArray
from ove_sb3.errors import InvalidInputError, UnsupportedPolicyError


class GaussianNoise:
    """NormalActionNoise or OrnsteinUhlenbeckActionNoise, in units of the half-width of the Box.

    Parameters
    ----------
    noise : ActionNoise
        As held by the model; for vectorized noise its base is used.
    """

    def __init__(self, noise: ActionNoise) -> None:
        base: Any = noise.base_noise if isinstance(noise, VectorizedActionNoise) else noise
        if type(base) not in (NormalActionNoise, OrnsteinUhlenbeckActionNoise):
            raise UnsupportedPolicyError(
                "`model.action_noise` must be NormalActionNoise or OrnsteinUhlenbeckActionNoise, "
                f"got {type(base).__qualname__}. The distribution of other noise is not known."
            )
        self.base = base
        self.mean = np.asarray(base._mu, dtype=np.float64)
        self.sigma = np.asarray(base._sigma, dtype=np.float64)
        self.has_state = isinstance(base, OrnsteinUhlenbeckActionNoise)
        if not (self.sigma > 0).all():
            raise UnsupportedPolicyError(
                "`model.action_noise` must have a positive sigma in every dimension, got "
                f"{self.sigma.tolist()}. Without noise the action has no density."
            )

    @property
    def initial(self) -> FloatArray:
        """State at the start of an episode, (d,)."""
        noise = self.base.initial_noise
        return np.zeros_like(self.mean) if noise is None else np.asarray(noise, dtype=np.float64)

    def parameters(
        self, n: int, d: int, state: ArrayLike | None, episode_start: NDArray[np.bool_] | None
    ) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of the next noise, both (n, d).

        `state` is the noise before the draw, (n, d). The initial noise is used if it is None, and
        where `episode_start` is True.
        """
        if not self.has_state:
            return np.broadcast_to(self.mean, (n, d)), np.broadcast_to(self.sigma, (n, d))
        before = np.broadcast_to(self.initial if state is None else np.asarray(state), (n, d))
        if before.shape != (n, d):
            raise InvalidInputError(
                f"`state` must hold the noise before the draw, shape {(n, d)}, got {before.shape}."
            )
        if state is not None and episode_start is not None:
            before = np.where(np.asarray(episode_start, bool)[:, None], self.initial, before)
        theta, dt = self.base._theta, self.base._dt
        mean = before + theta * (self.mean - before) * dt
        return mean, np.broadcast_to(self.sigma * np.sqrt(dt), (n, d))

    def fingerprint_parts(self) -> Iterable[bytes]:
        """Description of everything that the distribution of the noise depends on."""
        yield type(self.base).__name__.encode()
        yield self.mean.tobytes()
        yield self.sigma.tobytes()
        if self.has_state:
            yield np.array([self.base._theta, self.base._dt]).tobytes() + self.initial.tobytes()
