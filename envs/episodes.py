"""Simulated episodes as flat arrays, and the exact moments of a return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .streams import FloatArray, IntArray


class Moments(NamedTuple):
    """Exact mean and variance of the return."""

    mean: float
    variance: float


class StepOutcome(NamedTuple):
    """Rewards (n,), and whether each episode has ended by itself or by the time limit, (n,)."""

    rewards: FloatArray
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


class Policy(Protocol):
    """A policy as a function: draws an action for every observation and says how likely it was."""

    def __call__(
        self, observations: NDArray[Any], rng: np.random.Generator
    ) -> tuple[NDArray[Any], FloatArray]:
        """Actions, one per observation, and their log-probabilities (log-densities), (n,)."""
        ...


@dataclass(frozen=True)
class Episodes:
    """Complete episodes, one after the other.

    Attributes
    ----------
    observations
        Observation before each step, (n_steps, ...).
    actions
        Action of each step, (n_steps, ...).
    log_probs
        Log-probability (discrete) or log-density (continuous) of each action as it was drawn,
        (n_steps,); 0 for actions given in advance.
    rewards
        Reward of each step, (n_steps,).
    lengths
        Number of steps of each episode, (n_episodes,).
    """

    observations: NDArray[Any]
    actions: NDArray[Any]
    log_probs: FloatArray
    rewards: FloatArray
    lengths: IntArray

    def __len__(self) -> int:
        return int(self.lengths.shape[0])

    def returns(self, gamma: float = 1.0) -> FloatArray:
        """The return ``sum_t gamma^t R_t`` of each episode, (n_episodes,)."""
        starts = np.cumsum(self.lengths) - self.lengths
        time = np.arange(self.rewards.shape[0]) - np.repeat(starts, self.lengths)
        return np.asarray(np.add.reduceat(self.rewards * np.float64(gamma) ** time, starts))
