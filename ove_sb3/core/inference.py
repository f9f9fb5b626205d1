"""Point estimates and confidence intervals from per-trajectory statistics."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np

from ove_sb3._validation import as_generator, check_choice, check_flag
from ove_sb3.errors import InvalidInputError, SupportWarning

from .assigned import balanced, is_assigned, reweighted, share_factors
from .assumptions import Assumptions, check_mean_weight
from .diagnostics import missing_support
from .interval import Interval
from .label import INCONSISTENT, Evidence, Label, decide_label, joint_label
from .methods import Method, MethodInputs, Tails, as_method
from .quantities import Quantity, as_quantity
from .stated import Assumption
from .statistics import TrajectoryStatistics, check_statistics

FIXED_NUMBER = Assumption("the number of trajectories was fixed in advance")
_NUMBERED = (
    "Episodes are numbered when they begin, and the numbers were compared with those logged. Where "
    "no numbers were logged, it cannot be checked."
)
ANY_NUMBER = Assumption(
    "trajectories are in an order fixed in advance, as in a log of `collect`, or in the order in "
    "which they ended: one after another, or with `overlaps`, the number of others that ended "
    "while each was running; every one that was begun is counted, and logging may stop at any time",
    _NUMBERED,
)
_INDEPENDENT = (
    "Episodes that repeat others beyond chance, and environments that explore together, void the "
    "guarantee. Any other dependence cannot be seen in a log."
)
_EXACT = Assumption(
    "logged log-ratios are exact, and the behavior can take every action of the candidate",
    "Weights must be 1 on average: a mean significantly above 1 is refused, and so is one "
    "significantly below 1 where the weights have a bound; otherwise a low mean is a warning. "
    "Smaller errors cannot be seen.",
)
_NOT_TRAINED_ON = Assumption(
    "the candidate does not depend on these trajectories",
    "Models carry the identifiers of the logs that this package trained or selected them on, and "
    "these were compared. What was done elsewhere cannot be seen.",
)
SIDES = ("both", "lower", "upper")
_ROUNDING = 1e-9  # of the a priori range, or of the bounds: crossing by less is rounding


def estimate(
    stats: TrajectoryStatistics, quantity: str | Quantity, *, estimator: str | None = None
) -> float:
    """Estimate a quantity of the candidate's return.

    Parameters
    ----------
    stats : TrajectoryStatistics
        From `trajectory_statistics`.
    quantity : str or Quantity
        ``"mean"``, ``"variance"``, ``"std"``, or a registered one.
    estimator : str, optional
        For the mean: ``"crossfit"`` (default), ``"pdis"``, ``"is"`` (unbiased); ``"wis"``
        (self-normalized) and ``"regression"``, both biased at finite n.

        For the variance, unbiased and unchanged when all returns are shifted:

        - ``"crossfit"`` (default): centered coupled-decision importance sampling with control
          variates fitted on the other folds; rarely far from the best.
        - ``"pair_cdis"``: weighted pairs of trajectories, step by step.
        - ``"pair"``: weighted pairs of whole trajectories; never negative.

        The paper's, unbiased but sensitive to where zero lies: ``"cdis"`` (Algorithm 1) and
        ``"is"`` (full-trajectory weights), both with the squared mean from two halves;
        ``"cdis_u"`` and ``"is_u"`` take it from all pairs.

        With a small bias and the smallest error where trajectories are few: ``"regression"``, the
        control variates of ``"crossfit"`` fitted on all trajectories at once.

        For comparison only, biased: ``"naive_is"`` (the paper's sigma^2!!, not even consistent),
        ``"naive_plugin"`` (sigma^2!), ``"wis"`` (self-normalized).

    Returns
    -------
    float
        Unbiased estimates of the variance other than ``"pair"`` can be negative.

    Warns
    -----
    SupportWarning
        If the log is worth so few trajectories of the candidate that the estimate may be off by
        orders of magnitude. `evaluate` gives no estimate then.
    """
    check_statistics(stats)
    what = as_quantity(quantity)
    what.find_estimator(estimator)
    warn_without_support(stats)
    missing = missing_support(stats)
    if missing is not None and stats.weights.any():
        warnings.warn(
            f"the estimate is unreliable: {missing}. Log with a behavior closer to the candidate, "
            "such as a MixturePolicy that contains it.",
            SupportWarning,
            stacklevel=2,
        )
    return what.estimate(balanced(stats), estimator)


def estimate_mean(stats: TrajectoryStatistics, estimator: str | None = None) -> float:
    """Estimate the mean of the candidate's return, see `estimate`."""
    return estimate(stats, "mean", estimator=estimator)


def estimate_variance(stats: TrajectoryStatistics, estimator: str | None = None) -> float:
    """Estimate the variance of the candidate's return, see `estimate`."""
    return estimate(stats, "variance", estimator=estimator)


def interval(
    stats: TrajectoryStatistics,
    quantity: str | Quantity,
    *,
    reward_range: tuple[float, float] | str | None = None,
    return_range: tuple[float, float] | None = None,
    max_ratio: float | None = None,
    max_weight: float | None = None,
    delta: float = 0.05,
    method: str | Method = "betting",
    side: str = "both",
    adaptive: bool = False,
    rng: int | np.random.Generator | None = 0,
) -> Interval:
    """Confidence interval for a quantity of the candidate's return.

    Parameters
    ----------
    stats : TrajectoryStatistics
        From `trajectory_statistics`.
    quantity : str or Quantity
        ``"mean"``, ``"variance"``, ``"std"``, or a registered one.
    reward_range : (float, float) or "from_data"
        Smallest and largest reward the environment can give. It is an assumption: a logged reward
        outside it is an error. ``"from_data"`` takes the extremes of the log, and the interval
        is then labeled approximate. Unless ``horizon == 1``, the range is widened to contain
        0, because episodes that end early are padded with rewards of 0.
    return_range : (float, float), optional
        Smallest and largest return, where known to be tighter than the rewards imply.
    max_ratio : float, optional
        Known bound on the importance ratio of one step, such as 1/alpha for a behavior that mixes
        in the candidate with probability alpha at every step. Makes guaranteed intervals far
        narrower. An assumption: a logged ratio above it is an error.
    max_weight : float, optional
        Known bound on the weight of a whole trajectory, such as 1/alpha for a behavior that
        follows the candidate for a whole episode with probability alpha. It then also bounds every
        product of ratios from the first step on; a logged one above it is an error.
    delta : float
        Total probability of a miss, over both sides or over the one asked for.
    method : str or Method
        ``"betting"`` (default): guaranteed, usually much narrower than the paper's.
        ``"paper"`` (`Concentration`): guaranteed, Algorithms 3 and 4 of the paper, corrected.
        ``"bootstrap"`` (`Bootstrap`): approximate, Algorithm 5 and variants. ``"normal"``
        (`Normal`): approximate, normal limits with the estimator's standard error. Options are
        set on the object: ``ove.Bootstrap(variant="bca", estimator="pair")``.
    side : {"both", "lower", "upper"}
        A side that is not asked for is at the end of the a priori range.
    adaptive : bool
        The behavior was changed based on earlier trajectories, as in the log of a training run.
        ``"betting"`` then takes the trajectories in the order of logging and remains valid; other
        methods refuse. Otherwise ``"betting"`` shuffles the order by `rng`.
    rng : int, Generator or None
        Seed of shuffling and resampling; None for fresh entropy. The same seed gives the same
        interval, whatever the number of threads. Choose it before looking at a result: the
        guarantee is for one seed, not for the best of several.

    Returns
    -------
    Interval
        With `guaranteed` and `assumptions`.

    Notes
    -----
    The guarantee is for a number of trajectories fixed in advance and a candidate that does not
    depend on them.
    """
    check_statistics(stats)
    assumptions = Assumptions(
        gamma=stats.gamma,
        horizon=stats.horizon,
        reward_range=reward_range,
        return_range=return_range,
        max_ratio=max_ratio,
        max_weight=max_weight,
        delta=delta,
        evidence=stats.evidence | Evidence(adaptive=check_flag(adaptive, "adaptive")),
    )
    warn_without_support(stats)
    return compute_interval(
        stats, as_quantity(quantity), as_method(method), assumptions, side=side, rng=rng
    )


def mean_interval(
    stats: TrajectoryStatistics,
    *,
    reward_range: tuple[float, float] | str | None = None,
    return_range: tuple[float, float] | None = None,
    max_ratio: float | None = None,
    max_weight: float | None = None,
    delta: float = 0.05,
    method: str | Method = "betting",
    side: str = "both",
    adaptive: bool = False,
    rng: int | np.random.Generator | None = 0,
) -> Interval:
    """Confidence interval for the mean of the candidate's return, see `interval`."""
    return interval(
        stats,
        "mean",
        reward_range=reward_range,
        return_range=return_range,
        max_ratio=max_ratio,
        max_weight=max_weight,
        delta=delta,
        method=method,
        side=side,
        adaptive=adaptive,
        rng=rng,
    )


def variance_interval(
    stats: TrajectoryStatistics,
    *,
    reward_range: tuple[float, float] | str | None = None,
    return_range: tuple[float, float] | None = None,
    max_ratio: float | None = None,
    max_weight: float | None = None,
    delta: float = 0.05,
    method: str | Method = "betting",
    side: str = "both",
    adaptive: bool = False,
    rng: int | np.random.Generator | None = 0,
) -> Interval:
    """Confidence interval for the variance of the candidate's return, see `interval`."""
    return interval(
        stats,
        "variance",
        reward_range=reward_range,
        return_range=return_range,
        max_ratio=max_ratio,
        max_weight=max_weight,
        delta=delta,
        method=method,
        side=side,
        adaptive=adaptive,
        rng=rng,
    )


def compute_interval(
    stats: TrajectoryStatistics,
    quantity: Quantity,
    method: Method,
    assumptions: Assumptions,
    *,
    side: str = "both",
    rng: int | np.random.Generator | None = 0,
) -> Interval:
    """Compute the bounds asked for and label them; every interval is made here.

    Parameters
    ----------
    stats : TrajectoryStatistics
    quantity : Quantity
    method : Method
    assumptions : Assumptions
        ``assumptions.delta`` is the total probability of a miss of this interval.
    side, rng
        See `interval`.
    """
    check_choice(side, "side", SIDES)
    adaptive = assumptions.evidence.adaptive
    if adaptive and not method.handles_adaptive:
        raise InvalidInputError(
            f"`method` must be 'betting' for the log of a policy that learned, got "
            f"{method.name!r}: the other methods assume independent trajectories."
        )
    limits = assumptions.limits(stats)
    assigned = is_assigned(stats)
    handles_assigned = method.handles_assigned and stats.logging is None and not adaptive
    if assigned and not method.handles_assigned:
        factors = share_factors(stats, np.arange(len(stats)))
        stats, limits = reweighted(stats, factors), limits.reweighted(float(factors.max()))
    if method.proven:
        assumptions.check_bounded()
        check_mean_weight(stats, method.n_unfinished(stats), limits.max_weight)
    delta = assumptions.delta
    tail = delta / 2 if side == "both" else delta
    tails = Tails(tail if side != "upper" else 0.0, tail if side != "lower" else 0.0)
    base = quantity.base
    inputs = MethodInputs(stats, limits, tails, adaptive, as_generator(rng))
    bounds = method.bounds(base, inputs)
    low, high = base.a_priori(limits)
    lower, upper = (float(min(max(bound, low), high)) + 0.0 for bound in bounds)  # -0 becomes 0
    lower, upper, consistent = _settle_rounding(lower, upper, high - low)
    label = decide_label(
        assumptions.evidence,
        method_proven=method.proven,
        range_from_data=assumptions.range_from_data,
        consistent=consistent,
        handles_unfinished=stats.logging is None or method.handles_unfinished or not method.proven,
        beginnings_known=stats.beginnings_known,
        n_repeated=stats.n_repeated if method.proven else 0,
        handles_assigned=not assigned or handles_assigned or not method.proven,
        arms_known=assigned or not assumptions.evidence.assigned,
    )
    interval = Interval(
        lower=lower,
        upper=upper,
        delta=delta,
        guaranteed=label.guaranteed,
        consistent=consistent,
        assumptions=_in_words(stats, method, adaptive, limits.stated, label),
        reasons=label.reasons,
        quantity=base.name,
        method=method.name,
        side=side,
        n_trajectories=len(stats),
        a_priori=(low, high),
    )
    return transformed(interval, quantity)


def transformed(interval: Interval, quantity: Quantity) -> Interval:
    """Interval of a quantity from that of its base."""
    lower, upper = (quantity.transform(bound) for bound in (interval.lower, interval.upper))
    low, high = (quantity.transform(end) for end in interval.a_priori)
    return replace(interval, lower=lower, upper=upper, quantity=quantity.name, a_priori=(low, high))


def intersection(earlier: Interval, later: Interval) -> Interval:
    """Intersection of two intervals that hold simultaneously; `later` decides the rest."""
    lower, upper = max(earlier.lower, later.lower), min(earlier.upper, later.upper)
    consistent = earlier.consistent and later.consistent and lower <= upper
    reasons = [text for text in (*later.reasons, *earlier.reasons) if text != INCONSISTENT]
    label = joint_label(reasons, consistent=consistent)
    return replace(
        later,
        lower=lower,
        upper=upper,
        consistent=consistent,
        guaranteed=label.guaranteed,
        reasons=label.reasons,
    )


def a_priori_interval(
    stats: TrajectoryStatistics, quantity: Quantity, method: Method, assumptions: Assumptions
) -> Interval:
    """The interval that holds whatever the data say: the a priori range."""
    limits = assumptions.limits(stats)
    low, high = (quantity.transform(end) for end in quantity.base.a_priori(limits))
    label = decide_label(
        assumptions.evidence,
        method_proven=method.proven,
        range_from_data=assumptions.range_from_data,
        consistent=True,
        beginnings_known=stats.beginnings_known,
    )
    return Interval(
        lower=low,
        upper=high,
        delta=assumptions.delta,
        guaranteed=label.guaranteed,
        consistent=True,
        assumptions=_in_words(stats, method, assumptions.evidence.adaptive, limits.stated, label),
        reasons=label.reasons,
        quantity=quantity.name,
        method=method.name,
        side="both",
        n_trajectories=len(stats),
        a_priori=(low, high),
    )


def warn_without_support(stats: TrajectoryStatistics) -> None:
    """Warn when every trajectory has weight 0."""
    if not stats.weights.any():
        warnings.warn(
            "every logged trajectory has importance weight 0: the log says nothing about the "
            "candidate. Log with a behavior policy that can take the candidate's actions.",
            SupportWarning,
            stacklevel=3,
        )


def _settle_rounding(lower: float, upper: float, width: float) -> tuple[float, float, bool]:
    """The bounds, and whether they are consistent; sorted if they cross by rounding only."""
    if lower <= upper:
        return lower, upper, True
    scale = width if math.isfinite(width) else max(abs(lower), abs(upper))
    if lower - upper <= _ROUNDING * scale:
        return upper, lower, True
    return lower, upper, False


def _in_words(
    stats: TrajectoryStatistics,
    method: Method,
    adaptive: bool,
    stated: tuple[str, ...],
    label: Label,
) -> tuple[str, ...]:
    return (
        _sampling(stats, method, adaptive),
        _EXACT,
        _NOT_TRAINED_ON,
        *(() if method.any_number else (_stop_in_words(stats),)),
        *stated,
        *label.reasons,
    )


def _sampling(stats: TrajectoryStatistics, method: Method, adaptive: bool) -> Assumption:
    """Assumption about how the trajectories were sampled."""
    if method.any_number:
        return ANY_NUMBER
    if adaptive and stats.overlaps is not None:
        return Assumption(
            "trajectories are in the order in which they ended, and `overlaps` counts those that "
            "ended while another was running",
            _NUMBERED,
        )
    if is_assigned(stats):
        return Assumption(
            "trajectories are independent given which policy acted in each, which was decided "
            "without regard to what happened in any of them"
        )
    if adaptive:
        return Assumption(
            "trajectories are in the order of logging, each begun when the last had ended",
            _NUMBERED,
        )
    return Assumption("trajectories are independent", _INDEPENDENT)


def _stop_in_words(stats: TrajectoryStatistics) -> Assumption:
    if stats.logging is None:
        return FIXED_NUMBER
    stop = (
        "after a number of steps fixed in advance"
        if stats.logging.stopped_by_steps
        else "at any time, whatever was seen until then"
    )
    return Assumption(
        f"every trajectory that was begun is counted, and logging stopped {stop}", _NUMBERED
    )
