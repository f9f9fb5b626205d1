"""Quantities of the return: a registry, and one file each."""

from .base import (
    Quantity,
    as_quantities,
    as_quantity,
    quantity_names,
    register_quantity,
    short_number,
)
from .cvar import CVaR
from .mean import Mean
from .probability import ProbabilityBelow
from .quantile import Quantile
from .standard_deviation import StandardDeviation
from .variance import Variance

MOMENTS: tuple[Quantity, ...] = (Mean(), Variance(), StandardDeviation())
"""Default where all intervals must hold simultaneously, which every further quantity widens."""

DEFAULT_QUANTITIES: tuple[Quantity, ...] = (
    *MOMENTS,
    Quantile(0.05),
    Quantile(0.5),
    Quantile(0.95),
    CVaR(0.1),
)
"""Default of `evaluate`, where each interval holds by itself.

The objects themselves are the default: a method without bounds for one of them leaves it out, but
refuses an equal quantity that was asked for.
"""

__all__ = [
    "DEFAULT_QUANTITIES",
    "MOMENTS",
    "CVaR",
    "Mean",
    "ProbabilityBelow",
    "Quantile",
    "Quantity",
    "StandardDeviation",
    "Variance",
    "as_quantities",
    "as_quantity",
    "quantity_names",
    "register_quantity",
    "short_number",
]
