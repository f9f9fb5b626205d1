"""Problems whose distribution of returns is a short list of outcomes: exact risk."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

import ove_sb3 as ove
from ove_sb3.core.step_reduction import shard_statistics
from ove_sb3.core.steps import StepScores
from ove_sb3.core.truncation import truncated_columns

from .problem import listed_ratios
from .tiny import TinyProcess


@dataclass(frozen=True)
class Outcomes:
    """Trajectories with their probabilities under the behavior, and how they are logged."""

    name: str
    probabilities: tuple[float, ...]
    log_ratios: tuple[tuple[float, ...], ...]
    rewards: tuple[tuple[float, ...], ...]
    reward_range: tuple[float, float]
    horizon: int
    gamma: float = 1.0
    max_weight: float | None = None

    @property
    def weights(self) -> list[float]:
        return [math.exp(math.fsum(logs)) for logs in self.log_ratios]

    @property
    def returns(self) -> list[float]:
        return [
            sum(self.gamma**t * reward for t, reward in enumerate(rewards))
            for rewards in self.rewards
        ]

    @property
    def distribution(self) -> dict[float, float]:
        """The candidate's probability of every return, in increasing order."""
        result: dict[float, float] = {}
        for probability, weight, value in zip(
            self.probabilities, self.weights, self.returns, strict=True
        ):
            value = round(value, 12)
            result[value] = result.get(value, 0.0) + probability * weight
        return dict(sorted(result.items()))

    def statistics(self, n: int, rng: np.random.Generator) -> ove.TrajectoryStatistics:
        """Draw n trajectories."""
        drawn = rng.choice(len(self.probabilities), n, p=np.array(self.probabilities))
        return self.of(drawn)

    def known_outcomes(self) -> tuple[ove.TrajectoryStatistics, np.ndarray]:
        """Statistics for a known behavior of every outcome of one step, and its probabilities."""
        behavior = np.array(self.probabilities)
        actions = np.arange(behavior.size)
        candidate = behavior * np.array(self.weights)
        states = np.zeros_like(actions)
        ratios = listed_ratios(candidate[None], behavior[None], states, actions)
        lengths = np.ones_like(actions)
        with np.errstate(divide="ignore"):
            scores = StepScores(np.log(ratios.logged), columns=truncated_columns(ratios, lengths))
        rewards = np.concatenate(self.rewards)
        stats = shard_statistics(scores, rewards, lengths, gamma=self.gamma, horizon=self.horizon)
        return stats, behavior

    def of(self, drawn: np.ndarray) -> ove.TrajectoryStatistics:
        """Statistics of the outcomes with these indices."""
        lengths = np.array([len(rewards) for rewards in self.rewards])
        begins = np.cumsum(lengths) - lengths
        own = lengths[drawn]
        steps = np.arange(own.sum()) + np.repeat(begins[drawn] - (np.cumsum(own) - own), own)
        return ove.trajectory_statistics(
            np.concatenate(self.log_ratios)[steps],
            np.concatenate(self.rewards)[steps],
            own,
            gamma=self.gamma,
            horizon=self.horizon,
        )


def true_quantile(distribution: dict[float, float], p: float) -> float:
    """Least x with P(G <= x) >= p, with a sum that equals p up to rounding counted as p."""
    total = Fraction(0)
    for value, probability in distribution.items():
        total += Fraction(probability)
        if total >= Fraction(p) - Fraction(1, 10**12):
            return value
    return max(distribution)


def true_cvar(distribution: dict[float, float], p: float) -> float:
    """Mean of the worst fraction p: take outcomes from the bottom until p is used up."""
    left, total = p, 0.0
    for value, probability in distribution.items():
        taken = min(probability, left)
        total += taken * value
        left -= taken
    return (total + left * max(distribution)) / p


def true_probability(distribution: dict[float, float], x: float) -> float:
    return math.fsum(p for value, p in distribution.items() if value <= x)


def truth(distribution: dict[float, float], quantity: str) -> float:
    """Value of a risk quantity by its short name."""
    kind, _, argument = quantity.partition(":")
    number = 0.5 if kind == "median" else float(argument)
    if kind in ("quantile", "median"):
        return true_quantile(distribution, number)
    if kind == "cvar":
        return true_cvar(distribution, number)
    return true_probability(distribution, number)


def one_step(
    name: str,
    candidate: list[float],
    behavior: list[float],
    returns: list[float],
    reward_range: tuple[float, float] | None = None,
) -> Outcomes:
    """One step with these probabilities of every outcome."""
    ratios = [c / b for c, b in zip(candidate, behavior, strict=True)]
    logs = [math.log(ratio) if ratio > 0.0 else -math.inf for ratio in ratios]
    return Outcomes(
        name,
        tuple(behavior),
        tuple((log,) for log in logs),
        tuple((value,) for value in returns),
        reward_range or (min(returns), max(returns)),
        1,
        max_weight=max(ratios),
    )


def tiny() -> Outcomes:
    """Several steps, rewards of both signs, early ends, zero weights."""
    process = TinyProcess.of()
    every = process.trajectories()
    return Outcomes(
        "tiny",
        tuple(probability for probability, _, _ in every),
        tuple(tuple(logs) for _, logs, _ in every),
        tuple(tuple(rewards) for _, _, rewards in every),
        (-2.0, 3.0),
        process.mdp.horizon,
        process.mdp.gamma,
    )


def problems() -> dict[str, Outcomes]:
    """The adverse cases by name."""
    spread = [k / 20 for k in range(21)]
    skewed = [2.0 * (k + 1) / (21 * 22) for k in range(21)]
    listed = [
        one_step("rare heavy low", [0.8, 0.2], [0.99, 0.01], [1.0, 0.0]),
        one_step("rare heavy high", [0.8, 0.2], [0.99, 0.01], [0.0, 1.0]),
        one_step("atom at the quantile", [0.05, 0.45, 0.4, 0.1], [0.25] * 4, [0.0, 1.0, 2.0, 9.0]),
        one_step("deterministic", [0.0, 1.0, 0.0], [0.3, 0.4, 0.3], [-1.0, 0.5, 2.0]),
        one_step("mixed signs", [0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [-5.0, 3.0, -1.0, 4.0]),
        one_step("on policy", [1 / 21] * 21, [1 / 21] * 21, spread),
        one_step("many values", skewed, [1 / 21] * 21, spread, (-1.0, 2.0)),
        tiny(),
    ]
    return {problem.name: problem for problem in listed}
