"""A source of logged data whose true moments are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ove_sb3 import TrajectoryStatistics, trajectory_statistics
from ove_sb3.core.step_reduction import shard_statistics
from ove_sb3.core.steps import StepScores
from ove_sb3.core.truncation import ActionRatios, truncated_columns

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

    def sample_known(self, n: int, rng: np.random.Generator) -> tuple[Log, ActionRatios]:
        """As `sample`, with the ratios of all actions, or of draws of the candidate."""
        raise NotImplementedError

    def statistics(
        self, n: int, rng: np.random.Generator, *, known: bool = False
    ) -> TrajectoryStatistics:
        """Statistics of n trajectories; if `known`, with the columns for a known behavior."""
        if not known:
            log = self.sample(n, rng)
            return trajectory_statistics(*log, gamma=self.gamma, horizon=self.horizon)
        (log_ratios, rewards, lengths), actions = self.sample_known(n, rng)
        scores = StepScores(log_ratios, columns=truncated_columns(actions, lengths))
        return shard_statistics(scores, rewards, lengths, gamma=self.gamma, horizon=self.horizon)


def listed_ratios(
    candidate: FloatArray, behavior: FloatArray, states: IntArray, actions: IntArray
) -> ActionRatios:
    """Ratios of all actions of two tables, (n_states, n_actions)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(candidate > 0.0, candidate / behavior, 0.0)[states]
    logged = ratios[np.arange(len(actions)), actions]
    return ActionRatios(logged, ratios, candidate[states], exact=True)


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
        return self.sample_known(n, rng)[0]

    def sample_known(self, n: int, rng: np.random.Generator) -> tuple[Log, ActionRatios]:
        """As `sample`, with the ratios of all actions."""
        episodes = self.mdp.sample(self.behavior, n, rng)
        with np.errstate(divide="ignore"):
            log_ratios = np.log(self.candidate / self.behavior)[episodes.states, episodes.actions]
        log = log_ratios, episodes.rewards, episodes.lengths
        tables = self.candidate, self.behavior
        return log, listed_ratios(*tables, episodes.states, episodes.actions)
