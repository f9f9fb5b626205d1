"""Point estimators: a registry, and one file per family."""

from . import (
    crossfit,
    importance_sampling,
    pairwise,
    per_decision,
    regression,
    self_normalized,
    weighted_distribution,
)
from .base import Estimator, estimator_names, find_estimator, register_estimator

__all__ = [
    "Estimator",
    "crossfit",
    "estimator_names",
    "find_estimator",
    "importance_sampling",
    "pairwise",
    "per_decision",
    "register_estimator",
    "regression",
    "self_normalized",
    "weighted_distribution",
]
