"""Distribution of the return in the pilot, from which grids of thresholds are made."""

from __future__ import annotations

import math

import numpy as np

from ove_sb3._validation import FloatArray

from .betting.schedule import Schedule

_ALL_VALUES = 64  # distinct returns up to which all of them are thresholds
_TAIL_POINTS = 12  # thresholds beyond the pilot's extremes, at distances that halve


def known_weights(weights: FloatArray) -> FloatArray:
    """Return the weights, or ones if all of them are zero: nothing is known yet."""
    return weights if weights.any() else np.ones_like(weights)


class PilotDistribution:
    """Weighted distribution of the pilot, with repeated returns as atoms and linear between others.

    Parameters
    ----------
    returns, weights : ndarray, (n,)
        In the order in which they are bet on. Only the pilot is used.
    schedule : Schedule
    low, high : float
        Range of the return.
    """

    def __init__(
        self,
        returns: FloatArray,
        weights: FloatArray,
        schedule: Schedule,
        low: float,
        high: float,
    ) -> None:
        size = schedule.pilot
        self.returns, self.weights = returns[:size], known_weights(weights[:size])
        self.low, self.high, self.n = low, high, schedule.grid_n
        self.values, inverse, counts = np.unique(
            self.returns, return_inverse=True, return_counts=True
        )
        mass = np.bincount(inverse, self.weights) / self.weights.sum()
        after = np.minimum(np.cumsum(mass), 1.0)
        before = after - mass
        middle = (before + after) / 2
        atoms = counts > 1
        ends = np.stack([np.where(atoms, before, middle), np.where(atoms, after, middle)], axis=1)
        self._levels = np.concatenate([[0.0], ends.ravel(), [1.0]])
        self._knots = np.concatenate([[low], np.repeat(self.values, 2), [high]])

    @property
    def size(self) -> int:
        """Number of observations in the pilot."""
        return int(self.returns.size)

    def quantile(self, p: float) -> float:
        """The p-quantile."""
        return float(self.quantiles(np.array([p]))[0])

    def quantiles(self, levels: FloatArray) -> FloatArray:
        """Quantiles at several levels in [0, 1]."""
        return np.asarray(np.interp(levels, self._levels, self._knots))

    def mean(self, values: FloatArray) -> float:
        """Self-normalized mean of `values`, one per observation of the pilot."""
        return float(np.sum(self.weights * values) / self.weights.sum())

    def mean_square(self, values: FloatArray) -> float:
        """Mean square of `values` under normalized weights, about n times a squared error."""
        return float(np.mean((self.weights / self.weights.mean() * values) ** 2))

    def standard_error(self, p: float) -> float:
        """Standard error of the distribution function at its p-quantile, from all n."""
        y = np.asarray(self.returns <= self.quantile(p), dtype=np.float64) - p
        return math.sqrt(max(self.mean_square(y), p * (1.0 - p)) / self.n)

    def own_error(self, p: float) -> float:
        """Standard error of the distribution function at its p-quantile, from the pilot alone."""
        return self.standard_error(p) * math.sqrt(self.n / self.size)

    def thresholds(self, levels: FloatArray) -> FloatArray:
        """Increasing thresholds above `low`: quantiles at the levels, atoms, and the tails."""
        halves = 0.5 ** np.arange(1, _TAIL_POINTS + 1)
        first, last = self.values[0], self.values[-1]
        points = [
            self.quantiles(levels),
            first - (first - self.low) * halves,
            last + (self.high - last) * halves,
            [self.high],
        ]
        if self.values.size <= _ALL_VALUES:
            points.append(self.values)
        thresholds = np.unique(np.concatenate(points))
        return thresholds[thresholds > self.low]
