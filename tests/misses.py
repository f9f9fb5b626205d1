"""Counts of bounds that missed in repeated trials, and what they say about the rate of misses.

Most guaranteed bounds miss far less often than they may. So a count is compared in two ways: after
all trials, with the largest rate allowed, by a binomial test; and meanwhile, with twice that rate,
by Wald's sequential probability ratio test. Once that rate is ruled out, no more trials are needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from scipy.stats import binom

import ove_sb3 as ove

SIGNIFICANT = 1e-4  # probability of a failure if misses are as frequent as allowed
OVERLOOKED = 1e-3  # probability that trials end early if misses are twice as frequent


def ruled_out(count: int, trials: int, level: float) -> bool:
    """Whether a probability of twice the level is ruled out by this number of misses."""
    if level >= 0.5:
        return True
    likelier = count * math.log(2.0) + (trials - count) * math.log((1 - 2 * level) / (1 - level))
    return likelier < math.log(OVERLOOKED)


@dataclass
class Misses:
    """Misses of the bounds of one interval.

    Attributes
    ----------
    delta : float
        Failure probability of the interval; each bound may fail with half of it.
    trials : int
    lower, upper, either : int
        Trials in which the bound missed, or any of the two.
    """

    delta: float
    trials: int = field(default=0, init=False)
    lower: int = field(default=0, init=False)
    upper: int = field(default=0, init=False)
    either: int = field(default=0, init=False)

    def add(self, interval: ove.Interval, truth: float, tolerance: float = 1e-9) -> None:
        """Count one more trial."""
        lower, upper = interval.lower > truth + tolerance, interval.upper < truth - tolerance
        # Bounds that contradict each other cannot both hold.
        assert interval.lower <= interval.upper or lower or upper
        self.trials += 1
        self.lower += lower
        self.upper += upper
        self.either += lower or upper

    @property
    def settled(self) -> bool:
        """Whether more trials are not needed."""
        return all(ruled_out(count, self.trials, level) for count, level in self._counts)

    def check(self, name: object = "") -> None:
        """Fail if so many misses are unlikely at the stated delta."""
        assert self.trials > 0
        for count, level in self._counts:
            assert binom.sf(count - 1, self.trials, level) > SIGNIFICANT, f"{name}: {self}"

    @property
    def _counts(self) -> tuple[tuple[int, float], ...]:
        return (
            (self.lower, self.delta / 2),
            (self.upper, self.delta / 2),
            (self.either, self.delta),
        )
