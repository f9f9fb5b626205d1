"""Quantities of the return: a registry, and one file each."""

from .base import (
    Quantity,
    as_quantities,
    as_quantity,
    quantity_names,
    register_quantity,
)
from .cvar import CVaR
from .mean import Mean
from .probability import ProbabilityBelow
from .quantile import Quantile
from .standard_deviation import StandardDeviation
from .variance import Variance

DEFAULT_QUANTITIES: tuple[Quantity, ...] = (Mean(), Variance(), StandardDeviation())

__all__ = [
    "DEFAULT_QUANTITIES",
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
]
