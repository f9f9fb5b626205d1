"""Two states and two actions: small enough to enumerate every data set."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from .mdp import FiniteMDP, FloatArray

_END_AFTER = ((0.0, 0.5), (0.3, 0.0))  # probability to end after (state, action)


@dataclass(frozen=True, eq=False)
class TinyProcess:
    """Rewards of both signs, random transitions, early ends, an action never taken."""

    mdp: FiniteMDP
    behavior: FloatArray = field(
        default_factory=lambda: np.array([[0.6, 0.4], [0.3, 0.7], [0.5, 0.5]])
    )
    candidate: FloatArray = field(
        default_factory=lambda: np.array([[0.2, 0.8], [1.0, 0.0], [0.5, 0.5]])
    )

    @classmethod
    def of(cls, *, horizon: int = 3, end_after: object = _END_AFTER) -> TinyProcess:
        """Process with its end as a third state."""
        ends = np.asarray(end_after, dtype=np.float64)
        transition, reward = np.zeros((3, 2, 3)), np.zeros((3, 2, 3))
        for state, action in itertools.product((0, 1), (0, 1)):
            transition[state, action, (state + action) % 2] = 1.0 - ends[state, action]
            transition[state, action, 2] = ends[state, action]
        reward[:2] = np.array([[1.0, -2.0], [0.5, 3.0]])[:, :, None]
        return cls(FiniteMDP(transition, reward, np.arange(3) == 2, 0.9, horizon))

    def trajectories(self) -> list[tuple[float, FloatArray, FloatArray]]:
        """Every trajectory: probability under the behavior, log-ratios, rewards."""
        with np.errstate(divide="ignore"):
            log_ratios = np.log(self.candidate / self.behavior)
        return [
            (
                trajectory.probability,
                log_ratios[list(trajectory.states), list(trajectory.actions)],
                np.array(trajectory.rewards),
            )
            for trajectory in self.mdp.trajectories(self.behavior)
        ]

    def moments(self, gamma: float | None = None) -> tuple[float, float]:
        """Mean and variance of the candidate's return."""
        return self.mdp.moments(self.candidate, gamma)

    def data_sets(self, n: int) -> Iterator[tuple[float, FloatArray, FloatArray, list[int]]]:
        """All ordered sets of n trajectories: probability, flat log-ratios, rewards, lengths."""
        for combination in itertools.product(self.trajectories(), repeat=n):
            yield (
                math.prod(probability for probability, _, _ in combination),
                np.concatenate([log_ratios for _, log_ratios, _ in combination]),
                np.concatenate([rewards for _, _, rewards in combination]),
                [rewards.size for _, _, rewards in combination],
            )
