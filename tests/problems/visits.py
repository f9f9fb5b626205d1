"""Visits whose length depends on their return, as a gymnasium environment that can be logged."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove

from .queue import Queue

REWARD_RANGE = (0.0, 1.0)


class Visit(gym.Env[Any, Any]):
    """The first action determines the length and the return of an episode; others do nothing.

    The same distribution of returns as `Queue`, with the return paid at the end.
    """

    observation_space = spaces.Discrete(2)
    action_space = spaces.Discrete(2)

    def __init__(self, queue: Queue) -> None:
        self.queue = queue

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = 0
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        if not self.left:
            kind = int(action) if self.np_random.random() < 0.9 else 1 - int(action)
            self.left, self.value = self.queue.lengths[kind], self.queue.returns[kind]
        self.left -= 1
        over = self.left == 0
        return 1, self.value if over else 0.0, over, False, {}


def behavior(rng: int | np.random.Generator | None = None) -> ove.TabularPolicy:
    return ove.TabularPolicy([[0.5, 0.5], [0.5, 0.5]], rng=rng)


def candidate(queue: Queue) -> ove.TabularPolicy:
    p = queue.candidate
    return ove.TabularPolicy([[p, 1 - p], [0.5, 0.5]])


class Visits:
    """A process that logs visits: environments that run at the same time, and their logger."""

    def __init__(self, queue: Queue, path: Any, seed: int, flush_every: int = 8) -> None:
        self.policy = behavior(seed)
        makers: list[Any] = [
            lambda: gym.wrappers.TimeLimit(Visit(queue), max(queue.lengths) + 1)
        ] * queue.n_envs
        self.venv = ove.VecLogActionProbability(
            DummyVecEnv(makers), self.policy, path=path, flush_every=flush_every
        )
        self.venv.seed(seed)
        self.observations = self.venv.reset()

    def run(self, n_steps: int) -> None:
        """Log this many steps of every environment."""
        for _ in range(n_steps):
            actions, _ = self.policy.predict(self.observations)
            self.observations, *_ = self.venv.step(actions)
