"""Problems of one step: items with clipped normal or binary rewards, and Gaussian actions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from ove_sb3.core.truncation import ActionRatios

from .mdp import FloatArray
from .problem import Log, Problem, listed_ratios


@dataclass(frozen=True)
class Bandit(Problem):
    """One step, finitely many items, normal rewards clipped to the range (or 0/1 rewards)."""

    candidate: FloatArray
    behavior: FloatArray
    means: FloatArray
    deviations: FloatArray | None

    def sample(self, n: int, rng: np.random.Generator) -> Log:
        """Draw n items and their rewards."""
        return self.sample_known(n, rng)[0]

    def sample_known(self, n: int, rng: np.random.Generator) -> tuple[Log, ActionRatios]:
        """As `sample`, with the ratios of all items."""
        item = rng.choice(self.behavior.size, n, p=self.behavior)
        if self.deviations is None:
            rewards = (rng.random(n) < self.means[item]).astype(np.float64)
        else:
            noisy = self.means[item] + self.deviations[item] * rng.normal(size=n)
            rewards = np.clip(noisy, *self.reward_range)
        with np.errstate(divide="ignore"):
            log_ratios = np.log(self.candidate[item] / self.behavior[item])
        log = log_ratios, rewards, np.ones(n, dtype=np.int64)
        tables = self.candidate[None], self.behavior[None]
        return log, listed_ratios(*tables, np.zeros(n, dtype=np.int64), item)


@dataclass(frozen=True)
class GaussianBandit(Problem):
    """One step, a ~ N(0, 1) under the behavior and N(shift, 1) under the candidate."""

    shift: float
    noise: float

    def sample(self, n: int, rng: np.random.Generator) -> Log:
        """Draw n actions and their rewards."""
        action = rng.normal(size=n)
        noisy = _peak(action) + self.noise * rng.normal(size=n)
        rewards = np.clip(noisy, *self.reward_range)
        return self._log_ratio(action), rewards, np.ones(n, dtype=np.int64)

    def sample_known(self, n: int, rng: np.random.Generator) -> tuple[Log, ActionRatios]:
        """As `sample`, with the ratios of draws of the candidate."""
        (other,) = rng.spawn(1)
        log = self.sample(n, rng)
        ratios = np.exp(self._log_ratio(self.shift + other.normal(size=(n, 4))))
        return log, ActionRatios(np.exp(log[0]), ratios, np.full_like(ratios, 0.25), exact=False)

    def _log_ratio(self, action: FloatArray) -> FloatArray:
        return self.shift * action - self.shift**2 / 2


def recommender() -> Bandit:
    """The recommender of the paper's authors: five items, a near-optimal candidate."""
    candidate = np.array([0.00495, 0.99102, 0.00014, 0.00308, 0.00081])
    candidate /= candidate.sum()
    return _bandit(
        "recommender",
        candidate,
        0.5 * candidate + 0.5 / 5,
        10 * np.random.RandomState(1).rand(5),
        0.1 * np.random.RandomState(0).rand(5),
        (0.0, 10.0),
    )


def binary_bandit() -> Bandit:
    """Three items with rewards 0 or 1."""
    return _bandit("bandit_binary", [0.6, 0.3, 0.1], [0.2, 0.3, 0.5], [0.9, 0.5, 0.2], None, (0, 1))


def adversary(rarity: float, share: float = 0.2, *, rare_reward: float = 1.0) -> Bandit:
    """Rare, large weights on the adverse side: an item that the behavior hardly ever shows.

    It has `share` of the candidate's probability, and its reward is at the end of the range.
    """
    return _bandit(
        f"adversary_{rarity:g}_{rare_reward:g}",
        [1 - share, share],
        [1 - rarity, rarity],
        [1 - rare_reward, rare_reward],
        [0.0, 0.0],
        (0.0, 1.0),
    )


def continuous_bandit(shift: float = 0.6) -> GaussianBandit:
    """Gaussian actions, rewards that peak far from zero, unbounded weights."""
    low, high, noise = 0.0, 10.0, 0.3
    action, mass = np.polynomial.hermite_e.hermegauss(200)
    mass = mass / mass.sum()
    first, second = _clipped_moments(_peak(action + shift), np.full(200, noise), low, high)
    mean = float(mass @ first)
    variance = float(mass @ second) - mean**2
    return GaussianBandit(
        "bandit_continuous", 1.0, 1, (low, high), mean, variance, None, shift=shift, noise=noise
    )


def _peak(action: FloatArray) -> FloatArray:
    return 8.0 - 0.5 * (action - 1.0) ** 2


def _bandit(
    name: str,
    candidate: object,
    behavior: object,
    means: object,
    deviations: object | None,
    reward_range: tuple[float, float],
) -> Bandit:
    pi, beta = np.asarray(candidate, dtype=float), np.asarray(behavior, dtype=float)
    item_means = np.asarray(means, dtype=float)
    item_deviations = None if deviations is None else np.asarray(deviations, dtype=float)
    if item_deviations is None:
        first, second = item_means, item_means
    else:
        first, second = _clipped_moments(item_means, item_deviations, *reward_range)
    mean = float(pi @ first)
    return Bandit(
        name,
        1.0,
        1,
        reward_range,
        mean,
        float(pi @ second) - mean**2,
        float((pi / beta).max()),
        candidate=pi,
        behavior=beta,
        means=item_means,
        deviations=item_deviations,
    )


def _clipped_moments(
    means: FloatArray, deviations: FloatArray, low: float, high: float
) -> tuple[FloatArray, FloatArray]:
    """First two moments of a normal variable clipped to [low, high]."""
    s = np.maximum(deviations, 1e-300)
    with np.errstate(over="ignore"):
        a, b = (low - means) / s, (high - means) / s
        below, above = ndtr(a), ndtr(-b)
        inside = ndtr(b) - below
        density_a = np.exp(-np.minimum(a**2, 1e6) / 2) / math.sqrt(2 * math.pi)
        density_b = np.exp(-np.minimum(b**2, 1e6) / 2) / math.sqrt(2 * math.pi)
    first = means * inside + s * (density_a - density_b)
    second = (means**2 + s**2) * inside
    second = second + s * ((means + low) * density_a - (means + high) * density_b)
    return (
        low * below + high * above + first,
        low**2 * below + high**2 * above + second,
    )
