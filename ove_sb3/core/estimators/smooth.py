"""Estimators as smooth functions of averages, as bootstrap and normal intervals use them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.errors import InvalidInputError

_FEWEST = 4


@dataclass(frozen=True)
class SmoothStatistic:
    """An estimator of the form mean(p) - (mean q)^2.

    Attributes
    ----------
    p, q : ndarray of float64, (n,)
    split : bool
        The squared mean is the product of the means of two halves, or taken from all pairs.
    """

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
        """Parts that are resampled separately: the halves must stay disjoint."""
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
        """Expectation of resampled values: the statistic of the empirical distribution."""
        return self.value if self.split else float(self.p.mean() - self.q.mean() ** 2)

    @property
    def standard_error(self) -> float:
        """Standard error by the delta method."""
        sums = [_sums(self.p[g], self.q[g])[None, :] for g in self.groups]
        return float(values_and_errors(sums, [self.p[g].size for g in self.groups])[1][0])

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


def squared_mean(values: FloatArray) -> float:
    """Unbiased estimate of the squared mean from all pairs i != j."""
    n = values.size
    return float((values.sum() ** 2 - np.sum(values**2)) / (n * (n - 1)))


def _sums(p: FloatArray, q: FloatArray) -> FloatArray:
    return np.array([p.sum(), q.sum(), np.sum(p * p), np.sum(p * q), np.sum(q * q)])


def values_and_errors(sums: list[FloatArray], sizes: list[int]) -> tuple[FloatArray, FloatArray]:
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
        center = share * mean[:, 0] - k * mean[:, 1]
        variance += np.maximum(square - center**2, 0.0) / (size - 1)
    return np.asarray(values), np.sqrt(variance)
