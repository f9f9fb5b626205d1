"""Domains: environment, evaluation policy, behavior policy, logged data and true moments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.core.step_reduction import trajectory_statistics
from ove_sb3.envs import DiabetesEnv, Episodes, GaussianPolicy, GridworldEnv, RecommenderEnv

from .settings import Study

FloatArray = NDArray[np.float64]


class Domain(ABC):
    """Environment of a study with its evaluation policy pi and behavior policy.

    Parameters
    ----------
    study
        The settings.
    candidate
        The evaluation policy pi: action probabilities (n_states, n_actions), or the mean (d,) of a
        Gaussian.
    """

    def __init__(self, study: Study, candidate: Any) -> None:
        self.study = study
        self.candidate: FloatArray = np.asarray(candidate, dtype=np.float64)

    def log(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, Episodes]:
        """Log-ratios (n_steps,) and episodes of `n` trajectories of the behavior.

        The behavior's log-probabilities are recorded when the actions are drawn.
        """
        episodes = self._simulate_behavior(n, rng)
        return self._candidate_log_probs(episodes) - episodes.log_probs, episodes

    def statistics(self, log: tuple[FloatArray, Episodes], n: int) -> TrajectoryStatistics:
        """Statistics of the first `n` trajectories of a log."""
        log_ratios, episodes = log
        lengths = episodes.lengths[:n]
        steps = int(lengths.sum())
        return trajectory_statistics(
            log_ratios[:steps],
            episodes.rewards[:steps],
            lengths,
            gamma=self.study.gamma,
            horizon=self.study.horizon,
        )

    @abstractmethod
    def exact_moments(self) -> tuple[float, float] | None:
        """Exact mean and variance of the return under pi; None if they are not known."""

    @abstractmethod
    def returns(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Returns of `n` on-policy episodes of pi, (n,)."""

    @abstractmethod
    def _simulate_behavior(self, n: int, rng: np.random.Generator) -> Episodes: ...

    @abstractmethod
    def _candidate_log_probs(self, episodes: Episodes) -> FloatArray: ...


class TabularDomain(Domain):
    """Gridworld and recommender: tabular policies, and a behavior that mixes probabilities."""

    def __init__(self, study: Study, candidate: Any) -> None:
        super().__init__(study, candidate)
        self.env = make_env(study)
        alpha, n_actions = study.mixing, self.candidate.shape[1]
        self.behavior: FloatArray = alpha * self.candidate + (1.0 - alpha) / n_actions

    def exact_moments(self) -> tuple[float, float]:
        """Moments by dynamic programming or in closed form."""
        if self.study.domain == "gridworld":
            moments = self.env.exact_moments(self.candidate, self.study.gamma)
        else:
            moments = self.env.exact_moments(self.candidate)
        return moments.mean, moments.variance

    def returns(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Simulated on-policy returns."""
        return np.asarray(self.env.simulate(self.candidate, n, rng).returns(self.study.gamma))

    def _simulate_behavior(self, n: int, rng: np.random.Generator) -> Episodes:
        return self.env.simulate(self.behavior, n, rng)

    def _candidate_log_probs(self, episodes: Episodes) -> FloatArray:
        with np.errstate(divide="ignore"):
            log_pi = np.log(self.candidate)
        return np.asarray(log_pi[episodes.observations, episodes.actions])


class GaussianDomain(Domain):
    """Diabetes: Gaussian policies of fixed standard deviation, and a behavior that mixes means."""

    def __init__(self, study: Study, candidate: Any) -> None:
        super().__init__(study, candidate)
        self.env = make_env(study)
        if study.training is None or study.training.sd is None:
            raise ValueError(f"study {study.name!r} needs a training with a fixed `sd`.")
        alpha, sd = study.mixing, study.training.sd
        mean = alpha * self.candidate + (1.0 - alpha) * random_mean(study)
        self.policy = GaussianPolicy(self.candidate, sd)
        self.behavior = GaussianPolicy(mean, sd)

    def exact_moments(self) -> None:
        """None: they are not known."""
        return

    def returns(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Simulated on-policy returns."""
        return np.asarray(self.env.simulate(self.policy, n, rng).returns())

    def _simulate_behavior(self, n: int, rng: np.random.Generator) -> Episodes:
        return self.env.simulate(self.behavior, n, rng)

    def _candidate_log_probs(self, episodes: Episodes) -> FloatArray:
        return np.asarray(self.policy.log_prob(episodes.actions))


def make_env(study: Study) -> Any:
    """Environment of a study."""
    kinds = {"gridworld": GridworldEnv, "recommender": RecommenderEnv, "diabetes": DiabetesEnv}
    return kinds[study.domain](**study.env)


def make_domain(study: Study, candidate: Any) -> Domain:
    """Domain of a study with its evaluation policy."""
    kind = GaussianDomain if study.domain == "diabetes" else TabularDomain
    return kind(study, candidate)


def random_mean(study: Study) -> FloatArray:
    """Mean of the random Gaussian policy, as an action in [-1, 1], (d,)."""
    dosing = make_env(study).dosing
    low, high = dosing.ranges.T
    if study.random == "midpoint":
        return np.asarray(dosing.action(*((low + high) / 2.0)))
    return np.asarray(dosing.action(*((high - low) / 2.0)))
