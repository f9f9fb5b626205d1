"""Off-policy variance estimation with guarantees, for Gymnasium and stable-baselines3.

Names are loaded on first use, so that importing the package is quick and the statistical core needs
neither torch nor stable-baselines3.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core.diagnostics import Diagnostics, diagnose
    from .core.estimators import estimate_mean, estimate_variance
    from .core.intervals import mean_interval, variance_interval
    from .core.results import Interval
    from .core.statistics import TrajectoryStatistics, trajectory_statistics
    from .data.interchange import from_minari, to_minari
    from .data.log import DiskLog, open_log
    from .data.metadata import Metadata
    from .data.storage import EpisodeWriter
    from .data.trajectories import Trajectories
    from .errors import (
        AssumptionError,
        DependenceWarning,
        EmptyLogError,
        InvalidInputError,
        MeanWeightError,
        OveError,
        OveWarning,
        StorageError,
        SupportWarning,
        UnsupportedPolicyError,
        WeightOverflowError,
        WorkerError,
    )
    from .evaluation.many import Comparison, compare
    from .evaluation.one import evaluate
    from .evaluation.result import Evaluation
    from .sb3.callback import OffPolicyVarianceCallback
    from .sb3.collect import collect
    from .sb3.dispatch import action_distribution, register_policy
    from .sb3.distributions import ActionDistribution
    from .sb3.log_prob import log_prob
    from .sb3.look import Look
    from .sb3.mixture_policies import EpsilonGreedy, MixturePolicy
    from .sb3.policies import SoftmaxPolicy, TabularPolicy, UniformPolicy
    from .sb3.stop_training import StopTrainingOnSafeVariance
    from .sb3.wrappers import LogActionProbability, VecLogActionProbability

__version__ = "0.1.0.dev0"

_HOME = {
    "ActionDistribution": "sb3.distributions",
    "AssumptionError": "errors",
    "Comparison": "evaluation.many",
    "DependenceWarning": "errors",
    "Diagnostics": "core.diagnostics",
    "DiskLog": "data.log",
    "EmptyLogError": "errors",
    "EpisodeWriter": "data.storage",
    "EpsilonGreedy": "sb3.mixture_policies",
    "Evaluation": "evaluation.result",
    "Interval": "core.results",
    "InvalidInputError": "errors",
    "LogActionProbability": "sb3.wrappers",
    "Look": "sb3.look",
    "MeanWeightError": "errors",
    "Metadata": "data.metadata",
    "MixturePolicy": "sb3.mixture_policies",
    "OffPolicyVarianceCallback": "sb3.callback",
    "OveError": "errors",
    "OveWarning": "errors",
    "SoftmaxPolicy": "sb3.policies",
    "StopTrainingOnSafeVariance": "sb3.stop_training",
    "StorageError": "errors",
    "SupportWarning": "errors",
    "TabularPolicy": "sb3.policies",
    "Trajectories": "data.trajectories",
    "TrajectoryStatistics": "core.statistics",
    "UniformPolicy": "sb3.policies",
    "UnsupportedPolicyError": "errors",
    "VecLogActionProbability": "sb3.wrappers",
    "WeightOverflowError": "errors",
    "WorkerError": "errors",
    "action_distribution": "sb3.dispatch",
    "collect": "sb3.collect",
    "compare": "evaluation.many",
    "diagnose": "core.diagnostics",
    "estimate_mean": "core.estimators",
    "estimate_variance": "core.estimators",
    "evaluate": "evaluation.one",
    "from_minari": "data.interchange",
    "log_prob": "sb3.log_prob",
    "mean_interval": "core.intervals",
    "open_log": "data.log",
    "register_policy": "sb3.dispatch",
    "to_minari": "data.interchange",
    "trajectory_statistics": "core.statistics",
    "variance_interval": "core.intervals",
}

__all__ = [
    "ActionDistribution",
    "AssumptionError",
    "Comparison",
    "DependenceWarning",
    "Diagnostics",
    "DiskLog",
    "EmptyLogError",
    "EpisodeWriter",
    "EpsilonGreedy",
    "Evaluation",
    "Interval",
    "InvalidInputError",
    "LogActionProbability",
    "Look",
    "MeanWeightError",
    "Metadata",
    "MixturePolicy",
    "OffPolicyVarianceCallback",
    "OveError",
    "OveWarning",
    "SoftmaxPolicy",
    "StopTrainingOnSafeVariance",
    "StorageError",
    "SupportWarning",
    "TabularPolicy",
    "Trajectories",
    "TrajectoryStatistics",
    "UniformPolicy",
    "UnsupportedPolicyError",
    "VecLogActionProbability",
    "WeightOverflowError",
    "WorkerError",
    "action_distribution",
    "collect",
    "compare",
    "diagnose",
    "estimate_mean",
    "estimate_variance",
    "evaluate",
    "from_minari",
    "log_prob",
    "mean_interval",
    "open_log",
    "register_policy",
    "to_minari",
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
