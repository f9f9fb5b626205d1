"""A tabular Markov decision process: exact return distribution, best policy, and simulation.

All computations use the probabilities of the next state under a policy, (S, S), so that hundreds
of states and steps are cheap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

if TYPE_CHECKING:
    VectorEnv = gym.vector.VectorEnv[Any, Any, Any]
else:
    VectorEnv = gym.vector.VectorEnv  # without parameters before gymnasium 1.0


@dataclass(frozen=True, eq=False)
class TabularMDP:
    """A process with S states and A actions; policies are tables of probabilities, (S, A)."""

    transition: FloatArray
    """Probability of the next state, (S, A, S)."""
    reward: FloatArray
    """Reward by next state, (S,): received on entering it."""
    start: FloatArray
    """Probability of the first state, (S,)."""
    terminal: BoolArray
    """States in which an episode ends, (S,)."""
    horizon: int

    def chain(self, policy: FloatArray) -> FloatArray:
        """Probability of the next state under a policy, (S, S); rows of terminal states are 0."""
        acting = np.where(self.terminal[:, None], 0.0, policy)
        return np.asarray((acting[:, None] @ self.transition)[:, 0])

    def moments(self, policy: FloatArray, gamma: float) -> tuple[float, float]:
        """Mean and variance of the return, by backward dynamic programming."""
        chain = self.chain(policy)
        first = second = np.zeros(len(self.start))
        for _ in range(self.horizon):
            square = self.reward**2 + 2 * gamma * self.reward * first + gamma**2 * second
            first, second = chain @ (self.reward + gamma * first), chain @ square
        mean = float(self.start @ first)
        return mean, float(self.start @ second) - mean**2

    def returns(self, policy: FloatArray, gamma: float) -> dict[float, float]:
        """Possible returns in increasing order, and their probabilities, by forward propagation.

        Only for rewards that are 0 until the episode ends: a return is then gamma**(length - 1)
        times the last reward.
        """
        if self.reward[~self.terminal].any():
            raise ValueError("`reward` must be 0 in all states but the terminal ones.")
        chain, state = self.chain(policy), self.start
        probabilities: dict[float, float] = defaultdict(float)
        for step in range(self.horizon):
            state = state @ chain
            for end in np.flatnonzero(self.terminal & (state > 0.0)).tolist():
                probabilities[gamma**step * float(self.reward[end])] += float(state[end])
        probabilities[0.0] += float(state[~self.terminal].sum())
        return dict(sorted(probabilities.items()))

    def mean_length(self, policy: FloatArray) -> float:
        """Mean number of steps of an episode."""
        chain, state, total = self.chain(policy), self.start, 0.0
        for _ in range(self.horizon):
            total += float(state[~self.terminal].sum())
            state = state @ chain
        return total

    def best_policy(self, prefer: FloatArray) -> FloatArray:
        """Deterministic policy of the largest undiscounted mean return, by value iteration.

        Of equally good actions the one with the largest entry in `prefer`, (S, A), is taken.
        """
        value = np.zeros(len(self.start))
        for _ in range(self.horizon):
            action_value = self.transition @ (self.reward + value)
            before, value = value, np.where(self.terminal, 0.0, action_value.max(axis=1))
            if np.abs(value - before).max() < 1e-13:
                break
        best = action_value >= action_value.max(axis=1, keepdims=True) - 1e-9
        choice = np.where(best, prefer, -1.0).argmax(axis=1)
        return np.asarray(np.eye(prefer.shape[1])[choice])


class TabularVectorEnv(VectorEnv):
    """Many copies of a `TabularMDP`, stepped together; ended episodes are reset through a mask.

    Parameters
    ----------
    mdp : TabularMDP
    num_envs : int
    name : str
        Id of the environment, for the log.
    """

    metadata = {"autoreset_mode": "Disabled"}  # noqa: RUF012

    def __init__(self, mdp: TabularMDP, num_envs: int, name: str) -> None:
        n_states, n_actions = mdp.transition.shape[:2]
        self.mdp, self.num_envs = mdp, num_envs
        self.spec = gym.envs.registration.EnvSpec(name, max_episode_steps=mdp.horizon)
        self.single_observation_space = gym.spaces.Discrete(n_states)
        self.single_action_space = gym.spaces.Discrete(n_actions)
        self.observation_space = gym.spaces.MultiDiscrete([n_states] * num_envs)
        self.action_space = gym.spaces.MultiDiscrete([n_actions] * num_envs)
        self._move = _Rows(mdp.transition.reshape(-1, n_states))
        self._begin = _Rows(mdp.start[None])
        self._rng = np.random.default_rng(0)
        self._state = np.zeros(num_envs, dtype=np.int64)
        self._steps = np.zeros(num_envs, dtype=np.int64)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes, in the environments of ``options["reset_mask"]`` or in all."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, dtype=np.bool_))
        self._state[mask] = self._begin.draw(np.zeros(mask.sum(), dtype=np.int64), self._rng)
        self._steps[mask] = 0
        return self._state.copy(), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments."""
        rows = self._state * self.mdp.transition.shape[1] + np.asarray(actions)
        self._state = self._move.draw(rows, self._rng)
        self._steps += 1
        terminated = self.mdp.terminal[self._state]
        truncated = ~terminated & (self._steps >= self.mdp.horizon)
        return self._state.copy(), self.mdp.reward[self._state], terminated, truncated, {}


class _Rows:
    """Sampler from the rows of a table of probabilities, by one binary search for all rows."""

    def __init__(self, table: FloatArray) -> None:
        rows, self._columns = np.nonzero(table)
        below = np.cumsum(table, axis=1)
        below /= np.maximum(below[:, -1:], 1e-300)
        self._ends = np.cumsum(np.bincount(rows, minlength=len(table))) - 1
        self._cumulative = rows + below[rows, self._columns]

    def draw(self, rows: IntArray, rng: np.random.Generator) -> IntArray:
        """One column for each of the rows."""
        columns = np.searchsorted(self._cumulative, rows + rng.random(len(rows)), side="right")
        return self._columns[np.minimum(columns, self._ends[rows])]


class Simulator:
    """Sampler of episodes of a `TabularMDP`, many times faster than through an environment.

    Parameters
    ----------
    mdp : TabularMDP
    policies : sequence of ndarray, (S, A)
        Policies, of which one is drawn for every episode.
    shares : sequence of float
        Probability of each policy.
    """

    def __init__(
        self, mdp: TabularMDP, policies: Sequence[FloatArray], shares: Sequence[float]
    ) -> None:
        self.mdp, self.shares = mdp, shares
        self._n_states, self._n_actions = mdp.transition.shape[:2]
        self._move = _Rows(mdp.transition.reshape(-1, self._n_states))
        self._begin = _Rows(mdp.start[None])
        self._act = _Rows(np.concatenate(policies))

    def draw(
        self, n: int, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray, FloatArray, IntArray]:
        """States, actions and rewards of the steps of n episodes, concatenated, and the lengths."""
        acting = rng.choice(len(self.shares), n, p=self.shares) * self._n_states
        state = self._begin.draw(np.zeros(n, dtype=np.int64), rng)
        running = np.arange(n)
        steps = []
        for _ in range(self.mdp.horizon):
            action = self._act.draw(acting[running] + state, rng)
            after = self._move.draw(state * self._n_actions + action, rng)
            steps.append((running, state, action, self.mdp.reward[after]))
            goes_on = ~self.mdp.terminal[after]
            running, state = running[goes_on], after[goes_on]
            if not running.size:
                break
        episode, states, actions, rewards = map(np.concatenate, zip(*steps, strict=True))
        order = np.argsort(episode, kind="stable")
        return states[order], actions[order], rewards[order], np.bincount(episode, minlength=n)
