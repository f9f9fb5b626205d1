"""Finite Markov decision processes: exact moments, enumeration, simulation."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
History = tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]
"""States, actions and rewards of one episode."""


@dataclass(frozen=True, eq=False)
class Episodes:
    """Simulated steps, episode after episode."""

    states: IntArray
    """State before every step, (n_steps,)."""
    actions: IntArray
    rewards: FloatArray
    lengths: IntArray
    """Number of steps of every episode, (n,)."""
    terminated: BoolArray
    """Whether an episode ended in a terminal state, (n,)."""


@dataclass(frozen=True)
class Trajectory:
    """One possible episode and its probability."""

    probability: float
    states: tuple[int, ...]
    actions: tuple[int, ...]
    rewards: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class FiniteMDP:
    """A process with finitely many states S and actions A that starts in one state.

    Policies are tables of probabilities, (S, A).
    """

    transition: FloatArray
    """Probability of the next state, (S, A, S)."""
    reward: FloatArray
    """Reward by state, action and next state, (S, A, S)."""
    terminal: BoolArray
    """States in which an episode ends, (S,)."""
    gamma: float
    horizon: int
    start: int = 0

    def moments(self, policy: FloatArray, gamma: float | None = None) -> tuple[float, float]:
        """Mean and variance of the return, by dynamic programming."""
        gamma = self.gamma if gamma is None else gamma
        first = second = np.zeros(len(policy))
        for _ in range(self.horizon):
            square = self.reward**2 + 2 * gamma * self.reward * first + gamma**2 * second
            second = np.einsum("sa,sax,sax->s", policy, self.transition, square)
            first = np.einsum("sa,sax,sax->s", policy, self.transition, self.reward + gamma * first)
            first = np.where(self.terminal, 0.0, first)
            second = np.where(self.terminal, 0.0, second)
        mean = float(first[self.start])
        return mean, float(second[self.start] - mean**2)

    def returns(
        self, policy: FloatArray, gamma: float | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Possible returns and their probabilities, by enumeration."""
        discount = self.gamma if gamma is None else gamma

        @cache
        def from_state(state: int, steps_left: int) -> dict[float, float]:
            if steps_left == 0 or self.terminal[state]:
                return {0.0: 1.0}
            distribution: dict[float, float] = defaultdict(float)
            for action, after in np.argwhere(self.transition[state] > 0.0):
                p = float(policy[state, action] * self.transition[state, action, after])
                if p > 0.0:
                    reward = float(self.reward[state, action, after])
                    for rest, q in from_state(int(after), steps_left - 1).items():
                        distribution[reward + discount * rest] += p * q
            return distribution

        distribution = from_state(self.start, self.horizon)
        return np.array(list(distribution)), np.array(list(distribution.values()))

    def trajectories(self, policy: FloatArray) -> list[Trajectory]:
        """Every possible episode of the policy."""
        probabilities: dict[History, float] = defaultdict(float)
        pending: list[tuple[float, int, History]] = [(1.0, self.start, ((), (), ()))]
        while pending:
            probability, state, history = pending.pop()
            states, actions, rewards = history
            if len(states) == self.horizon or self.terminal[state]:
                probabilities[history] += probability
                continue
            for action, after in np.argwhere(self.transition[state] > 0.0).tolist():
                p = probability * policy[state, action] * self.transition[state, action, after]
                if p > 0.0:
                    reward = float(self.reward[state, action, after])
                    longer = (*states, state), (*actions, action), (*rewards, reward)
                    pending.append((float(p), after, longer))
        return [Trajectory(p, *history) for history, p in probabilities.items()]

    def sample(self, policy: FloatArray, n: int, rng: np.random.Generator) -> Episodes:
        """Simulate n episodes of the policy."""
        n_states, n_actions = policy.shape
        choose, move = np.cumsum(policy, axis=1), np.cumsum(self.transition, axis=2)
        state = np.full(n, self.start, dtype=np.int64)
        shape = n, self.horizon
        states, actions = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        rewards = np.zeros(shape)
        lengths = np.full(n, self.horizon)
        running = np.ones(n, dtype=bool)
        for t in range(self.horizon):
            action = (rng.random((n, 1)) > choose[state]).sum(axis=1).clip(max=n_actions - 1)
            after = (rng.random((n, 1)) > move[state, action]).sum(axis=1).clip(max=n_states - 1)
            states[:, t], actions[:, t] = state, action
            rewards[:, t] = self.reward[state, action, after]
            state = np.where(running, after, state)
            ends = running & self.terminal[state]
            lengths[ends] = t + 1
            running &= ~ends
        logged = np.arange(self.horizon) < lengths[:, None]
        return Episodes(states[logged], actions[logged], rewards[logged], lengths, ~running)
