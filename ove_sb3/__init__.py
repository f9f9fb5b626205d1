"""Off-policy variance estimation with guarantees, for Gymnasium and stable-baselines3.

Names are loaded on first use, so that importing the package is quick and the statistical core needs
neither torch nor stable-baselines3.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .callbacks import OffPolicyVarianceCallback, StopTrainingOnRequirements
    from .collection.collect import collect
    from .collection.wrappers import LogActionProbability, VecLogActionProbability
    from .core.assumptions import Assumptions
    from .core.diagnostics import Diagnostics, diagnose
    from .core.estimators import Estimator, register_estimator
    from .core.inference import (
        estimate,
        estimate_mean,
        estimate_variance,
        interval,
        mean_interval,
        variance_interval,
    )
    from .core.interval import Interval
    from .core.methods import Betting, Bootstrap, Concentration, Method, Normal, register_method
    from .core.quantities import (
        DEFAULT_QUANTITIES,
        CVaR,
        Mean,
        ProbabilityBelow,
        Quantile,
        Quantity,
        StandardDeviation,
        Variance,
        register_quantity,
    )
    from .core.statistics import (
        Column,
        Steps,
        StepScores,
        TrajectoryStatistics,
        trajectory_statistics,
    )
    from .data.log import DiskLog, open_log
    from .data.metadata import Metadata
    from .data.minari import from_minari, to_minari
    from .data.trajectories import Trajectories
    from .data.writer import EpisodeWriter
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
    from .evaluation.compare import Comparison, compare
    from .evaluation.evaluate import evaluate
    from .evaluation.requirements import Requirement, Verdict
    from .evaluation.result import Evaluation, QuantityResult
    from .policies.builtin import SoftmaxPolicy, TabularPolicy, UniformPolicy
    from .policies.dispatch import action_distribution
    from .policies.distribution import ActionDistribution
    from .policies.log_prob import log_prob
    from .policies.mixtures import EpsilonGreedyPolicy, MixturePolicy
    from .policies.registry import register_policy

__version__ = "0.1.0.dev0"

_HOME = {
    "ActionDistribution": "policies.distribution",
    "AssumptionError": "errors",
    "Assumptions": "core.assumptions",
    "Betting": "core.methods",
    "Bootstrap": "core.methods",
    "CVaR": "core.quantities",
    "Column": "core.statistics",
    "Comparison": "evaluation.compare",
    "Concentration": "core.methods",
    "DEFAULT_QUANTITIES": "core.quantities",
    "DependenceWarning": "errors",
    "Diagnostics": "core.diagnostics",
    "DiskLog": "data.log",
    "EmptyLogError": "errors",
    "EpisodeWriter": "data.writer",
    "EpsilonGreedyPolicy": "policies.mixtures",
    "Estimator": "core.estimators",
    "Evaluation": "evaluation.result",
    "Interval": "core.interval",
    "InvalidInputError": "errors",
    "LogActionProbability": "collection.wrappers",
    "Mean": "core.quantities",
    "MeanWeightError": "errors",
    "Metadata": "data.metadata",
    "Method": "core.methods",
    "MixturePolicy": "policies.mixtures",
    "Normal": "core.methods",
    "OffPolicyVarianceCallback": "callbacks",
    "OveError": "errors",
    "OveWarning": "errors",
    "ProbabilityBelow": "core.quantities",
    "Quantile": "core.quantities",
    "Quantity": "core.quantities",
    "QuantityResult": "evaluation.result",
    "Requirement": "evaluation.requirements",
    "SoftmaxPolicy": "policies.builtin",
    "StandardDeviation": "core.quantities",
    "StepScores": "core.statistics",
    "Steps": "core.statistics",
    "StopTrainingOnRequirements": "callbacks",
    "StorageError": "errors",
    "SupportWarning": "errors",
    "TabularPolicy": "policies.builtin",
    "Trajectories": "data.trajectories",
    "TrajectoryStatistics": "core.statistics",
    "UniformPolicy": "policies.builtin",
    "UnsupportedPolicyError": "errors",
    "Variance": "core.quantities",
    "VecLogActionProbability": "collection.wrappers",
    "Verdict": "evaluation.requirements",
    "WeightOverflowError": "errors",
    "WorkerError": "errors",
    "action_distribution": "policies.dispatch",
    "collect": "collection.collect",
    "compare": "evaluation.compare",
    "diagnose": "core.diagnostics",
    "estimate": "core.inference",
    "estimate_mean": "core.inference",
    "estimate_variance": "core.inference",
    "evaluate": "evaluation.evaluate",
    "from_minari": "data.minari",
    "interval": "core.inference",
    "log_prob": "policies.log_prob",
    "mean_interval": "core.inference",
    "open_log": "data.log",
    "register_estimator": "core.estimators",
    "register_method": "core.methods",
    "register_policy": "policies.registry",
    "register_quantity": "core.quantities",
    "to_minari": "data.minari",
    "trajectory_statistics": "core.statistics",
    "variance_interval": "core.inference",
}

__all__ = [
    "DEFAULT_QUANTITIES",
    "ActionDistribution",
    "AssumptionError",
    "Assumptions",
    "Betting",
    "Bootstrap",
    "CVaR",
    "Column",
    "Comparison",
    "Concentration",
    "DependenceWarning",
    "Diagnostics",
    "DiskLog",
    "EmptyLogError",
    "EpisodeWriter",
    "EpsilonGreedyPolicy",
    "Estimator",
    "Evaluation",
    "Interval",
    "InvalidInputError",
    "LogActionProbability",
    "Mean",
    "MeanWeightError",
    "Metadata",
    "Method",
    "MixturePolicy",
    "Normal",
    "OffPolicyVarianceCallback",
    "OveError",
    "OveWarning",
    "ProbabilityBelow",
    "Quantile",
    "Quantity",
    "QuantityResult",
    "Requirement",
    "SoftmaxPolicy",
    "StandardDeviation",
    "StepScores",
    "Steps",
    "StopTrainingOnRequirements",
    "StorageError",
    "SupportWarning",
    "TabularPolicy",
    "Trajectories",
    "TrajectoryStatistics",
    "UniformPolicy",
    "UnsupportedPolicyError",
    "Variance",
    "VecLogActionProbability",
    "Verdict",
    "WeightOverflowError",
    "WorkerError",
    "action_distribution",
    "collect",
    "compare",
    "diagnose",
    "estimate",
    "estimate_mean",
    "estimate_variance",
    "evaluate",
    "from_minari",
    "interval",
    "log_prob",
    "mean_interval",
    "open_log",
    "register_estimator",
    "register_method",
    "register_policy",
    "register_quantity",
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
