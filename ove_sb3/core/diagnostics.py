"""Diagnostics of the importance weights: how informative a log is about a candidate."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ove_sb3._validation import FloatArray

from .interval import Interval
from .statistics import TrajectoryStatistics, check_statistics

_HEAVY_TAIL = 0.7  # of the generalized Pareto shape: averages of the weights become unreliable
_BROKEN_LOG = 5.0  # standard errors between the mean weight and 1
_FEW_EFFECTIVE = 50.0
_FEWEST_EFFECTIVE = 5.0  # for an estimate, or half of the trajectories if that is less
_MOST_UNSUPPORTED = 0.5  # of the candidate's outcomes, for an estimate
_SAMPLING_ERROR = 2.0  # of an estimate, in a priori ranges over the root of the effective size
_ROUNDING = 1e-9  # relative to the a priori range


@dataclass(frozen=True)
class Diagnostics:
    """Properties of the importance weights, and warnings in plain words.

    Attributes
    ----------
    n_trajectories, n_steps : int
    effective_sample_size : float
        (sum w)^2 / sum w^2: about how many trajectories of the candidate are worth as much.
    largest_share : float
        Share of the total weight on one trajectory.
    n_for_95_percent : int
        Number of trajectories that carry 95% of the weight.
    mean_weight, mean_weight_error : float
        Mean of w and its standard error. The true mean is 1.
    pareto_k : float
        Shape of a generalized Pareto distribution fitted to the largest weights; above 0.5 their
        variance is infinite, above 0.7 averages are unreliable. NaN with too few distinct ones.
    max_weight, max_ratio : float
        Largest weight of a trajectory and largest ratio of one step.
    zero_ratio_fraction, zero_weight_fraction : float
        Share of steps the candidate would never take, and of trajectories with such a step.
    unsupported_fraction : float
        Share of the candidate's outcomes that the behavior seems not to produce: 1 - mean weight
        where that is more than 5 standard errors below 1, else 0.
    warnings : tuple of str
        Problems found, one sentence each.
    verdict : str
        Summary in one sentence.
    """

    n_trajectories: int
    n_steps: int
    effective_sample_size: float
    largest_share: float
    n_for_95_percent: int
    mean_weight: float
    mean_weight_error: float
    pareto_k: float
    max_weight: float
    max_ratio: float
    zero_ratio_fraction: float
    zero_weight_fraction: float
    unsupported_fraction: float
    warnings: tuple[str, ...]
    verdict: str

    @classmethod
    def unknown(cls, n_trajectories: int, n_steps: int) -> Diagnostics:
        """Diagnostics of a log whose weights cannot be computed."""
        nan = math.nan
        return cls(
            n_trajectories=n_trajectories,
            n_steps=n_steps,
            effective_sample_size=nan,
            largest_share=nan,
            n_for_95_percent=0,
            mean_weight=nan,
            mean_weight_error=nan,
            pareto_k=nan,
            max_weight=nan,
            max_ratio=nan,
            zero_ratio_fraction=nan,
            zero_weight_fraction=nan,
            unsupported_fraction=nan,
            warnings=(),
            verdict="The importance weights could not be computed.",
        )

    def __str__(self) -> str:
        rows = [
            ("trajectories", f"{self.n_trajectories} ({self.n_steps} steps)"),
            ("effective sample size", f"{self.effective_sample_size:.1f}"),
            ("largest share of weight", share_text(self.largest_share)),
            ("95% of the weight on", f"{self.n_for_95_percent} trajectories"),
            (
                "mean weight",
                f"{self.mean_weight:.4g} +- {self.mean_weight_error:.2g} (should be 1)",
            ),
            ("Pareto k of the weights", f"{self.pareto_k:.2f}"),
            ("zero ratios", f"{share_text(self.zero_ratio_fraction)} of steps"),
        ]
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:<{width}}  {value}" for name, value in rows]
        return "\n".join([*lines, *(f"warning: {text}" for text in self.warnings), self.verdict])

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON; NaN becomes None."""
        values = asdict(self)
        values["warnings"] = list(self.warnings)
        return {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in values.items()
        }


def diagnose(
    stats: TrajectoryStatistics, *intervals: Interval, max_weight: float | None = None
) -> Diagnostics:
    """Examine the importance weights, and the intervals computed from them if given.

    `max_weight` is a known bound on the weights: where it has nearly been reached, no larger ones
    remain to be seen.
    """
    w = check_statistics(stats).weights
    n = w.size
    largest, ess, mean, error, unsupported = _weight_summary(w)
    scaled = w / largest if largest > 0.0 else w
    cumulated = np.cumsum(np.sort(scaled)[::-1])
    n_for_95 = int(np.searchsorted(cumulated, 0.95 * cumulated[-1]) + 1) if largest > 0.0 else 0
    tail = pareto_k(w)
    capped = max_weight is not None and 2.0 * largest >= max_weight
    warnings = _warnings(
        stats, ess, n_for_95, mean, error, unsupported, -math.inf if capped else tail, intervals
    )
    return Diagnostics(
        n_trajectories=n,
        n_steps=stats.n_steps,
        effective_sample_size=ess,
        largest_share=float(1.0 / scaled.sum()) if largest > 0.0 else 0.0,
        n_for_95_percent=n_for_95,
        mean_weight=mean,
        mean_weight_error=error,
        pareto_k=tail,
        max_weight=largest,
        max_ratio=math.exp(min(stats.max_log_ratio, 709.0)),
        zero_ratio_fraction=stats.n_zero_ratios / stats.n_steps,
        zero_weight_fraction=float(np.mean(w == 0.0)),
        unsupported_fraction=unsupported,
        warnings=tuple(warnings),
        verdict=_verdict(ess, n, warnings),
    )


def _weight_summary(w: FloatArray) -> tuple[float, float, float, float, float]:
    """Largest weight, effective sample size, mean, its standard error, unsupported fraction."""
    largest = float(w.max())
    if largest <= 0.0:
        return 0.0, 0.0, 0.0, 0.0, 1.0
    scaled = w / largest  # squares of huge weights would overflow
    ess = float(scaled.sum() ** 2 / np.sum(scaled**2))
    mean = float(scaled.mean() * largest)
    error = float(scaled.std(ddof=1) * largest / math.sqrt(w.size))
    deficit = 1.0 - mean
    unsupported = deficit if deficit > max(_BROKEN_LOG * error, 1e-9) else 0.0
    return largest, ess, mean, error, unsupported


def missing_support(stats: TrajectoryStatistics) -> str | None:
    """Why the log supports no estimate, in words; None if it does.

    An estimate needs an effective sample size of 5, or of half the trajectories if that is less,
    and at least half of the candidate's outcomes within the reach of the behavior. Short of that,
    its value is decided by a handful of trajectories or by the part of the candidate that happens
    to be in the log.
    """
    n = len(stats)
    _, ess, mean, _, unsupported = _weight_summary(stats.weights)
    if mean == 0.0:
        return "no logged trajectory is possible under the candidate"
    if ess < min(_FEWEST_EFFECTIVE, n / 2):
        return f"the log is worth {ess:.2g} of {n} trajectories of the candidate"
    if unsupported > _MOST_UNSUPPORTED:
        return f"about {share_text(unsupported)} of the candidate's outcomes are not in the log"
    return None


def is_impossible(
    value: float, a_priori: tuple[float, float], stats: TrajectoryStatistics, *, positive: bool
) -> bool:
    """Whether an estimate lies so far outside the a priori range that it says nothing.

    Unbiased estimates vary around the truth, which may lie at an end of the range, so an estimate
    may be outside by its sampling error. A quantity that is `positive`, such as a variance, has a
    sampling error larger than its value once its estimate is negative.
    """
    low, high = a_priori
    _, ess, *_ = _weight_summary(stats.weights)
    room = _SAMPLING_ERROR * (high - low) / math.sqrt(max(ess, 1.0))
    room += _ROUNDING * max(abs(low), abs(high))
    if positive:
        # Relative to what was seen: the a priori range can be wider by any factor.
        rounding = _ROUNDING * float(np.ptp(stats.returns) ** 2)
        rounding += 1e-3 * _ROUNDING * float(np.max(stats.returns**2))
        return bool(value < low - rounding or value > high + room)
    return bool(value < low - room or value > high + room)


def share_text(share: float) -> str:
    """A share in percent: two digits, or two decimals near 100%, and never an exponent."""
    percent = 100.0 * share
    if 0.0 < percent < 1e-4:
        return "less than 0.0001%"
    return f"{round(percent, 2):g}%" if percent >= 99.0 else f"{percent:.2g}%"


def pareto_k(weights: FloatArray) -> float:
    """Shape of the generalized Pareto tail of the weights, by Zhang and Stephens (2009).

    Fitted to the largest min(n/5, 3 sqrt(n)) weights above the next one; NaN if fewer than 5
    of them differ from it.
    """
    ordered = np.sort(weights)
    n_tail = int(min(0.2 * ordered.size, 3.0 * math.sqrt(ordered.size)))
    if n_tail < 5:
        return math.nan
    excess = ordered[-n_tail:] - ordered[-n_tail - 1]
    excess = excess[excess > 0.0]
    if np.unique(excess).size < 5 or not np.isfinite(excess).all():
        return math.nan
    n = excess.size
    x = excess / excess[-1]
    n_grid = 30 + int(math.sqrt(n))
    quartile = x[int(n / 4 + 0.5) - 1]
    points = np.arange(1, n_grid + 1) - 0.5
    b = 1.0 / x[-1] + (1.0 - np.sqrt(n_grid / points)) / (3.0 * quartile)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        k = np.mean(np.log1p(-b[:, None] * x), axis=1)
        log_likelihood = n * (np.log(-b / k) - k - 1.0)
        log_likelihood = np.where(np.isfinite(log_likelihood), log_likelihood, -np.inf)
    if not np.isfinite(log_likelihood.max()):
        return math.nan
    posterior = np.exp(log_likelihood - log_likelihood.max())
    mean_b = float(b @ posterior / posterior.sum())
    shape = float(np.mean(np.log1p(-mean_b * x)))
    return float((n * shape + 5.0) / (n + 10.0))  # a weak prior at 1/2 steadies small samples


def _warnings(
    stats: TrajectoryStatistics,
    ess: float,
    n_for_95: int,
    mean: float,
    error: float,
    unsupported: float,
    tail: float,
    intervals: tuple[Interval, ...],
) -> list[str]:
    n = stats.n_trajectories
    warnings = []
    if mean == 0.0:
        warnings.append("no logged trajectory is possible under the candidate.")
        return warnings
    if mean - 1.0 > max(_BROKEN_LOG * error, 1e-9):
        warnings.append(
            f"the mean weight is {mean:.4g} +- {error:.2g} where 1 is expected: logged "
            "probabilities are probably wrong."
        )
    if unsupported > 0.0:
        warnings.append(
            f"the mean weight is {mean:.4g} +- {error:.2g} where 1 is expected: the candidate "
            f"seems to take actions that the behavior never takes (about {share_text(unsupported)} "
            "of its outcomes), or logged probabilities are wrong."
        )
    if ess < _FEW_EFFECTIVE and ess > 0.5 * n:
        warnings.append(f"{n} trajectories are few: collect more.")
    elif n_for_95 < 0.05 * n or ess < _FEW_EFFECTIVE:
        remedy = "" if tail == -math.inf else ", with a behavior closer to the candidate"
        effect = ", so estimates may be far off" if ess < _FEW_EFFECTIVE else ""
        warnings.append(
            f"95% of the weight is on {n_for_95} of {n} trajectories (effective sample size "
            f"{ess:.3g}){effect}: collect more{remedy}."
        )
    if tail > _HEAVY_TAIL:
        warnings.append(
            f"the weights have a heavy tail (Pareto k {tail:.2f}): rare trajectories not seen yet "
            "may matter, and approximate intervals are unreliable."
        )
    for interval in intervals:
        if not interval.informative:
            warnings.append(
                f"the {interval.method} interval for the {interval.quantity} is no tighter than "
                "the a priori bound: more trajectories are needed."
            )
    return warnings


def _verdict(ess: float, n: int, warnings: list[str]) -> str:
    if not warnings:
        return (
            f"The log is informative: worth about {ess:.0f} of {n} trajectories of the candidate."
        )
    if ess < 2.0:
        return "The log says next to nothing about the candidate."
    return f"Use with care: worth about {ess:.3g} of {n} trajectories, see the warnings."
