"""Simultaneous band around the distribution function of the return.

Quantiles at a few levels, fixed in advance, are bounded together: delta is divided among them. A
quantile of at least L at level p says that P(G < L) < p, one of at most U that P(G <= U) >= p. That
bounds the distribution function at every return, by step functions that are never interpolated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from ove_sb3._validation import FloatArray, check_real

from .interval import Interval
from .label import joint_label
from .quantities import Quantile

LEVELS = np.concatenate(
    [
        [0.01, 0.025, 0.05, 0.075],
        np.linspace(0.1, 0.9, 21).round(2),
        [0.925, 0.95, 0.975, 0.99],
    ]
)
"""Levels of the quantiles that are bounded, dense in the tails."""


@dataclass(frozen=True, eq=False)
class DistributionBand:
    """Bounds on the distribution function of the return that hold simultaneously.

    They hold for every x and p, also for those chosen after looking at the band.

    Attributes
    ----------
    levels : ndarray, (k,)
        Increasing levels of the quantiles that were bounded.
    lower, upper : ndarray, (k,)
        Bounds on these quantiles, non-decreasing.
    return_range : (float, float)
        A priori range of the return.
    delta : float
        Probability that the band misses the distribution function anywhere.
    guaranteed : bool
        Whether that is proven at this n, see `Interval.guaranteed`.
    reasons : tuple of str
        Why it is not; empty if it is.
    """

    levels: FloatArray
    lower: FloatArray
    upper: FloatArray
    return_range: tuple[float, float]
    delta: float
    guaranteed: bool
    reasons: tuple[str, ...]

    @property
    def consistent(self) -> bool:
        """False if the bounds contradict each other, at one level or between levels."""
        below, above = self.at(np.concatenate([self.lower, self.upper]))
        return bool(np.all(below <= above))

    def at(self, x: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds on P(G <= x)."""
        points = np.asarray(x, dtype=np.float64)
        low, high = self.return_range
        steps = np.concatenate([[0.0], self.levels, [1.0]])
        reached = np.searchsorted(self.upper, points, side="right")  # q_p <= x: F(x) >= p
        below = np.where(points >= high, 1.0, steps[reached])
        passed = np.searchsorted(self.lower, points, side="right")  # q_p > x: F(x) < p
        above = np.where(points < low, 0.0, steps[passed + 1])
        return below, above

    def quantile(self, p: float) -> tuple[float, float]:
        """Lower and upper bound on the p-quantile."""
        p = check_real(p, "p", 0.0, 1.0, closed=False)
        first = int(np.searchsorted(self.levels, p, side="right"))
        last = int(np.searchsorted(self.levels, p, side="left"))
        low, high = self.return_range
        return (
            float(self.lower[first - 1]) if first else low,
            float(self.upper[last]) if last < self.levels.size else high,
        )

    def steps(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Returns at which a bound steps, increasing, and the bounds from each of them on."""
        points = np.unique(np.concatenate([self.lower, self.upper, self.return_range]))
        return (points, *self.at(points))


def distribution_band(
    interval_of: Callable[[Quantile, float], Interval], delta: float
) -> DistributionBand:
    """Band from intervals of quantiles.

    Parameters
    ----------
    interval_of : callable
        Two-sided interval from a quantile and its delta.
    delta : float
        Total probability of a miss.
    """
    share = delta / LEVELS.size
    intervals = [interval_of(Quantile(float(p)), share) for p in LEVELS]
    reasons = [reason for one in intervals for reason in one.reasons]
    label = joint_label(reasons, consistent=True)
    band = DistributionBand(
        levels=LEVELS,
        # Quantiles increase with their level: a bound holds for all further ones.
        lower=np.maximum.accumulate([one.lower for one in intervals]),
        upper=np.minimum.accumulate([one.upper for one in intervals][::-1])[::-1],
        return_range=intervals[0].a_priori,
        delta=delta,
        guaranteed=label.guaranteed,
        reasons=label.reasons,
    )
    label = joint_label(reasons, consistent=band.consistent)
    return replace(band, guaranteed=label.guaranteed, reasons=label.reasons)
