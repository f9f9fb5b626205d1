"""The one path from a log to evaluations: statistics, then estimates and intervals, then labels."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from ove_sb3._progress import progress_bar
from ove_sb3.core.diagnostics import Diagnostics, diagnose, missing_support, share_text
from ove_sb3.core.inference import (
    a_priori_interval,
    compute_interval,
    transformed,
    warn_without_support,
)
from ove_sb3.core.interval import Interval, bounds_text
from ove_sb3.core.methods import Method
from ove_sb3.core.quantities import Quantity
from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.data.log import LogLike
from ove_sb3.data.metadata import Metadata
from ove_sb3.errors import SupportWarning

from .behavior import Behavior, Component
from .candidates import (
    Candidate,
    LoggedBehavior,
    PolicyCandidate,
    logged_components,
    provenance_of,
    weight_bound,
)
from .origins import origin_of
from .plan import Plan
from .reduction import reduce_log
from .result import Evaluation, QuantityResult

_FEWEST_FOR_APPROXIMATION = 20


def evaluate_candidates(
    log: LogLike,
    candidates: Sequence[Candidate],
    plan: Plan,
    *,
    n_jobs: int = 1,
    scheduler: Any = None,
    progress: bool | None = None,
) -> list[Evaluation]:
    """Evaluate candidates in one pass over the log."""
    policies = logged_components(log)
    reduced = reduce_log(
        log,
        [*candidates, *policies],
        gamma=plan.assumptions.gamma,
        horizon=plan.assumptions.horizon,
        columns=plan.columns,
        reward=plan.reward,
        n_jobs=n_jobs,
        scheduler=scheduler,
        progress=progress,
    )
    evaluations = []
    components = tuple(
        Component(stats, policy.max_weight)
        for policy, stats in zip(policies, reduced[len(candidates) :], strict=True)
    )
    total = 2 * len(plan.base_quantities) * len(candidates)
    with closing(progress_bar(progress, total=total, unit="interval")) as bar:
        for candidate, stats in zip(candidates, reduced[: len(candidates)], strict=True):
            warn_without_support(stats)
            own_plan = plan.for_candidate(provenance_of(candidate), log.metadata)
            own_plan = own_plan.bounded(weight_bound(candidate))
            if isinstance(candidate, PolicyCandidate):
                own_plan = own_plan.knowing(candidate.ratio_bound)
            behavior = Behavior(stats, own_plan, components)
            label = candidate.label
            evaluation = _evaluate_statistics(behavior, log.metadata, label, bar.update)
            evaluations.append(replace(evaluation, origin=origin_of(log, candidate)))
    return evaluations


def evaluate_a_priori(log: LogLike, candidate: Candidate, plan: Plan, reason: str) -> Evaluation:
    """Evaluation from the stated ranges alone, with `reason` as its warning."""
    (stats,) = reduce_log(
        log,
        [LoggedBehavior()],
        gamma=plan.assumptions.gamma,
        horizon=plan.assumptions.horizon,
        columns=plan.columns,
        reward=plan.reward,
    )
    plan = plan.for_candidate(provenance_of(candidate), log.metadata)
    assumptions = plan.at(plan.interval_delta)
    results = {
        quantity.name: QuantityResult(
            quantity=quantity,
            estimate=float("nan"),
            estimator=plan.estimator(quantity),
            interval=a_priori_interval(stats, quantity, plan.method, assumptions),
            approximate=None,
            behavior=quantity.of_sample(stats.returns),
        )
        for quantity in plan.quantities
    }
    return Evaluation(
        quantities=results,
        diagnostics=Diagnostics.unknown(len(stats), stats.n_steps),
        warnings=(reason,),
        candidate=candidate.label,
        behavior=log.metadata.behavior,
        env_id=log.metadata.env_id,
        plan=plan,
        stats=None,
        n_trajectories=len(stats),
        n_steps=stats.n_steps,
        origin=origin_of(log, candidate),
    )


def _evaluate_statistics(
    behavior: Behavior,
    metadata: Metadata,
    label: str,
    advance: Callable[[int], object] = lambda n_intervals: None,
) -> Evaluation:
    stats, plan = behavior.logged, behavior.plan
    missing = missing_support(stats)
    bases = plan.base_quantities
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)  # the result has its own warnings
        main, beside = {}, {}
        for base in bases:
            main[base.name] = _interval(stats, base, plan.method, plan)
            advance(1)
            beside[base.name] = _approximate(stats, base, plan)
            advance(1)
        estimates = {base.name: plan.estimate(stats, base) for base in bases}
        results = {
            quantity.name: QuantityResult(
                quantity=quantity,
                estimate=_transformed_estimate(estimates[quantity.base.name], quantity),
                estimator=plan.estimator(quantity),
                interval=transformed(main[quantity.base.name], quantity),
                approximate=_of_base(beside[quantity.base.name], quantity),
                behavior=quantity.of_sample(stats.returns),
                logged=behavior,
            )
            for quantity in plan.quantities
        }
    shown = [results[q.name].interval for q in plan.quantities if q.base.name == q.name]
    diagnostics = diagnose(stats, *shown, max_weight=plan.assumptions.max_weight)
    return Evaluation(
        quantities=results,
        diagnostics=diagnostics,
        warnings=(
            *diagnostics.warnings,
            *_warnings(plan, list(results.values()), missing),
            *([] if missing else _impossible_estimates(stats, plan, estimates, main)),
        ),
        candidate=label,
        behavior=metadata.behavior,
        env_id=metadata.env_id,
        plan=plan,
        stats=replace(stats, evidence=plan.assumptions.evidence),
        n_trajectories=len(stats),
        n_steps=stats.n_steps,
        logged=behavior,
    )


def _interval(
    stats: TrajectoryStatistics, quantity: Quantity, method: Method, plan: Plan
) -> Interval:
    assumptions = plan.at(plan.interval_delta)
    return compute_interval(stats, quantity, method, assumptions, rng=plan.seed)


def _approximate(stats: TrajectoryStatistics, quantity: Quantity, plan: Plan) -> Interval | None:
    method = plan.approximate
    enough = len(stats) >= _FEWEST_FOR_APPROXIMATION and missing_support(stats) is None
    if method is None or not enough or not method.supports(quantity):
        return None
    if plan.assumptions.evidence.adaptive and not method.handles_adaptive:
        return None
    return _interval(stats, quantity, method, plan)


def _transformed_estimate(value: float, quantity: Quantity) -> float:
    return value if math.isnan(value) else quantity.transform(value)


def _of_base(interval: Interval | None, quantity: Quantity) -> Interval | None:
    return None if interval is None else transformed(interval, quantity)


def _warnings(plan: Plan, results: Sequence[QuantityResult], missing: str | None) -> list[str]:
    texts = list(plan.warnings)
    if missing is not None:
        texts.append(
            f"there are no estimates and no approximate intervals: {missing}, too little for "
            "either. Log with a behavior closer to the candidate, such as a MixturePolicy that "
            "contains it."
        )
    reasons = {
        reason: None
        for result in results
        if result.interval.consistent and plan.method.proven
        for reason in result.interval.reasons
    }
    texts += [f"the intervals are approximate: {reason}." for reason in reasons]
    if plan.assumptions.evidence.adaptive:
        texts.append(
            "the behavior changed while the log was written: episodes are taken in the order of "
            "logging, and methods that need independent episodes, such as the bootstrap, are left "
            "out."
        )
    if plan.incomplete_fraction > 0.0:
        texts.append(
            f"up to {share_text(plan.incomplete_fraction)} of the episodes were reset before their "
            "end or still running when logging stopped: long ones more often than short ones. "
            "Intervals by betting account for them; estimates and other intervals do not. Log more "
            "in one go, or fix the number of episodes in advance (ove_sb3.collect)."
        )
    names = {result.quantity.name for result in results}
    for result in results:
        quantity = result.quantity
        if quantity.base.name == quantity.name or quantity.base.name not in names:
            texts += _result_warnings(result)
    return texts


def _impossible_estimates(
    stats: TrajectoryStatistics,
    plan: Plan,
    estimates: Mapping[str, float],
    intervals: Mapping[str, Interval],
) -> list[str]:
    """Warnings about estimates that were left out because they are impossible."""
    texts = []
    for base in plan.base_quantities:
        if math.isnan(estimates[base.name]):
            value = plan.unchecked_estimate(stats, base)
            texts.append(
                f"there is no estimate of the {base.label}: {plan.estimator(base)!r} gives "
                f"{value:.4g}, but the stated ranges allow only values in "
                f"{bounds_text(*intervals[base.name].a_priori)}. A few heavily weighted episodes "
                "dominate it: log with a behavior closer to the candidate."
            )
    return texts


def _result_warnings(result: QuantityResult) -> list[str]:
    quantity, interval, value = result.quantity, result.interval, result.estimate
    if not interval.consistent:
        return [
            f"the bounds of the {quantity.label} contradict each other: {interval.reasons[-1]}."
        ]
    if quantity.base.name != quantity.name:
        return []
    if math.isnan(value):
        return []
    if not interval.lower <= value <= interval.upper:
        return [
            f"the estimate of the {quantity.label}, {value:.4g}, lies outside its {interval.label} "
            f"interval, {bounds_text(interval.lower, interval.upper)}. They weigh episodes "
            "differently: either a few heavily weighted episodes dominate the estimate, or a bound "
            f"failed, for which the probability is at most {interval.delta:g} where the "
            "assumptions hold."
        ]
    return []
