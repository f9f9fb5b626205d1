"""Standard deviation of the return: the square root of the variance, and so are its bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ove_sb3._validation import FloatArray
from ove_sb3.core.assumptions import Limits

from .base import Quantity, register_quantity, without_argument
from .variance import Variance


@dataclass(frozen=True)
class StandardDeviation(Quantity):
    """Standard deviation of the return."""

    kind = "std"
    label = "standard deviation"
    definition = "the typical distance of an episode from the mean (the root of the variance)"

    @property
    def base(self) -> Quantity:
        """The variance."""
        return Variance()

    def transform(self, value: float) -> float:
        """Square root; 0 for a negative estimate of the variance."""
        return math.sqrt(max(value, 0.0))

    def of_sample(self, returns: FloatArray) -> float:
        """Square root of the unbiased sample variance."""
        return math.sqrt(self.base.of_sample(returns))

    def a_priori(self, limits: Limits) -> tuple[float, float]:
        """From 0 to half of the range of the return."""
        low, high = self.base.a_priori(limits)
        return self.transform(low), self.transform(high)


register_quantity("std", without_argument(StandardDeviation))
