"""Approximate intervals: the bootstrap (Algorithm 5 and its kin) and the delta method.

Both work on a `SmoothStatistic`: mean(p) minus an unbiased estimate of the squared mean of q.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from ove_sb3._validation import FloatArray
from ove_sb3.errors import InvalidInputError

from .crossfit import crossfit_columns
from .estimators import squared_mean
from .resample import resampled_sums
from .statistics import TrajectoryStatistics

BOOTSTRAP_KINDS = ("basic", "percentile", "bca", "studentized")
APPROXIMATE_ESTIMATORS = ("crossfit", "cdis", "is")
_FEWEST = 4


@dataclass(frozen=True)
class SmoothStatistic:
    """mean(p) - (mean q)^2, the square from two halves (``split``) or from all pairs."""

    p: FloatArray
    q: FloatArray
    split: bool

    def __post_init__(self) -> None:
        if self.p.size < _FEWEST:
            raise InvalidInputError(
                f"approximate intervals need at least {_FEWEST} trajectories, got {self.p.size}. "
                "Log more episodes, or use method='betting', which is valid for any number."
            )

    @property
    def groups(self) -> list[slice]:
        """The parts that are resampled separately: the halves must stay disjoint."""
        half = self.p.size // 2
        return [slice(0, half), slice(half, None)] if self.split else [slice(None)]

    @property
    def value(self) -> float:
        """The estimate."""
        if self.split:
            first, second = self.groups
            return float(self.p.mean() - self.q[first].mean() * self.q[second].mean())
        return float(self.p.mean() - squared_mean(self.q))

    @property
    def plug_in(self) -> float:
        """What resampled values are unbiased for: the statistic of the empirical distribution."""
        return self.value if self.split else float(self.p.mean() - self.q.mean() ** 2)

    @property
    def standard_error(self) -> float:
        """By the delta method, from the influence of every trajectory."""
        sums = [_sums(self.p[g], self.q[g])[None, :] for g in self.groups]
        return float(_values_and_errors(sums, [self.p[g].size for g in self.groups])[1][0])

    def leave_one_out(self) -> FloatArray:
        """The estimate without each trajectory in turn, in closed form, (n,)."""
        p, q, n = self.p, self.q, self.p.size
        means = (p.sum() - p) / (n - 1)
        if not self.split:
            rest, squares = q.sum() - q, np.sum(q * q) - q**2
            return np.asarray(means - (rest**2 - squares) / ((n - 1) * (n - 2)))
        first, second = self.groups
        product = np.empty(n)
        product[first] = (q[first].sum() - q[first]) / (q[first].size - 1) * q[second].mean()
        product[second] = (q[second].sum() - q[second]) / (q[second].size - 1) * q[first].mean()
        return np.asarray(means - product)


def variance_statistic(
    stats: TrajectoryStatistics, estimator: str, mean_square: str
) -> SmoothStatistic:
    """Columns of a variance estimator; nuisances of ``"crossfit"`` are held fixed."""
    split = mean_square == "split"
    if estimator == "cdis":
        return SmoothStatistic(stats.cdis, stats.pdis, split)
    if estimator == "is":
        weighted = stats.weights * stats.returns
        return SmoothStatistic(weighted * stats.returns, weighted, split)
    columns = crossfit_columns(stats)
    return SmoothStatistic(columns.second, columns.first, split=False)


def mean_statistic(stats: TrajectoryStatistics, estimator: str) -> SmoothStatistic:
    """Columns of an estimator of the mean."""
    if estimator == "cdis":
        values = stats.pdis
    elif estimator == "is":
        values = stats.weights * stats.returns
    else:
        columns = crossfit_columns(stats)
        values = columns.first + columns.centre
    return SmoothStatistic(values, np.zeros_like(values), split=False)


def delta_bounds(
    statistic: SmoothStatistic, lower_tail: float, upper_tail: float
) -> tuple[float, float]:
    """Normal interval with the standard error of the delta method."""
    value, error = statistic.value, statistic.standard_error
    return (
        float(value + ndtri(lower_tail) * error) if lower_tail > 0.0 else -math.inf,
        float(value - ndtri(upper_tail) * error) if upper_tail > 0.0 else math.inf,
    )


def bootstrap_bounds(
    statistic: SmoothStatistic,
    kind: str,
    lower_tail: float,
    upper_tail: float,
    n_resamples: int,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Bootstrap interval with the given tail probabilities; a tail of 0 leaves its side open."""
    tables = [np.stack([statistic.p[g], statistic.q[g]], axis=1) for g in statistic.groups]
    sums = [resampled_sums(np.ascontiguousarray(t), n_resamples, rng) for t in tables]
    values, errors = _values_and_errors(sums, [len(table) for table in tables])
    value = statistic.value
    bounds: tuple[float, float]
    deviations = values - statistic.plug_in
    tails = {"lower": lower_tail, "upper": 1.0 - upper_tail}
    if kind == "percentile":
        bounds = (
            value + np.quantile(deviations, tails["lower"]),
            value + np.quantile(deviations, tails["upper"]),
        )
    elif kind == "bca":
        bounds = _bca(statistic, value + deviations, value, tails)
    elif kind == "studentized":
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


def _sums(p: FloatArray, q: FloatArray) -> FloatArray:
    return np.array([p.sum(), q.sum(), np.sum(p * p), np.sum(p * q), np.sum(q * q)])


def _values_and_errors(sums: list[FloatArray], sizes: list[int]) -> tuple[FloatArray, FloatArray]:
    """Statistics and their standard errors from sums (B, 5) of one or two groups."""
    n = sum(sizes)
    means = [s / size for s, size in zip(sums, sizes, strict=True)]
    p = sum(s[:, 0] for s in sums) / n
    if len(sums) == 1:
        P, Q, QQ = sums[0][:, 0], sums[0][:, 1], sums[0][:, 4]
        values = P / n - (Q**2 - QQ) / (n * (n - 1))
        multipliers = [2 * means[0][:, 1]]
    else:
        values = p - means[0][:, 1] * means[1][:, 1]
        multipliers = [means[1][:, 1], means[0][:, 1]]
    variance = np.zeros_like(values)
    for mean, size, k in zip(means, sizes, multipliers, strict=True):
        share = size / n  # influence of a trajectory: share p - k q, within its group
        square = share**2 * mean[:, 2] - 2 * share * k * mean[:, 3] + k**2 * mean[:, 4]
        centre = share * mean[:, 0] - k * mean[:, 1]
        variance += np.maximum(square - centre**2, 0.0) / (size - 1)
    return np.asarray(values), np.sqrt(variance)
