"""Domains: environment, evaluation policy, behavior policy, logged data and true moments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.core.step_reduction import trajectory_statistics
from ove_sb3.core.truncation import ActionRatios, truncated_columns
from ove_sb3.envs import DiabetesEnv, Episodes, GaussianPolicy, GridworldEnv, RecommenderEnv
from ove_sb3.policies.episode_mixture import component_log_ratios
from ove_sb3.policies.known_behavior import N_DRAWS

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

    def canary_log(
        self, n: int, share: float, rng: np.random.Generator
    ) -> tuple[FloatArray, Episodes]:
        """Log of a mixture in which pi acts in a `share` of the episodes, drawn for each."""
        acted = rng.random(n) < share
        parts = [
            self._simulate_behavior(int(n - acted.sum()), rng),
            self._simulate_candidate(int(acted.sum()), rng),
        ]
        episodes = _interleave(parts, acted)
        log_probs = np.stack(
            [self._behavior_log_probs(episodes), self._candidate_log_probs(episodes)], axis=1
        )
        weights = np.log([1.0 - share, share])
        return component_log_ratios(log_probs, weights, episodes.lengths, 1), episodes

    def known_statistics(
        self, log: tuple[FloatArray, Episodes], n: int, rng: np.random.Generator
    ) -> TrajectoryStatistics:
        """Statistics of the first `n` trajectories, with the truncated weights of both policies."""
        stats = self.statistics(log, n)
        log_ratios, episodes = log
        steps = slice(0, stats.n_steps)
        actions = self._action_ratios(np.exp(log_ratios[steps]), episodes, steps, rng)
        columns = {**stats.columns, **truncated_columns(actions, stats.lengths)}
        return replace(stats, columns=columns)

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
    def _simulate_candidate(self, n: int, rng: np.random.Generator) -> Episodes: ...

    @abstractmethod
    def _candidate_log_probs(self, episodes: Episodes) -> FloatArray: ...

    @abstractmethod
    def _behavior_log_probs(self, episodes: Episodes) -> FloatArray: ...

    @abstractmethod
    def _action_ratios(
        self, logged: FloatArray, episodes: Episodes, steps: slice, rng: np.random.Generator
    ) -> ActionRatios:
        """Ratios of all actions at the given steps, or of draws of pi."""


def _interleave(parts: Sequence[Episodes], chosen: NDArray[np.bool_]) -> Episodes:
    """Episodes of two sources in the order in which `chosen` names the second of them."""
    lengths = np.concatenate([part.lengths for part in parts])
    starts = np.cumsum(lengths) - lengths
    order = np.empty(chosen.size, dtype=np.int64)
    order[~chosen] = np.arange(int((~chosen).sum()))
    order[chosen] = np.arange(int((~chosen).sum()), chosen.size)
    taken = lengths[order]
    shift = starts[order] - (np.cumsum(taken) - taken)
    steps = np.arange(int(taken.sum())) + np.repeat(shift, taken)
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])[steps]
        for name in ("observations", "actions", "log_probs", "rewards")
    }
    return Episodes(**joined, lengths=taken)


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

    def _simulate_candidate(self, n: int, rng: np.random.Generator) -> Episodes:
        return self.env.simulate(self.candidate, n, rng)

    def _candidate_log_probs(self, episodes: Episodes) -> FloatArray:
        with np.errstate(divide="ignore"):
            log_pi = np.log(self.candidate)
        return np.asarray(log_pi[episodes.observations, episodes.actions])

    def _behavior_log_probs(self, episodes: Episodes) -> FloatArray:
        return np.asarray(np.log(self.behavior)[episodes.observations, episodes.actions])

    def _action_ratios(
        self, logged: FloatArray, episodes: Episodes, steps: slice, rng: np.random.Generator
    ) -> ActionRatios:
        del rng
        states, actions = episodes.observations[steps], episodes.actions[steps]
        ratios = (self.candidate / self.behavior)[states]
        # The same number for the logged action: ties are decided alike.
        logged = ratios[np.arange(len(actions)), actions]
        return ActionRatios(logged, ratios, self.candidate[states], exact=True)


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

    def _simulate_candidate(self, n: int, rng: np.random.Generator) -> Episodes:
        return self.env.simulate(self.policy, n, rng)

    def _candidate_log_probs(self, episodes: Episodes) -> FloatArray:
        return np.asarray(self.policy.log_prob(episodes.actions))

    def _behavior_log_probs(self, episodes: Episodes) -> FloatArray:
        return np.asarray(self.behavior.log_prob(episodes.actions))

    def _action_ratios(
        self, logged: FloatArray, episodes: Episodes, steps: slice, rng: np.random.Generator
    ) -> ActionRatios:
        ratios = np.empty((logged.size, N_DRAWS))
        for j in range(N_DRAWS):
            drawn, log_pi = self.policy(episodes.observations[steps], rng)
            ratios[:, j] = np.exp(log_pi - self.behavior.log_prob(drawn))
        return ActionRatios(logged, ratios, np.full_like(ratios, 1.0 / N_DRAWS), exact=False)


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
