"""Functions that `simulate` accepts as policies."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ove_sb3.errors import InvalidInputError

from .checks import check_finite_array
from .types import FloatArray


class Policy(Protocol):
    """Function that draws one action per observation."""

    def __call__(
        self, observations: NDArray[Any], rng: np.random.Generator
    ) -> tuple[NDArray[Any], FloatArray]:
        """Actions (n, ...) for n observations, and their log-probabilities or -densities, (n,)."""
        ...


def draw_actions(
    policy: Policy, observations: NDArray[Any], rng: np.random.Generator
) -> tuple[NDArray[Any], FloatArray]:
    """Actions of `policy`, not validated, and their log-probabilities as floats, (n,)."""
    actions, log_probs = policy(observations, rng)
    n = observations.shape[0]
    result = np.asarray(log_probs, dtype=np.float64)
    if result.size != n:
        raise InvalidInputError(
            f"`policy` must return actions and {n} log-probabilities, one per observation, got "
            f"log-probabilities of shape {result.shape}."
        )
    return actions, result.reshape(n)


class GaussianPolicy:
    """Independent normal actions that do not depend on the observation.

    Actions are not clipped: the density is that of the action as drawn, and clipping is left to
    the environment. Ratios of two such densities are therefore exact.

    Parameters
    ----------
    mean, sd
        Mean and standard deviation of each action dimension, (d,); `sd` may be a scalar.
    """

    def __init__(self, mean: ArrayLike, sd: ArrayLike) -> None:
        shape = np.shape(mean)
        if len(shape) != 1:
            raise InvalidInputError(
                f"`mean` must be a vector, one entry per action dimension, got {mean!r}."
            )
        self.mean = check_finite_array(mean, "mean", shape)
        self.sd = check_finite_array(sd, "sd", shape)
        if (self.sd <= 0).any():
            raise InvalidInputError(f"`sd` must be positive, got {self.sd}.")

    def __repr__(self) -> str:
        return f"GaussianPolicy(mean={self.mean.tolist()}, sd={self.sd.tolist()})"

    def __call__(
        self, observations: NDArray[np.float32], rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """Actions (n, d) for n observations, and their log-densities (n,)."""
        noise = rng.standard_normal((observations.shape[0], self.mean.shape[0]))
        actions = self.mean + self.sd * noise
        return actions, self.log_prob(actions)

    def log_prob(self, actions: ArrayLike) -> FloatArray:
        """Log-densities, (n,), of actions, (n, d)."""
        z = (np.asarray(actions, dtype=np.float64) - self.mean) / self.sd
        constant = np.log(self.sd * np.sqrt(2.0 * np.pi)).sum()
        return np.asarray(-0.5 * (z**2).sum(axis=-1) - constant)
