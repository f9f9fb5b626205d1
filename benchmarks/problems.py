"""Test problems with known truth, small enough to draw many logs from.

Each problem knows the exact mean and variance of the candidate's return, the range of its rewards,
and a bound on the importance ratio if there is one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ove_sb3 import TrajectoryStatistics, trajectory_statistics
from ove_sb3.core.statistics import StepScores, shard_statistics
from ove_sb3.core.truncation import ActionRatios, truncated_columns

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Log = tuple[FloatArray, FloatArray, IntArray]


@dataclass(frozen=True)
class Problem:
    """A source of logged data and its true moments."""

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
        """Draw n trajectories and compute their statistics, `known`: for a known behavior."""
        if not known:
            log = self.sample(n, rng)
            return trajectory_statistics(*log, gamma=self.gamma, horizon=self.horizon)
        (log_ratios, rewards, lengths), actions = self.sample_known(n, rng)
        scores = StepScores(log_ratios, columns=truncated_columns(actions, lengths))
        return shard_statistics(scores, rewards, lengths, gamma=self.gamma, horizon=self.horizon)


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
        return log, _listed(self.candidate, self.behavior, np.zeros(n, dtype=np.int64), item)


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


@dataclass(frozen=True)
class Tabular(Problem):
    """A finite decision process with transition P[s, a, s'] and reward R[s, a, s']."""

    transition: FloatArray
    reward: FloatArray
    candidate: FloatArray
    behavior: FloatArray
    terminal: NDArray[np.bool_]

    def sample(self, n: int, rng: np.random.Generator) -> Log:
        """Roll out n episodes from state 0."""
        return self.sample_known(n, rng)[0]

    def sample_known(self, n: int, rng: np.random.Generator) -> tuple[Log, ActionRatios]:
        """As `sample`, with the ratios of all actions."""
        n_states, n_actions = self.candidate.shape
        with np.errstate(divide="ignore"):
            log_ratio = np.log(self.candidate / self.behavior)
        choose, move = np.cumsum(self.behavior, axis=1), np.cumsum(self.transition, axis=2)
        state = np.zeros(n, dtype=np.int64)
        log_ratios, rewards = np.zeros((n, self.horizon)), np.zeros((n, self.horizon))
        states, actions = np.zeros((2, n, self.horizon), dtype=np.int64)
        lengths = np.full(n, self.horizon)
        alive = np.ones(n, dtype=bool)
        for t in range(self.horizon):
            action = (rng.random((n, 1)) > choose[state]).sum(axis=1).clip(max=n_actions - 1)
            after = (rng.random((n, 1)) > move[state, action]).sum(axis=1).clip(max=n_states - 1)
            log_ratios[:, t] = log_ratio[state, action]
            states[:, t], actions[:, t] = state, action
            rewards[:, t] = self.reward[state, action, after]
            state = np.where(alive, after, state)
            ends = alive & self.terminal[state]
            lengths[ends] = t + 1
            alive &= ~ends
        logged = np.arange(self.horizon) < lengths[:, None]
        log = log_ratios[logged], rewards[logged], lengths
        return log, _listed(self.candidate, self.behavior, states[logged], actions[logged])


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


def gridworld(
    horizon: int,
    *,
    step: float = -1.0,
    goal: float = 0.0,
    pit: float = 0.0,
    temperature: float = 0.3,
    alpha: float = 0.5,
    slip: float = 0.1,
    gamma: float = 1.0,
    name: str | None = None,
) -> Tabular:
    """4x4 grid with eight moves, slips and a goal; behavior alpha pi + (1 - alpha)/8."""
    size, n_states = 4, 16
    moves = [(-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]
    target = np.empty((n_states, 8), dtype=np.int64)
    for s in range(n_states):
        for a, (down, right) in enumerate(moves):
            row = min(max(s // size + down, 0), size - 1)
            target[s, a] = row * size + min(max(s % size + right, 0), size - 1)
    transition = np.zeros((n_states, 8, n_states))
    for s in range(n_states):
        for a in range(8):
            transition[s, a, target[s, a]] += 1 - slip
            np.add.at(transition[s, a], target[s], slip / 8)
    reward = np.full((n_states, 8, n_states), step)
    reward[:, :, -1] += goal
    reward[:, :, 5] += pit
    terminal = np.arange(n_states) == n_states - 1
    values = np.zeros((n_states, 8))
    for _ in range(200):
        best = np.where(terminal, 0.0, values.max(axis=1))
        values = np.einsum("sax,sax->sa", transition, reward + 0.95 * best)
    candidate = np.exp((values - values.max(axis=1, keepdims=True)) / temperature)
    candidate /= candidate.sum(axis=1, keepdims=True)
    return _tabular(
        name or f"grid_{horizon}",
        gamma,
        horizon,
        transition,
        reward,
        candidate,
        alpha * candidate + (1 - alpha) / 8,
        terminal,
    )


def chain(horizon: int = 8, *, offset: float = 0.0, gamma: float = 0.95) -> Tabular:
    """Three states in a ring, two actions, rewards of both signs (plus `offset`)."""
    transition = np.zeros((3, 2, 3))
    for s in range(3):
        transition[s, 0, [(s + 1) % 3, s]] = 0.8, 0.2
        transition[s, 1, [(s + 2) % 3, s]] = 0.7, 0.3
    reward = np.tile(np.array([1.0, -1.0, 0.5]) + offset, (3, 2, 1))
    candidate = np.array([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7]])
    return _tabular(
        f"chain_{horizon}" + (f"_{offset:+g}" if offset else ""),
        gamma,
        horizon,
        transition,
        reward,
        candidate,
        np.full((3, 2), 0.5),
        np.zeros(3, dtype=bool),
    )


def estimator_problems() -> list[Problem]:
    """Problems on which estimators are compared."""
    heavy = {"step": -0.1, "goal": 1.0, "pit": -1.0, "alpha": 0.1, "temperature": 0.1}
    return [
        continuous_bandit(),
        binary_bandit(),
        recommender(),
        gridworld(6),
        gridworld(15),
        gridworld(25),
        gridworld(6, **heavy, name="grid_heavy_6"),
        gridworld(10, **heavy, name="grid_heavy_10"),
        gridworld(15, temperature=1.0, name="grid_soft_15"),
        gridworld(15, step=0.0, goal=1.0, temperature=0.1, gamma=0.95, name="grid_sparse_15"),
        chain(8),
        chain(20),
    ]


def _listed(
    candidate: FloatArray, behavior: FloatArray, states: IntArray, actions: IntArray
) -> ActionRatios:
    """Ratios of all actions of two tables, (n_states, n_actions) or of one state."""
    pi, beta = np.atleast_2d(candidate), np.atleast_2d(behavior)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(pi > 0.0, pi / beta, 0.0)[states]
    return ActionRatios(ratios[np.arange(len(actions)), actions], ratios, pi[states], exact=True)


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


def _tabular(
    name: str,
    gamma: float,
    horizon: int,
    transition: FloatArray,
    reward: FloatArray,
    candidate: FloatArray,
    behavior: FloatArray,
    terminal: NDArray[np.bool_],
) -> Tabular:
    first = second = np.zeros(len(candidate))
    for _ in range(horizon):
        square = reward**2 + 2 * gamma * reward * first + gamma**2 * second
        second = np.einsum("sa,sax,sax->s", candidate, transition, square)
        first = np.einsum("sa,sax,sax->s", candidate, transition, reward + gamma * first)
        first, second = np.where(terminal, 0.0, first), np.where(terminal, 0.0, second)
    return Tabular(
        name,
        gamma,
        horizon,
        (float(reward.min()), float(reward.max())),
        float(first[0]),
        float(second[0] - first[0] ** 2),
        float((candidate / behavior).max()),
        transition=transition,
        reward=reward,
        candidate=candidate,
        behavior=behavior,
        terminal=terminal,
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
