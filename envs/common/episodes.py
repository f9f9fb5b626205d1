"""Simulated episodes as flat arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .types import FloatArray, IntArray


class Moments(NamedTuple):
    """Exact mean and variance of the return."""

    mean: float
    variance: float


class StepOutcome(NamedTuple):
    """Rewards, terminations and truncations of one step of n episodes, (n,) each."""

    rewards: FloatArray
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]

    @classmethod
    def all_terminated(cls, rewards: FloatArray) -> StepOutcome:
        """Outcome of a step that terminates every episode."""
        terminated = np.ones(rewards.shape[0], dtype=np.bool_)
        return cls(rewards, terminated, np.zeros_like(terminated))


@dataclass(frozen=True)
class Episodes:
    """Complete episodes, concatenated.

    Attributes
    ----------
    observations
        Observation before each step, (n_steps, ...).
    actions
        Action of each step, (n_steps, ...).
    log_probs
        Log-probability (discrete) or log-density (continuous) of each action as drawn, (n_steps,);
        0 for actions fixed in advance.
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
        """Return ``sum_t gamma^t R_t`` of each episode, (n_episodes,)."""
        starts = np.cumsum(self.lengths) - self.lengths
        time = np.arange(self.rewards.shape[0]) - np.repeat(starts, self.lengths)
        return np.asarray(np.add.reduceat(self.rewards * np.float64(gamma) ** time, starts))
