"""A source of logged data whose true moments are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ove_sb3 import TrajectoryStatistics, trajectory_statistics

from .mdp import FiniteMDP, FloatArray, IntArray

Log = tuple[FloatArray, FloatArray, IntArray]


@dataclass(frozen=True)
class Problem:
    """A source of logged data and the truth about the candidate.

    `mean` and `variance` are those of the candidate's return; `max_ratio` bounds the importance
    ratio of a step, None if it is unbounded.
    """

    name: str
    gamma: float
    horizon: int
    reward_range: tuple[float, float]
    mean: float
    variance: float
    max_ratio: float | None

    def sample(self, n: int, rng: np.random.Generator) -> Log:
        """Draw n trajectories of the behavior: flat log-ratios, rewards, and lengths."""
        raise NotImplementedError

    def statistics(self, n: int, rng: np.random.Generator) -> TrajectoryStatistics:
        """Draw n trajectories and compute their statistics."""
        return trajectory_statistics(*self.sample(n, rng), gamma=self.gamma, horizon=self.horizon)


@dataclass(frozen=True)
class Tabular(Problem):
    """A finite decision process with a candidate and a behavior, tables of probabilities."""

    mdp: FiniteMDP
    candidate: FloatArray
    behavior: FloatArray

    @classmethod
    def of(cls, name: str, mdp: FiniteMDP, candidate: FloatArray, behavior: FloatArray) -> Tabular:
        """Problem with the exact moments of the candidate."""
        mean, variance = mdp.moments(candidate)
        return cls(
            name,
            mdp.gamma,
            mdp.horizon,
            (float(mdp.reward.min()), float(mdp.reward.max())),
            mean,
            variance,
            float((candidate / behavior).max()),
            mdp=mdp,
            candidate=candidate,
            behavior=behavior,
        )

    def sample(self, n: int, rng: np.random.Generator) -> Log:
        """Simulate n episodes of the behavior."""
        episodes = self.mdp.sample(self.behavior, n, rng)
        with np.errstate(divide="ignore"):
            log_ratios = np.log(self.candidate / self.behavior)[episodes.states, episodes.actions]
        return log_ratios, episodes.rewards, episodes.lengths
