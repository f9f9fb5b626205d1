"""The reference excess: about how far above the truth an upper bound on the variance must lie.

A log of n trajectories may well lack the trajectories of total probability log(1/a)/n under the
behavior, with probability about a. Where weights are largest, these have the largest probability
under the candidate; if their returns were the worst possible ones, the variance would be larger by
that probability times the largest squared distance of a return from the mean. No bound at level a
that holds for all environments can be much below that: an exact comparison of two environments
shows that about half of it is unavoidable.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, ndtri

from tests.problems.bandits import Bandit, GaussianBandit
from tests.problems.mdp import FloatArray
from tests.problems.problem import Problem, Tabular

LEVEL = 0.025
_DRAWS = 200_000  # of the candidate, for problems of several steps


class ReferenceExcess:
    """Reference excess of upper bounds on the variance at a level, for any n."""

    def __init__(self, problem: Problem, level: float = LEVEL) -> None:
        self.problem, self.level = problem, level
        c = sum(problem.gamma**t for t in range(problem.horizon))
        low, high = min(c * problem.reward_range[0], 0.0), max(c * problem.reward_range[1], 0.0)
        self._worst = max(high - problem.mean, problem.mean - low) ** 2
        self._a_priori = (high - low) ** 2 / 4 - problem.variance
        self._curve = None if isinstance(problem, GaussianBandit) else _curve(problem)

    def __call__(self, n: int) -> float:
        """Reference excess for n trajectories."""
        if self._curve is not None:
            mass = float(np.interp(_share(n, self.level), *self._curve))
        else:
            assert isinstance(self.problem, GaussianBandit)
            mass = unseen_mass(self.problem.shift, n, self.level)
        return min(mass * self._worst, self._a_priori)


def unseen_mass(shift: float, n: int, level: float = LEVEL) -> float:
    """Largest probability under the candidate of the outcomes that n trajectories may well lack.

    For normal distributions of one action, whose means are `shift` standard deviations apart.
    """
    return float(ndtr(shift + ndtri(_share(n, level))))


def worst_square(returns: FloatArray, return_range: tuple[float, float]) -> float:
    """Largest possible squared distance of a return from the mean of `returns`."""
    low, high = return_range
    return float(max(high - returns.mean(), returns.mean() - low) ** 2)


def _share(n: int, level: float) -> float:
    """Probability under the behavior of the outcomes that n trajectories may well lack."""
    return min(-math.log(level) / n, 0.5)


def _curve(problem: Problem) -> tuple[FloatArray, FloatArray]:
    """Total probability of the k largest weights under behavior and candidate, k = 0, 1, ..."""
    if isinstance(problem, Bandit):
        weights, mass = problem.candidate / problem.behavior, problem.candidate
    elif isinstance(problem, Tabular):
        weights = _weights(problem, np.random.default_rng(0))
        mass = np.full(_DRAWS, 1.0 / _DRAWS)
    else:
        raise TypeError(f"`problem` must be a bandit or tabular, got {type(problem).__name__}.")
    order = np.argsort(-weights)
    weights, mass = weights[order], mass[order]
    behavior, candidate = np.cumsum(mass / weights), np.cumsum(mass)
    return np.append(0.0, behavior), np.append(0.0, candidate)


def _weights(problem: Tabular, rng: np.random.Generator) -> FloatArray:
    """Weights of trajectories that are drawn from the candidate."""
    episodes = problem.mdp.sample(problem.candidate, _DRAWS, rng)
    log_ratios = np.log(problem.candidate / problem.behavior)[episodes.states, episodes.actions]
    starts = np.cumsum(episodes.lengths) - episodes.lengths
    return np.asarray(np.exp(np.add.reduceat(log_ratios, starts)))
