"""The paper's guaranteed intervals from concentration inequalities."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ove_sb3._validation import check_choice
from ove_sb3.core.concentration.inequalities import INEQUALITIES
from ove_sb3.core.quantities.base import Quantity
from ove_sb3.core.sample import Sample

from .base import Method, MethodInputs


@dataclass(frozen=True)
class Concentration(Method):
    """Interval of Algorithms 3 and 4 of the paper, with their errors corrected: guaranteed.

    Attributes
    ----------
    inequality : {"thomas", "hoeffding", "empirical_bernstein"}
        The last two need a bound on the weights.
    """

    inequality: str = "thomas"

    name = "paper"
    proven = True
    handles_adaptive = False

    def __post_init__(self) -> None:
        check_choice(self.inequality, "inequality", INEQUALITIES)

    def supports(self, quantity: Quantity) -> bool:
        """Whether the quantity has bounds on both sides."""
        return quantity.base.overrides("concentration_lower", "concentration_upper")

    def bounds(self, quantity: Quantity, inputs: MethodInputs) -> tuple[float, float]:
        """Bounds from moments, each bounded by the inequality."""
        tails = inputs.tails
        sample = Sample.of(inputs.stats, inputs.limits, adaptive=inputs.adaptive, rng=inputs.rng)
        bound = INEQUALITIES[self.inequality]
        return (
            quantity.concentration_lower(sample, tails.lower, bound)
            if tails.lower > 0.0
            else -math.inf,
            quantity.concentration_upper(sample, tails.upper, bound)
            if tails.upper > 0.0
            else math.inf,
        )
