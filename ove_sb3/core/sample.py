"""The logged trajectories together with the limits stated for them, as methods see them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ove_sb3._validation import IntArray

from .assumptions import Limits
from .statistics import TrajectoryStatistics


@dataclass(frozen=True)
class Sample:
    """Input of a bound.

    Attributes
    ----------
    stats : TrajectoryStatistics
    limits : Limits
    order : ndarray of int64, (n,)
        Order in which trajectories are processed: shuffled, or that of logging if the behavior
        was adaptive.
    overlaps : ndarray of int64, (n,), or None
        For an adaptive behavior: number of trajectories that ended while each was running.
    """

    stats: TrajectoryStatistics
    limits: Limits
    order: IntArray
    overlaps: IntArray | None

    @classmethod
    def of(
        cls,
        stats: TrajectoryStatistics,
        limits: Limits,
        *,
        adaptive: bool,
        rng: np.random.Generator,
    ) -> Sample:
        """Sample in logging order if `adaptive`, else shuffled by `rng`."""
        n = len(stats)
        order = np.arange(n) if adaptive else rng.permutation(n)
        return cls(stats, limits, order, stats.overlaps if adaptive else None)
