"""Off-policy variance estimation with guarantees, for Gymnasium and stable-baselines3.

Names are loaded on first use, so that importing the package is quick and the statistical core needs
neither torch nor stable-baselines3.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core.diagnostics import Diagnostics, diagnose
    from .core.errors import (
        AssumptionError,
        InvalidInputError,
        OveError,
        OveWarning,
        SupportWarning,
        WeightOverflowError,
    )
    from .core.estimators import estimate_mean, estimate_variance
    from .core.intervals import mean_interval, variance_interval
    from .core.results import Interval
    from .core.statistics import TrajectoryStatistics, trajectory_statistics

__version__ = "0.1.0.dev0"

_HOME = {
    "AssumptionError": "core.errors",
    "Diagnostics": "core.diagnostics",
    "Interval": "core.results",
    "InvalidInputError": "core.errors",
    "OveError": "core.errors",
    "OveWarning": "core.errors",
    "SupportWarning": "core.errors",
    "TrajectoryStatistics": "core.statistics",
    "WeightOverflowError": "core.errors",
    "diagnose": "core.diagnostics",
    "estimate_mean": "core.estimators",
    "estimate_variance": "core.estimators",
    "mean_interval": "core.intervals",
    "trajectory_statistics": "core.statistics",
    "variance_interval": "core.intervals",
}

__all__ = [
    "AssumptionError",
    "Diagnostics",
    "Interval",
    "InvalidInputError",
    "OveError",
    "OveWarning",
    "SupportWarning",
    "TrajectoryStatistics",
    "WeightOverflowError",
    "diagnose",
    "estimate_mean",
    "estimate_variance",
    "mean_interval",
    "trajectory_statistics",
    "variance_interval",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its home module on first use."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
