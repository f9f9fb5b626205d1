"""Bootstrap intervals (Algorithm 5 of the paper, and variants)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from ove_sb3._validation import FloatArray, check_choice, check_integer
from ove_sb3.core.estimators.smooth import SmoothStatistic, values_and_errors
from ove_sb3.core.quantities.base import Quantity

from ._resample import resampled_sums
from .base import Method, MethodInputs

_MOST_RESAMPLED = 1 << 12  # values; more are averaged in groups first
VARIANTS = ("basic", "percentile", "bca", "studentized")


@dataclass(frozen=True)
class Bootstrap(Method):
    """Bootstrap interval: approximate, for independent trajectories and large n.

    Attributes
    ----------
    variant : {"basic", "percentile", "bca", "studentized"}
        ``"basic"`` is the paper's.
    n_resamples : int
        Of the trajectories, or of averages over groups of them where there are more than 4,096.
    estimator : str or None
        Name of the estimator whose distribution is approximated; None: the quantity's default.
    """

    variant: str = "basic"
    n_resamples: int = 2000
    estimator: str | None = None

    name = "bootstrap"
    proven = False
    handles_adaptive = False

    def __post_init__(self) -> None:
        check_choice(self.variant, "variant", VARIANTS)
        check_integer(self.n_resamples, "n_resamples", 10)

    def supports(self, quantity: Quantity) -> bool:
        """Whether the quantity has the estimator, and it can be resampled."""
        name = self.estimator
        return quantity.has_estimator(name) and quantity.find_estimator(name).can_be_resampled

    def bounds(self, quantity: Quantity, inputs: MethodInputs) -> tuple[float, float]:
        """Bounds from resampled estimates."""
        stats, tails, rng = inputs.stats, inputs.tails, inputs.rng
        estimator = quantity.find_estimator(self.estimator)
        statistic = estimator.smooth_statistic(stats)
        bounds = bootstrap_bounds(
            statistic, self.variant, tails.lower, tails.upper, self.n_resamples, rng
        )
        return estimator.linked(stats, bounds)


def bootstrap_bounds(
    statistic: SmoothStatistic,
    variant: str,
    lower_tail: float,
    upper_tail: float,
    n_resamples: int,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Bootstrap interval with the given tail probabilities; a tail of 0 leaves its side open."""
    resampled = _grouped(statistic)
    tables = [np.stack([resampled.p[g], resampled.q[g]], axis=1) for g in resampled.groups]
    sums = [resampled_sums(np.ascontiguousarray(t), n_resamples, rng) for t in tables]
    values, errors = values_and_errors(sums, [len(table) for table in tables])
    value = statistic.value
    bounds: tuple[float, float]
    deviations = values - resampled.plug_in
    tails = {"lower": lower_tail, "upper": 1.0 - upper_tail}
    if variant == "percentile":
        bounds = (
            value + np.quantile(deviations, tails["lower"]),
            value + np.quantile(deviations, tails["upper"]),
        )
    elif variant == "bca":
        bounds = _bca(statistic, value + deviations, value, tails)
    elif variant == "studentized":
        ratios = deviations / np.where(errors > 0.0, errors, np.inf)
        error = statistic.standard_error
        bounds = (
            value - error * np.quantile(ratios, 1.0 - lower_tail),
            value - error * np.quantile(ratios, upper_tail),
        )
    else:
        bounds = (
            value - np.quantile(deviations, 1.0 - lower_tail),
            value - np.quantile(deviations, upper_tail),
        )
    return (
        float(bounds[0]) if lower_tail > 0.0 else -math.inf,
        float(bounds[1]) if upper_tail > 0.0 else math.inf,
    )


def _grouped(statistic: SmoothStatistic) -> SmoothStatistic:
    """The statistic of averages over groups of trajectories, where there are very many.

    Averages have the same mean, variance and skewness whether they are of trajectories or of groups
    of them, and these are all that a bootstrap of so many can resolve.
    """
    n_halves = len(statistic.groups)
    size = (statistic.p.size - 1) // (n_halves * _MOST_RESAMPLED) + 1
    if size == 1:
        return statistic
    parts = []
    for values in (statistic.p, statistic.q):
        halves = [values[group] for group in statistic.groups]
        count = min(half.size for half in halves) // size
        parts.append(np.concatenate([h[: count * size].reshape(-1, size).mean(1) for h in halves]))
    return SmoothStatistic(parts[0], parts[1], statistic.split)


def _bca(
    statistic: SmoothStatistic, values: FloatArray, value: float, tails: dict[str, float]
) -> tuple[float, float]:
    """Bias-corrected and accelerated percentiles (Efron 1987)."""
    n_resamples = values.size
    below = np.sum(values < value) + 0.5 * np.sum(values == value)
    bias = ndtri(np.clip(below / n_resamples, 0.5 / n_resamples, 1.0 - 0.5 / n_resamples))
    left_out = statistic.leave_one_out()
    influence = left_out.mean() - left_out
    spread = float(np.sum(influence**2))
    acceleration = float(np.sum(influence**3)) / (6.0 * spread**1.5) if spread > 0.0 else 0.0

    def quantile(tail: float) -> float:
        z = bias + ndtri(tail)
        return float(np.quantile(values, ndtr(bias + z / (1.0 - acceleration * z))))

    with np.errstate(divide="ignore", invalid="ignore"):
        return (
            quantile(tails["lower"]) if tails["lower"] > 0.0 else -math.inf,
            quantile(tails["upper"]) if tails["upper"] < 1.0 else math.inf,
        )
