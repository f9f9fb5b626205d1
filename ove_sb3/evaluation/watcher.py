"""Evaluations of a growing log that hold simultaneously, for one question."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ove_sb3.core.inference import compute_interval
from ove_sb3.core.interval import Interval
from ove_sb3.core.methods.anytime import AnytimeBetting
from ove_sb3.core.quantities import Quantity
from ove_sb3.core.sequence import geometric_sizes, part_at
from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.data.log import Log
from ove_sb3.data.metadata import Metadata
from ove_sb3.errors import InvalidInputError, SupportWarning

from .advice import episodes_for
from .behavior import Behavior
from .candidates import Candidate, as_candidate, is_path, provenance_of, weight_bound
from .decision import Decision
from .following import Following
from .growth import check_growth
from .model_files import check_normalizer, load_model, load_normalizer
from .plan import Plan, make_plan
from .requirements import BoundFunction, Requirement, Status, decide, needed_shrinkage
from .watch_state import WatchState

_GROWTH = 1.1  # of the number of episodes from one evaluation to the next
_FEWEST = 60
_RATE = 0.5  # widths shrink about like the root of the number of episodes
_WRITERS = (
    "writers of the log followed one another, and none of them stopped because of episodes that it "
    "had not written yet"
)
_NOT_ASKED = ("adaptive", "incomplete_fraction", "approximate", "seed", "simultaneous")


@dataclass(frozen=True)
class Question:
    """Question to decide: the candidate, its requirements and the assumptions."""

    candidate: Any
    requirements: tuple[Requirement, ...]
    options: dict[str, Any]
    model_class: Any
    safe_load: bool
    vec_normalize: Any
    deterministic: bool
    target_n: int | None

    def loaded(self, metadata: Metadata) -> Question:
        """The question about the model itself, if the candidate is the path of one."""
        if not is_path(self.candidate):
            return self
        check_normalizer(self.vec_normalize, self.candidate)
        safe_for = self.safe_load and metadata
        return replace(
            self,
            candidate=load_model(self.candidate, self.model_class, safe_for=safe_for),
            model_class=None,
            safe_load=False,
            vec_normalize=load_normalizer(self.vec_normalize, safe=self.safe_load),
        )

    def candidate_for(self, log: Log) -> Candidate:
        """The candidate, as a component of the log's behavior if it is one."""
        return as_candidate(
            self.candidate,
            metadata=log.metadata,
            n_steps=log.n_steps,
            model_class=self.model_class,
            vec_normalize=self.vec_normalize,
            deterministic=self.deterministic,
        )

    def plan(self, candidate: Candidate, metadata: Metadata) -> Plan:
        """Plan of an evaluation whose bounds hold at every number of episodes."""
        plan = make_plan(
            metadata,
            simultaneous=False,
            quantities=tuple({r.quantity.name: r.quantity for r in self.requirements}.values()),
            method=AnytimeBetting(self.target_n),
            approximate=None,
            **self.options,
        )
        if plan.assumptions.range_from_data:
            raise InvalidInputError(
                "`reward_range` must be stated, got 'from_data': bounds from the range of the data "
                "are not guaranteed and prove nothing."
            )
        plan = plan.for_candidate(provenance_of(candidate), metadata)
        return plan.bounded(weight_bound(candidate))

    def in_words(self, candidate: Candidate, plan: Plan) -> dict[str, Any]:
        """The question as plain values."""
        policy = getattr(candidate, "policy", None)
        fingerprint = None if policy is None else policy.fingerprint()
        stated = {name: v for name, v in plan.to_dict().items() if name not in _NOT_ASKED}
        return {
            "candidate": fingerprint,
            "deterministic": bool(self.deterministic),
            "requirements": [str(requirement) for requirement in self.requirements],
            "target_n": self.target_n,
            **stated,
        }


class Watcher:
    """Evaluates a log as it grows, and keeps what it found in a file.

    Parameters
    ----------
    question : Question
    file : Path
        Of the state.
    """

    def __init__(self, question: Question, file: Path) -> None:
        self.question, self.file = question, file
        self._state: WatchState | None = None
        self._following = Following()

    def evaluations(self, log: Log, most: int | None, *, to_the_end: bool) -> Iterator[Decision]:
        """Evaluations that are due; with `to_the_end` also one of all episodes (up to `most`)."""
        self.question = self.question.loaded(log.metadata)
        candidate = self.question.candidate_for(log)
        plan = self.question.plan(candidate, log.metadata)
        state = self._checked_state(log, self.question.in_words(candidate, plan))
        if state.decision is not None:
            if state.question["candidate"] is None:  # it may be another one than before
                state.check_sums(self._following.reduce(log, candidate, plan), self.file)
            yield Decision.from_dict(state.decision)
            return
        last = len(log) if most is None else min(len(log), most)
        first = max(_FEWEST, state.n + 1)
        sizes = [n for n in geometric_sizes(last, _GROWTH).tolist() if n >= first]
        if to_the_end and last >= 2:
            sizes = sorted({*sizes, max(last, state.n)})
        if not sizes:
            return
        stats = self._following.reduce(log, candidate, plan)
        _check_beginnings(stats, log.path)
        state.check_sums(stats, self.file)
        for n in sizes:
            decision = self._decide(stats, n, plan, state)
            state.seen(stats, n, log.writers)
            if decision.status != "undecided":
                state.decision = decision.to_dict()
            state.save(self.file)
            yield decision

    def _checked_state(self, log: Log, question: dict[str, Any]) -> WatchState:
        if self._state is None:
            self._state = WatchState.load(self.file, question)
        else:
            self._state.check_question(question, self.file)
        check_growth(self._state.writers, log.writers, log.path)
        return self._state

    def _decide(
        self, stats: TrajectoryStatistics, n: int, plan: Plan, state: WatchState
    ) -> Decision:
        """Decide all requirements when n episodes had ended."""
        part, method = part_at(stats, n, self.question.target_n)
        bounds = _Bounds(part, replace(plan, method=method), state)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SupportWarning)  # no weight yet: nothing is proven
            verdicts = tuple(
                decide(
                    requirement,
                    bounds.of_candidate,
                    plan.budget,
                    n_requirements=len(self.question.requirements),
                    episodes_needed=bounds.episodes_needed,
                    reference_bound=bounds.of_reference(requirement),
                )
                for requirement in self.question.requirements
            )
        statuses = {verdict.status for verdict in verdicts}
        status: Status = "undecided"
        if "refuted" in statuses:
            status = "refuted"
        elif statuses == {"proven"}:
            status = "proven"
        assumptions = (*bounds.assumptions, _WRITERS)
        return Decision(status, verdicts, n, method.n_unfinished(part), assumptions)


class _Bounds:
    """Bounds when some episodes had ended, each the best so far."""

    def __init__(self, part: TrajectoryStatistics, plan: Plan, state: WatchState) -> None:
        self.part, self.plan, self.state = part, plan, state
        self.assumptions: tuple[str, ...] = ()

    def of_candidate(self, quantity: Quantity, side: str, delta: float) -> Interval:
        """One-sided interval of the candidate."""
        interval = compute_interval(
            self.part, quantity, self.plan.method, self.plan.at(delta), side=side
        )
        self.assumptions = interval.assumptions
        return self._best("candidate", interval)

    def of_reference(self, requirement: Requirement) -> BoundFunction | None:
        """One-sided intervals of the behavior, if the requirement compares with it."""
        if requirement.reference is None:
            return None
        if self.plan.n_components:
            raise InvalidInputError(
                f'`requirements` must not compare with "{requirement.reference}" while a log is '
                "watched whose policy is drawn for every episode: no bounds on one of its "
                "policies are computed here. Compare with a number, or use `evaluate` when the "
                "log is complete."
            )
        behavior = Behavior(self.part, self.plan)
        behavior.check_comparable(requirement.reference)
        return lambda quantity, side, delta: self._best(
            "behavior", behavior.interval(quantity, delta, side)
        )

    def episodes_needed(
        self, requirement: Requirement, bound: float, reference_bound: float
    ) -> int | None:
        """Number of episodes at which the bounds would about meet the limit."""
        quantity = requirement.quantity
        value = self.plan.estimate(self.part, quantity)
        reference = 0.0
        if requirement.reference is not None:
            reference = quantity.of_sample(self.part.returns)
        shrinkage = needed_shrinkage(requirement, value, reference, bound, reference_bound)
        return episodes_for(len(self.part), shrinkage, _RATE)

    def _best(self, whose: str, interval: Interval) -> Interval:
        if interval.reasons:
            raise InvalidInputError(
                "`path` must be a log that gives guaranteed bounds on the candidate, got one that "
                f"does not: {interval.reasons[0]}."
            )
        upper = interval.side == "upper"
        bound = interval.upper if upper else interval.lower
        key = f"{whose} {interval.quantity} {interval.side} {interval.delta!r}"
        best = self.state.improve(key, bound, upper=upper)
        return replace(interval, upper=best) if upper else replace(interval, lower=best)


def _check_beginnings(stats: TrajectoryStatistics, path: Path) -> None:
    if stats.logging is None or not stats.beginnings_known:
        raise InvalidInputError(
            "`path` must be a log that records every episode when it begins, got "
            f"{path}, which does not for all of them: episodes under way would be left out, and "
            "those are the long ones. Log with LogActionProbability or VecLogActionProbability; "
            "for a log whose number of episodes was fixed in advance use `evaluate`.",
            path=path,
        )
