"""Plan of an evaluation: assumptions, quantities, estimators and methods."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ove_sb3._validation import as_generator, check_flag, check_integer
from ove_sb3.core.assigned import balanced
from ove_sb3.core.assumptions import Assumptions
from ove_sb3.core.diagnostics import is_impossible, missing_support
from ove_sb3.core.label import Evidence
from ove_sb3.core.methods import Method, as_method
from ove_sb3.core.quantities import DEFAULT_QUANTITIES, Quantity
from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.core.steps import Column
from ove_sb3.data.metadata import Metadata
from ove_sb3.errors import InvalidInputError
from ove_sb3.policies.provenance import Provenance

from .defaults import check_known_to, supported_quantities
from .error_budget import ErrorBudget
from .stated import stated_horizon, stated_reward_range

if TYPE_CHECKING:
    from ove_sb3.policies.ratio_bounds import RatioBound


@dataclass(frozen=True)
class Plan:
    """Checked options of an evaluation.

    Attributes
    ----------
    assumptions : Assumptions
        Stated assumptions, completed from the metadata of the log.
    quantities : tuple of Quantity
    method : Method
        Method of the main intervals.
    approximate : Method or None
        Method of the approximate intervals beside them.
    estimators : dict of str to str
        Estimator by kind of quantity, where it is not the default.
    budget : ErrorBudget
    seed : int
        Seed of shuffling and resampling.
    incomplete_fraction : float
        Fraction of the episodes that may have begun without being logged.
    warnings : tuple of str
        Options that differ from what the log states without contradicting it.
    reward : str or None
        Kept column that is evaluated in place of the reward.
    n_components : int
        Number of policies in a mixture drawn once per episode; 0 for any other behavior.
    several_behaviors : bool
        Several fixed policies wrote the log, one after the other.
    share : float or None
        Share of the candidate in that mixture, None if it is not one of its policies.
    selection_counted : bool
        The error budget accounts for all evaluations by which the candidate was selected.
    independent : bool
        The caller states that the candidate did not learn from the log.
    """

    assumptions: Assumptions
    quantities: tuple[Quantity, ...]
    method: Method
    approximate: Method | None
    estimators: Mapping[str, str]
    budget: ErrorBudget
    seed: int
    incomplete_fraction: float
    warnings: tuple[str, ...] = ()
    reward: str | None = None
    selection_counted: bool = False
    independent: bool = False
    n_components: int = 0
    several_behaviors: bool = False
    share: float | None = None

    @property
    def subject(self) -> str:
        """Name of the variable whose distribution is estimated."""
        return "return" if self.reward is None else f"sum of {self.reward}"

    @property
    def base_quantities(self) -> tuple[Quantity, ...]:
        """Quantities with an interval of their own."""
        return tuple({q.base.name: q.base for q in self.quantities}.values())

    @property
    def interval_delta(self) -> float:
        """Failure probability of one two-sided interval."""
        return self.budget.interval_delta(len(self.base_quantities))

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns needed beyond the built-in ones."""
        used = {}
        for quantity in self.quantities:
            names = {method.estimator for method in (self.method, self.approximate) if method}
            names = {name for name in names if quantity.has_estimator(name)}
            for name in {self.estimators.get(quantity.base.kind)} | names:
                for column in quantity.find_estimator(name).columns:
                    used[column.name] = column
            for column in (*quantity.columns, *quantity.base.columns):
                used[column.name] = column
        return tuple(used.values())

    def estimator(self, quantity: Quantity) -> str:
        """Name of the estimator of a quantity."""
        return self.estimators.get(quantity.base.kind, quantity.base.default_estimator)

    def estimate(self, stats: TrajectoryStatistics, quantity: Quantity) -> float:
        """Point estimate of a quantity; NaN where the log supports none, or an impossible one."""
        if missing_support(stats) is not None:
            return math.nan
        base = quantity.base
        value = self.unchecked_estimate(stats, base)
        a_priori = base.a_priori(self.assumptions.limits(stats))
        if is_impossible(value, a_priori, stats, positive=base.kind == "variance"):
            return math.nan
        return quantity.transform(value)

    def unchecked_estimate(self, stats: TrajectoryStatistics, quantity: Quantity) -> float:
        """Point estimate of a quantity as its estimator gives it, be it impossible."""
        return quantity.estimate(balanced(stats), self.estimator(quantity))

    def at(self, delta: float) -> Assumptions:
        """The assumptions, with the failure probability of one interval."""
        return replace(self.assumptions, delta=delta)

    def knowing(self, bound: RatioBound | None) -> Plan:
        """The plan with a bound on the ratio that is known without being stated."""
        stated = self.assumptions.max_ratio
        if bound is None or (stated is not None and stated <= bound.value):
            return self
        assumptions = replace(
            self.assumptions, max_ratio=bound.value, max_ratio_reason=bound.reason
        )
        return replace(self, assumptions=assumptions)

    def for_candidate(self, provenance: Provenance, metadata: Metadata) -> Plan:
        """The plan with the evidence about the candidate and the log."""
        evidence = self.assumptions.evidence
        trained = provenance.was_trained_on(metadata.log_ids)
        evidence = replace(
            evidence,
            candidate_depends_on_log=evidence.candidate_depends_on_log or trained,
            candidate_selected_on_log=not self.selection_counted
            and provenance.was_selected_by(metadata.log_ids),
            candidate_of_unknown_origin=metadata.adaptive
            and not (trained or self.independent)
            and provenance.may_have_learned_from(metadata.log_ids),
        )
        return replace(self, assumptions=replace(self.assumptions, evidence=evidence))

    def bounded(self, max_weight: float | None) -> Plan:
        """The plan with a bound on the weights that is known without being stated."""
        if max_weight is None:
            return self
        stated = self.assumptions.max_weight
        bound = max_weight if stated is None else min(stated, max_weight)
        assumptions = replace(self.assumptions, max_weight=bound)
        return replace(self, assumptions=assumptions, share=1.0 / max_weight)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON."""
        stated = self.assumptions
        return {
            "reward": self.reward,
            "gamma": stated.gamma,
            "horizon": stated.horizon,
            "reward_range": _as_list(stated.reward_range),
            "return_range": _as_list(stated.return_range),
            "max_ratio": stated.max_ratio,
            "max_ratio_reason": stated.max_ratio_reason,
            "max_weight": stated.max_weight,
            "delta": self.budget.delta,
            "simultaneous": self.budget.simultaneous,
            "adaptive": stated.evidence.adaptive,
            "incomplete_fraction": self.incomplete_fraction,
            "method": self.method.name,
            "approximate": None if self.approximate is None else self.approximate.name,
            "seed": self.seed,
        }


def make_plan(
    metadata: Metadata,
    *,
    gamma: float,
    reward_range: tuple[float, float] | str | None,
    return_range: tuple[float, float] | None,
    horizon: int | None,
    max_ratio: float | None,
    max_weight: float | None,
    delta: float,
    simultaneous: bool,
    quantities: object = DEFAULT_QUANTITIES,
    method: str | Method = "betting",
    approximate: str | Method | None = "bootstrap",
    estimators: Mapping[str, str] | None = None,
    rng: int | np.random.Generator | None = 0,
    candidate_depends_on_log: bool = False,
    n_candidates: int = 1,
    evaluation: int | None = None,
    reward: str | None = None,
    selection_counted: bool = False,
    independent: bool = False,
) -> Plan:
    """Check the options, and complete them from the metadata of the log.

    `evaluate`, `compare`, the command line and the callback all make their plan here.
    """
    simultaneous = check_flag(simultaneous, "simultaneous")
    if reward is not None and not isinstance(reward, str):
        raise InvalidInputError(f"`reward` must be the name of a kept column, got {reward!r}.")
    horizon, remarks = stated_horizon(horizon, metadata)
    if reward is None:
        reward_range = stated_reward_range(reward_range, metadata)
    assumptions = Assumptions(
        gamma=gamma,
        horizon=horizon,
        reward_range=reward_range,
        return_range=return_range,
        max_ratio=max_ratio,
        max_weight=max_weight,
        delta=delta,
        evidence=Evidence(
            adaptive=metadata.adaptive,
            candidate_depends_on_log=candidate_depends_on_log,
            deterministic_actions=metadata.deterministic_actions,
            shared_exploration=metadata.shared_exploration,
            lost_episodes=metadata.lost_episodes > 0,
            assigned=metadata.assigned,
            repeated_seeds=metadata.repeated_seeds,
            repeated_episodes=metadata.repeated_episodes,
            selected_episodes=metadata.selected_episodes,
            interrupted=metadata.interrupted,
            changing_environment=metadata.changing_environment,
        ),
    )
    _check_ranges(assumptions)
    main = as_method(method)
    beside = None if approximate is None else as_method(approximate)
    evaluated, left_out = supported_quantities(quantities, main)
    for chosen in (main, beside):
        if chosen is not None:
            check_known_to(chosen, evaluated)
    return Plan(
        assumptions=assumptions,
        quantities=evaluated,
        method=main,
        approximate=beside,
        estimators=_check_estimators(estimators, evaluated),
        budget=ErrorBudget(assumptions.delta, simultaneous, n_candidates, evaluation),
        seed=_seed(rng),
        incomplete_fraction=metadata.incomplete_fraction,
        warnings=(*remarks, *left_out),
        reward=reward,
        selection_counted=selection_counted,
        independent=independent,
        n_components=len(metadata.components),
        several_behaviors=metadata.several_behaviors,
    )


def _check_ranges(assumptions: Assumptions) -> None:
    if assumptions.reward_range is None and assumptions.return_range is None:
        raise InvalidInputError(
            "`reward_range` (or `return_range`) must be given, got None, and the log does not "
            "state it. State the smallest and largest reward the environment can give: the "
            "guarantee depends on it, so it is not taken from the data."
        )
    unbounded = assumptions.horizon is None and assumptions.gamma == 1.0
    if unbounded and assumptions.return_range is None:
        raise InvalidInputError(
            "`horizon` must be given when gamma = 1, got None, and the log does not state it: the "
            "return has no bound. Pass the environment's max_episode_steps, or `return_range`."
        )


def _check_estimators(
    estimators: Mapping[str, str] | None, quantities: tuple[Quantity, ...]
) -> dict[str, str]:
    if estimators is None:
        return {}
    kinds = {quantity.base.kind: quantity.base for quantity in quantities}
    if not isinstance(estimators, Mapping) or not set(estimators) <= set(kinds):
        raise InvalidInputError(
            "`estimators` must be a mapping from quantities that are evaluated, "
            f"{', '.join(map(repr, kinds))}, to names of estimators, got {estimators!r}."
        )
    for kind, name in estimators.items():
        kinds[kind].find_estimator(name)
    return dict(estimators)


def _seed(rng: object) -> int:
    """Integer seed that the result can report, from a seed, a Generator, or fresh entropy."""
    if rng is None or isinstance(rng, np.random.Generator):
        return int(as_generator(rng).integers(2**63))
    return check_integer(rng, "rng", 0, "Pass an int seed, a numpy Generator, or None.")


def _as_list(value: tuple[float, float] | str | None) -> list[float] | str | None:
    return list(value) if isinstance(value, tuple) else value
