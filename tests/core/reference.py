"""The paper's formulas, term by term and without any thought for speed: the truth for the tests."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def padded(
    log_ratios: FloatArray, rewards: FloatArray, horizon: int
) -> tuple[FloatArray, FloatArray]:
    """Products of ratios and rewards of one episode, padded to the horizon as the paper says."""
    rho = np.exp(np.cumsum(log_ratios))
    missing = horizon - rho.size
    return np.concatenate([rho, np.full(missing, rho[-1])]), np.concatenate(
        [rewards, np.zeros(missing)]
    )


def pdis(
    log_ratios: FloatArray, rewards: FloatArray, gamma: float, horizon: int, shift: float = 0.0
) -> float:
    """Sum of rho_j gamma^j (R_j - shift)."""
    rho, reward = padded(log_ratios, rewards, horizon)
    return float(sum(rho[j] * gamma**j * (reward[j] - shift) for j in range(horizon)))


def cdis(
    log_ratios: FloatArray,
    rewards: FloatArray,
    gamma: float,
    horizon: int,
    shift: float = 0.0,
    xi: float = 0.0,
) -> float:
    """Double sum of rho_max(j,k) gamma^(j+k) ((R_j - shift)(R_k - shift) - xi)."""
    rho, reward = padded(log_ratios, rewards, horizon)
    total = 0.0
    for j in range(horizon):
        for k in range(horizon):
            product = (reward[j] - shift) * (reward[k] - shift) - xi
            total += rho[max(j, k)] * gamma ** (j + k) * product
    return total


def thomas_lower(values: FloatArray, threshold: float, delta: float) -> float:
    """Theorem of Thomas et al. (2015) with one threshold c, as printed in the paper's appendix."""
    n = values.size
    cut = np.minimum(values, threshold)
    inverse = 1.0 / (n / threshold)
    pairs = sum((a / threshold - b / threshold) ** 2 for a in cut for b in cut)
    return float(
        inverse * np.sum(cut / threshold)
        - inverse * 7 * n * math.log(2 / delta) / (3 * (n - 1))
        - inverse * math.sqrt(math.log(2 / delta) / (n - 1) * pairs)
    )


class TinyProcess:
    """Two states, two actions, rewards of both signs, random transitions, early ends.

    Every trajectory is enumerated with its probability under the behavior, so that expectations
    over data sets are exact sums.
    """

    gamma = 0.9
    horizon = 3
    behavior = np.array([[0.6, 0.4], [0.3, 0.7]])
    candidate = np.array([[0.2, 0.8], [1.0, 0.0]])
    end_after = np.array([[0.0, 0.5], [0.3, 0.0]])  # probability to end after (state, action)
    reward = np.array([[1.0, -2.0], [0.5, 3.0]])

    def trajectories(self) -> list[tuple[float, FloatArray, FloatArray]]:
        """All of them: probability under the behavior, log-ratios, rewards."""
        return list(self._extend(0, 1.0, [], []))

    def _extend(
        self, state: int, probability: float, log_ratios: list[float], rewards: list[float]
    ) -> Iterator[tuple[float, FloatArray, FloatArray]]:
        for action in (0, 1):
            ratio = self.candidate[state, action] / self.behavior[state, action]
            taken = probability * self.behavior[state, action]
            logs = [*log_ratios, math.log(ratio) if ratio > 0 else -math.inf]
            gains = [*rewards, float(self.reward[state, action])]
            end = self.end_after[state, action] if len(gains) < self.horizon else 1.0
            if end > 0.0:
                yield taken * end, np.array(logs), np.array(gains)
            if end < 1.0:
                after = (state + action) % 2  # the state moves on by the action
                yield from self._extend(after, taken * (1.0 - end), logs, gains)

    def moments(self) -> tuple[float, float]:
        """Mean and variance of the candidate's return."""
        first = second = 0.0
        for probability, log_ratios, rewards in self.trajectories():
            weight = probability * math.exp(log_ratios.sum())
            value = float(np.sum(self.gamma ** np.arange(rewards.size) * rewards))
            first += weight * value
            second += weight * value**2
        return first, second - first**2

    def data_sets(self, n: int) -> Iterator[tuple[float, FloatArray, FloatArray, list[int]]]:
        """All ordered sets of n trajectories: probability, flat log-ratios, rewards, lengths."""
        for combination in itertools.product(self.trajectories(), repeat=n):
            yield (
                math.prod(probability for probability, _, _ in combination),
                np.concatenate([log_ratios for _, log_ratios, _ in combination]),
                np.concatenate([rewards for _, _, rewards in combination]),
                [rewards.size for _, _, rewards in combination],
            )
