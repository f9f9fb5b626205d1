"""Probability of a return of at most x."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ove_sb3._validation import FloatArray, check_real
from ove_sb3.core.assumptions import Limits
from ove_sb3.core.betting.averages import BLOCKS, mean_lower, value_forms
from ove_sb3.core.estimators.weighted_distribution import at_most
from ove_sb3.core.sample import Sample

from .base import Quantity, number_argument, register_quantity, short_number


@dataclass(frozen=True)
class ProbabilityBelow(Quantity):
    """Probability of a return of at most `x`, P(G <= x).

    `x` is stated before looking at the data.
    """

    x: float

    kind = "p_below"
    default_estimator = "wis"

    def __post_init__(self) -> None:
        object.__setattr__(self, "x", check_real(self.x, "x", -math.inf, math.inf, closed=False))

    @property
    def name(self) -> str:
        """Short name, such as ``"p_below:10"``."""
        return f"p_below:{short_number(self.x)}"

    @property
    def label(self) -> str:
        """Display name."""
        return f"P(return <= {short_number(self.x)})"

    @property
    def title(self) -> str:
        """Display name in full."""
        return f"probability of a return of at most {short_number(self.x)}"

    @property
    def definition(self) -> str:
        """What it says about episodes."""
        return f"the share of episodes at or below {short_number(self.x)}"

    @property
    def parameter(self) -> float:
        """The limit x."""
        return self.x

    def of_sample(self, returns: FloatArray) -> float:
        """Fraction of returns of at most x."""
        return float(at_most(returns, self.x).mean())

    def a_priori(self, limits: Limits) -> tuple[float, float]:
        """From 0 to 1; only 0, or only 1, if x is outside the range of the return."""
        low, high = limits.return_range
        return float(self.x >= high), float(self.x >= low)

    def betting_lower(self, sample: Sample, level: float) -> float:
        """Lower confidence bound by betting."""
        return self._lower(sample, level, 0.0)

    def betting_upper(self, sample: Sample, level: float) -> float:
        """Upper confidence bound by betting."""
        return -self._lower(sample, level, -1.0)

    def _lower(self, sample: Sample, level: float, low: float) -> float:
        """Lower bound on the mean of the indicator, or of its negative, with values from `low`."""
        schedule = sample.schedule(BLOCKS, warm_up=True)
        below = at_most(sample.returns, self.x).astype(np.float64)
        forms = value_forms(sample, -below if low < 0.0 else below, low, low + 1.0)
        return mean_lower(forms, schedule, level, low, low + 1.0)


register_quantity("p_below", number_argument("p_below", ProbabilityBelow))
