"""A plugin in one file: a quantity, an estimator with a column of its own, and a method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import ove_sb3 as ove
from ove_sb3.core.assumptions import Limits
from ove_sb3.core.quantities.mean import mean_lower
from ove_sb3.core.sample import Sample

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ScaledMean(ove.Quantity):
    """The mean times a factor."""

    factor: float = 2.0

    kind = "scaled_mean"
    label = "scaled mean"
    default_estimator = "plain"

    @property
    def name(self) -> str:
        return f"scaled_mean:{self.factor:g}"

    def of_sample(self, returns: Floats) -> float:
        return self.factor * float(returns.mean())

    def a_priori(self, limits: Limits) -> tuple[float, float]:
        low, high = limits.return_range
        return self.factor * low, self.factor * high

    def betting_lower(self, sample: Sample, level: float) -> float:
        return self.factor * mean_lower(sample, level)

    def betting_upper(self, sample: Sample, level: float) -> float:
        return -self.factor * mean_lower(sample, level, sign=-1.0)


def scaled_mean(argument: str | None) -> ove.Quantity:
    return ScaledMean() if argument is None else ScaledMean(float(argument))


def plain_estimate(stats: ove.TrajectoryStatistics) -> float:
    return 2.0 * float(np.mean(stats.weights * stats.returns))


def last_rewards(steps: ove.Steps) -> Floats:
    return np.asarray(steps.rewards[steps.starts + steps.lengths - 1])


def toy_variance(stats: ove.TrajectoryStatistics) -> float:
    """Weighted mean square of the last reward: no estimate of anything, but easy to recompute."""
    return float(np.mean(stats.weights * stats["last_reward"] ** 2))


def toy_influence(stats: ove.TrajectoryStatistics) -> Floats:
    values = stats.weights * stats["last_reward"] ** 2
    return np.asarray(values - values.mean())


@dataclass(frozen=True)
class FixedWidth(ove.Method):
    """The estimate plus and minus a fixed number."""

    half_width: float = 0.25

    name = "fixed_width"

    def bounds(self, quantity: ove.Quantity, inputs: ove.MethodInputs) -> tuple[float, float]:
        value, tails = quantity.estimate(inputs.stats), inputs.tails
        return (
            value - self.half_width if tails.lower else -np.inf,
            value + self.half_width if tails.upper else np.inf,
        )


LAST_REWARD = ove.Column("last_reward", last_rewards)


def register() -> None:
    ove.register_quantity("scaled_mean", scaled_mean)
    ove.register_estimator("plain", "scaled_mean", plain_estimate)
    ove.register_estimator(
        "toy", "variance", toy_variance, influence=toy_influence, columns=[LAST_REWARD]
    )
    ove.register_method("fixed_width", FixedWidth)
