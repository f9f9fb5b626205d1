"""Guaranteed intervals by betting."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ove_sb3.core.assumptions import Limits
from ove_sb3.core.quantities.base import Quantity
from ove_sb3.core.sample import Sample
from ove_sb3.core.statistics import TrajectoryStatistics

from .base import Method, Tails


@dataclass(frozen=True)
class Betting(Method):
    """Interval from test martingales: guaranteed, and several times narrower than the paper's.

    References
    ----------
    .. [1] I. Waudby-Smith and A. Ramdas, "Estimating means of bounded random variables by betting",
       Journal of the Royal Statistical Society B, 2024.
    """

    name = "betting"
    proven = True
    handles_adaptive = True
    handles_unfinished = True

    def bounds(
        self,
        quantity: Quantity,
        stats: TrajectoryStatistics,
        limits: Limits,
        tails: Tails,
        *,
        adaptive: bool,
        rng: np.random.Generator,
    ) -> tuple[float, float]:
        """One-sided bounds of the quantity, each from its own test."""
        if stats.has_beginnings:
            sample = Sample.of_all_begun(stats, limits, adaptive=adaptive)
        else:
            sample = Sample.of(stats, limits, adaptive=adaptive, rng=rng)
        return (
            quantity.betting_lower(sample, tails.lower) if tails.lower > 0.0 else -math.inf,
            quantity.betting_upper(sample, tails.upper) if tails.upper > 0.0 else math.inf,
        )
