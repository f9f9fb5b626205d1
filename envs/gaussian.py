"""A Gaussian policy for continuous actions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .checks import check_finite_array
from .streams import FloatArray


class GaussianPolicy:
    """Independent normal actions, whatever is observed.

    Actions are not clipped here: the density belongs to the action as drawn, and clipping, if any,
    is part of what the environment does with it. Ratios of two such densities are then exact.

    Parameters
    ----------
    mean, sd
        Mean and standard deviation of each action dimension, (d,); `sd` may be one number.
    """

    def __init__(self, mean: ArrayLike, sd: ArrayLike) -> None:
        shape = np.shape(mean)
        if len(shape) != 1:
            raise ValueError(f"`mean` must be a vector, one entry per dimension, got {mean!r}.")
        self.mean = check_finite_array("mean", mean, shape)
        self.sd = check_finite_array("sd", sd, shape)
        if (self.sd <= 0).any():
            raise ValueError(f"`sd` must be positive, got {self.sd}.")

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
        """Log-density of actions (n, d), (n,)."""
        z = (np.asarray(actions, dtype=np.float64) - self.mean) / self.sd
        constant = np.log(self.sd * np.sqrt(2.0 * np.pi)).sum()
        return np.asarray(-0.5 * (z**2).sum(axis=-1) - constant)
