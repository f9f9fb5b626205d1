"""Bounds that hold simultaneously at every number of trajectories."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ove_sb3.core.quantities.base import Quantity
from ove_sb3.core.sample import Sample
from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.core.under_way import UnderWay, under_way

from .base import Method, MethodInputs

_TARGETS = tuple(128 * 4**k for k in range(7))  # to half a million trajectories
_NEAREST = 2  # targets tried at any time


@dataclass(frozen=True, eq=False)
class AnytimeBetting(Method):
    """Test martingales whose bets do not depend on how many trajectories there will be.

    By Ville's inequality the capital of a true hypothesis stays below 1/a at all times, with
    probability at least 1 - a. So the bounds may be computed again and again while a log grows,
    and logging may stop at any time, whatever was seen until then. They are wider than those of
    `Betting`, which are for one number of trajectories.

    Bets aim at a number of trajectories. Without `target_n` there are 7 tests, which aim at 128,
    512, ..., 524,288 trajectories, each at 1/7 of the level. The result is the better bound of the
    two whose targets are nearest to n.

    It is not among the registered methods, because it takes the trajectories in the order of the
    log: `confidence_sequence` and `watch` ask for the right one.

    Attributes
    ----------
    target_n : int or None
        Number of trajectories at which the bounds are to be tightest. They hold at every number.
    running : UnderWay or None
        Trajectories under way, which count at the lower bound of the bet target, because long ones
        are under way more often. None: as recorded in the log.
    """

    name = "anytime"
    proven = True
    handles_adaptive = True
    handles_unfinished = True
    any_number = True

    target_n: int | None = None
    running: UnderWay | None = None

    def n_unfinished(self, stats: TrajectoryStatistics) -> int:
        """Number of trajectories under way."""
        return len(self._under_way(stats))

    def supports(self, quantity: Quantity) -> bool:
        """Whether the quantity has bounds on both sides."""
        return quantity.base.overrides("betting_lower", "betting_upper")

    def bounds(self, quantity: Quantity, inputs: MethodInputs) -> tuple[float, float]:
        """One-sided bounds of the quantity, each from tests of its own."""
        # Always in the order in which the trajectories ended.
        stats, tails = inputs.stats, inputs.tails
        targets, share = self._targets(len(stats))
        running = self._under_way(stats)
        lower, upper = -math.inf, math.inf
        for target in targets:
            exact = self.target_n is not None
            sample = Sample.so_far(stats, inputs.limits, running, target, exact=exact)
            if tails.lower > 0.0:
                lower = max(lower, quantity.betting_lower(sample, share * tails.lower))
            if tails.upper > 0.0:
                upper = min(upper, quantity.betting_upper(sample, share * tails.upper))
        return lower, upper

    def _under_way(self, stats: TrajectoryStatistics) -> UnderWay:
        return under_way(stats, len(stats)) if self.running is None else self.running

    def _targets(self, n: int) -> tuple[tuple[int, ...], float]:
        """Targets to use at n, and the share of the level that every target has."""
        if self.target_n is not None:
            return (self.target_n,), 1.0
        nearest = sorted(_TARGETS, key=lambda target: abs(math.log(target / n)))
        return tuple(nearest[:_NEAREST]), 1.0 / len(_TARGETS)
