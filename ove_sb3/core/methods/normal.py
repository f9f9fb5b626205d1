"""Normal intervals by the delta method."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import ndtri

from ove_sb3.core.quantities.base import Quantity

from .base import Method, MethodInputs


@dataclass(frozen=True)
class Normal(Method):
    """Normal interval with the estimator's standard error: approximate, for large n.

    Attributes
    ----------
    estimator : str or None
        Name of the estimator whose distribution is approximated; None: the quantity's default.
    """

    estimator: str | None = None

    name = "normal"
    proven = False
    handles_adaptive = False

    def supports(self, quantity: Quantity) -> bool:
        """Whether the quantity has the estimator, and it can be resampled."""
        name = self.estimator
        return quantity.has_estimator(name) and quantity.find_estimator(name).can_be_resampled

    def bounds(self, quantity: Quantity, inputs: MethodInputs) -> tuple[float, float]:
        """Estimate plus and minus a multiple of its standard error."""
        stats, tails = inputs.stats, inputs.tails
        estimator = quantity.find_estimator(self.estimator)
        statistic = estimator.smooth_statistic(stats)
        value, error = statistic.value, statistic.standard_error
        bounds = (
            float(value + ndtri(tails.lower) * error) if tails.lower > 0.0 else -math.inf,
            float(value - ndtri(tails.upper) * error) if tails.upper > 0.0 else math.inf,
        )
        return estimator.linked(stats, bounds)
