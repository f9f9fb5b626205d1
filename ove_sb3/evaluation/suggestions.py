"""Suggestions for narrowing an interval, each with the interval it would give, or its width."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.core.assumptions import Assumptions
from ove_sb3.core.diagnostics import missing_support
from ove_sb3.core.inference import compute_interval
from ove_sb3.core.interval import Interval
from ove_sb3.core.quantities import Quantity
from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.core.step_reduction import trajectory_statistics
from ove_sb3.errors import OveError
from ove_sb3.report.numbers import about

from .plan import Plan

CANARY_SHARE = 0.1
_LARGEST_SHARE = 0.5
_TIMES = 4  # as many episodes
_WORTHWHILE = 0.9  # of the width, at most
_FEWEST, _MOST = 40, 200_000  # episodes for which intervals are computed again


@dataclass(frozen=True)
class Suggestion:
    """A change that would narrow an interval.

    Attributes
    ----------
    action : str
        Assumption to state, or episodes to log.
    condition : str
        When it may be stated, or what it requires.
    quantity : str
        Display name of the quantity.
    lower, upper : float
        Approximate bounds of the interval it would give; NaN if only its width can be predicted.
    new_episodes : bool
        Whether it requires new episodes.
    predicted_width : float or None
        Largest plausible width of the interval, where the bounds are NaN.
    """

    action: str
    condition: str
    quantity: str
    lower: float
    upper: float
    new_episodes: bool = False
    predicted_width: float | None = None

    @property
    def width(self) -> float:
        """Width of the interval it would give."""
        if self.predicted_width is not None:
            return self.predicted_width
        return self.upper - self.lower

    def __str__(self) -> str:
        if self.predicted_width is not None:
            place = f"an interval up to about {about(self.predicted_width)} wide"
        else:
            place = f"about [{about(self.lower)}, {about(self.upper)}]"
        return f"{self.action}: {self.quantity} in {place}. {self.condition}"


def suggestions(
    stats: TrajectoryStatistics,
    plan: Plan,
    quantity: Quantity,
    whole: Interval,
    halves: Sequence[Interval],
) -> tuple[Suggestion, ...]:
    """Suggestions that would narrow the interval `whole` of a quantity, narrowest first.

    `halves` are the intervals from both halves of the log. Suggestions are auxiliary: one that
    cannot be computed is left out.
    """
    if quantity.base.name != quantity.name:
        return ()
    if not (_FEWEST <= len(stats) <= _MOST and whole.consistent and whole.width > 0.0):
        return ()
    if not plan.method.proven or stats.logging is not None:
        return ()
    worthwhile = []
    makers: list[Callable[..., Suggestion | None]] = []
    if missing_support(stats) is None:  # else the log shows too little of the candidate's episodes
        makers += [_tighter_range, _weight_bound]
    makers += [_canary, partial(_more_episodes, halves=halves)]
    for make in makers:
        try:
            suggestion = make(stats, plan, quantity, whole)
        except (OveError, ArithmeticError, ValueError):
            continue
        if suggestion is not None and suggestion.width <= _WORTHWHILE * whole.width:
            worthwhile.append(suggestion)
    return tuple(sorted(worthwhile, key=lambda suggestion: suggestion.width))


def _again(
    stats: TrajectoryStatistics, plan: Plan, quantity: Quantity, assumptions: Assumptions
) -> tuple[float, float]:
    """The interval under other assumptions."""
    interval = compute_interval(stats, quantity, plan.method, assumptions, rng=plan.seed)
    if not interval.consistent:
        raise ValueError("the bounds contradict each other")
    return interval.lower, interval.upper


def _tighter_range(
    stats: TrajectoryStatistics, plan: Plan, quantity: Quantity, whole: Interval
) -> Suggestion | None:
    """The range of the logged returns."""
    del whole
    low, high = float(stats.returns.min()), float(stats.returns.max())
    stated = plan.at(plan.interval_delta).limits(stats).return_range
    if not high - low < stated[1] - stated[0]:
        return None
    assumptions = replace(plan.at(plan.interval_delta), return_range=(low, high))
    return Suggestion(
        f"With return_range=({low:.4g}, {high:.4g}), the range of the logged returns",
        "State it only if no episode of the candidate can return anything outside.",
        quantity.label,
        *_again(stats, plan, quantity, assumptions),
    )


def _weight_bound(
    stats: TrajectoryStatistics, plan: Plan, quantity: Quantity, whole: Interval
) -> Suggestion | None:
    """The largest logged weight as a bound, where none is known."""
    del whole
    stated = plan.assumptions
    if stated.max_ratio is not None or stated.max_weight is not None:
        return None
    largest = max(math.exp(stats.max_log_weight) * (1 + 1e-9), 1.0)
    assumptions = replace(plan.at(plan.interval_delta), max_weight=largest)
    return Suggestion(
        f"With max_weight={largest:.3g}, the largest logged weight",
        "State a bound only if it follows from how the behavior was built; pass behavior=... to "
        "derive one.",
        quantity.label,
        *_again(stats, plan, quantity, assumptions),
    )


def _canary(
    stats: TrajectoryStatistics, plan: Plan, quantity: Quantity, whole: Interval
) -> Suggestion | None:
    """As many episodes of a mixture that follows the candidate in a share of them.

    In a log of such a mixture, a larger share. Resampled from the log: with the candidate's share
    alpha in place of beta, an episode is (1 - alpha) (1 - beta w) / (1 - beta) + alpha w times as
    probable, and its weight becomes w over that, at most 1/alpha. Where the log lacks the
    candidate's episodes, only the width is predicted: the larger one for the logged returns, moved
    to either end of their range.
    """
    del whole
    before, n = plan.share or 0.0, len(stats)
    alpha = min(max(2.0 * before, CANARY_SHARE), _LARGEST_SHARE)
    known = plan.assumptions.max_weight
    if known is not None and known <= 1.0 / alpha:
        return None
    limits = plan.at(plan.interval_delta).limits(stats)
    assumptions = Assumptions(
        gamma=1.0,
        horizon=1,
        return_range=limits.return_range,
        max_weight=1.0 / alpha,
        delta=plan.interval_delta,
    )
    if before:
        action = (
            f"From {n} new episodes with a share of {alpha:.3g}, not {before:.3g}, of the candidate"
        )
    else:
        action = (
            f"From {n} new episodes of MixturePolicy([behavior, candidate], "
            f'[{1 - alpha:g}, {alpha:g}], per="episode")'
        )
    condition = f"The candidate then acts in {alpha:.0%} of them."
    if missing_support(stats) is None:
        again = _with_share(stats, before, alpha, plan.seed)
        ends = _again(again, plan, quantity, assumptions)
        return Suggestion(action, condition, quantity.label, *ends, new_episodes=True)
    widths = []
    for end in limits.return_range:
        again = _with_share_unseen(stats, limits.return_range, end, alpha, plan.seed)
        lower, upper = _again(again, plan, quantity, assumptions)
        widths.append(upper - lower)
    return Suggestion(
        action,
        f"{condition} Where the interval lies cannot be predicted, because the log says too little "
        "about the candidate; the width is for returns that vary as much as the logged ones.",
        quantity.label,
        math.nan,
        math.nan,
        new_episodes=True,
        predicted_width=max(widths),
    )


def _with_share(
    stats: TrajectoryStatistics, before: float, alpha: float, seed: int
) -> TrajectoryStatistics:
    """Episodes resampled as if the candidate's share had been `alpha` in place of `before`."""
    weights = stats.weights / stats.weights.mean()  # few large ones move the mean far from 1
    others = np.maximum(1.0 - before * weights, 0.0) / (1.0 - before)
    density = (1.0 - alpha) * others + alpha * weights
    rng = np.random.default_rng(seed)
    drawn = rng.choice(len(stats), len(stats), p=density / density.sum())
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights / density)[drawn]
    return _one_step(log_weights, stats.returns[drawn])


def _with_share_unseen(
    stats: TrajectoryStatistics,
    return_range: tuple[float, float],
    mean: float,
    alpha: float,
    seed: int,
) -> TrajectoryStatistics:
    """Logged returns, moved to another mean, as those of a candidate with the share `alpha`."""
    log_weights = np.full(len(stats), -np.inf)
    log_weights[: max(round(alpha * len(stats)), 1)] = -math.log(alpha)
    returns = np.clip(stats.returns + (mean - stats.returns.mean()), *return_range)
    return _one_step(log_weights, np.random.default_rng(seed).permutation(returns))


def _one_step(log_weights: FloatArray, returns: FloatArray) -> TrajectoryStatistics:
    lengths = np.ones(returns.size, dtype=np.int64)
    return trajectory_statistics(log_weights, returns, lengths, gamma=1.0, horizon=1)


def _more_episodes(
    stats: TrajectoryStatistics,
    plan: Plan,
    quantity: Quantity,
    whole: Interval,
    halves: Sequence[Interval],
) -> Suggestion | None:
    """Four times the episodes, extrapolated from halves; None if halves are as narrow."""
    if not halves or not all(half.consistent for half in halves):
        return None
    n = len(stats)
    bounds = [(half.lower, half.upper) for half in halves]
    value = plan.estimate(stats, quantity)
    value = min(max(value, whole.lower), whole.upper)
    shrink = [
        min(_one_side(whole_end, [half[k] for half in bounds], value) ** 2, 1.0)
        for k, whole_end in enumerate((whole.lower, whole.upper))
    ]
    if not math.isfinite(value) or min(shrink) >= 1.0:
        return None
    return Suggestion(
        f"From {_TIMES * n} episodes in all, {_TIMES} times as many",
        "If they are logged like these; extrapolated from halves of the log.",
        quantity.label,
        value + (whole.lower - value) * shrink[0],
        value + (whole.upper - value) * shrink[1],
        new_episodes=True,
    )


def _one_side(whole: float, halves: list[float], value: float) -> float:
    """Factor by which twice the episodes shrink the distance of a bound from the estimate."""
    before = sum(abs(end - value) for end in halves) / len(halves)
    return max(abs(whole - value) / before, 0.5) if before > 0.0 else 1.0
