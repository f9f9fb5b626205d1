"""The result of an evaluation."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

from ove_sb3._versions import library_versions
from ove_sb3.core.band import DistributionBand, distribution_band
from ove_sb3.core.diagnostics import Diagnostics
from ove_sb3.core.inference import compute_interval
from ove_sb3.core.interval import Interval
from ove_sb3.core.methods import Betting
from ove_sb3.core.quantities import Quantile, Quantity, as_quantity
from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.errors import InvalidInputError, SupportWarning
from ove_sb3.report.html import summary
from ove_sb3.report.numbers import bounds, count, label, number, percent
from ove_sb3.report.origin import Origin
from ove_sb3.report.sentences import tail_sentence
from ove_sb3.report.table import Table

from .advice import advise, convergence_rate, episodes_for, half_intervals
from .behavior import Behavior
from .plan import Plan
from .requirements import (
    BoundFunction,
    Requirement,
    Verdict,
    contradiction,
    decide,
    needed_shrinkage,
    parse_requirements,
)
from .suggestions import Suggestion, suggestions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@contextmanager
def _without_support_warnings() -> Iterator[None]:
    """Intervals of an advice do not warn again: the result has its own warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        yield


@dataclass(frozen=True, repr=False)
class QuantityResult:
    """Estimate and intervals of one quantity of the return.

    Attributes
    ----------
    quantity : Quantity
    estimate : float
        Point estimate; NaN where the log does not support one, or where the estimator gives an
        impossible value, such as a negative variance: see `Evaluation.warnings`.
    estimator : str
        Name of the estimator.
    interval : Interval
        Main interval; `Interval.guaranteed` says whether it is proven.
    approximate : Interval or None
        Approximate interval; None where it does not apply.
    behavior : float
        Value for the logged returns themselves.
    behavior_interval : Interval or None
        Main interval for the behavior, computed when it is asked for; None if the behavior is not
        one fixed policy.
    """

    quantity: Quantity
    estimate: float
    estimator: str
    interval: Interval
    approximate: Interval | None
    behavior: float
    logged: Behavior | None = field(default=None, repr=False, compare=False)

    @cached_property
    def behavior_interval(self) -> Interval | None:
        """Main interval for the behavior."""
        if self.logged is None or not self.logged.is_one_policy:
            return None
        return self.logged.interval(self.quantity, self.interval.delta)

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """The main interval, then the approximate one if there is one."""
        return (self.interval,) if self.approximate is None else (self.interval, self.approximate)

    def __repr__(self) -> str:
        return f"<QuantityResult: estimate {number(self.estimate)}, {self.interval}>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON; NaN becomes None."""
        return {
            "estimate": self.estimate if math.isfinite(self.estimate) else None,
            "estimator": self.estimator,
            "interval": self.interval.to_dict(),
            "approximate": None if self.approximate is None else self.approximate.to_dict(),
            "behavior": self.behavior,
        }


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Estimates and intervals of the return a candidate would get.

    Attributes
    ----------
    quantities : dict of str to QuantityResult
        By short name; also ``evaluation["variance"]``.
    diagnostics : Diagnostics
    warnings : tuple of str
        Problems found, in plain words.
    candidate : str
        Name of the candidate.
    behavior, env_id : str or None
        Names of the policy that logged, and of the environment.
    plan : Plan
        All options the result depends on, the seed included.
    stats : TrajectoryStatistics or None
        The statistics behind the result; None if they could not be computed.
    n_trajectories, n_steps : int
        Size of the log.
    logged : Behavior or None
        The behavior's own return, for comparisons with it.
    origin : Origin
        Files of the log and the candidate, and the candidate's fingerprint.

    Notes
    -----
    `advice`, `suggestions`, `episodes_to_halve` and `band` need further intervals. They are
    computed when they are asked for, printing included.
    """

    quantities: Mapping[str, QuantityResult]
    diagnostics: Diagnostics
    warnings: tuple[str, ...]
    candidate: str
    behavior: str | None
    env_id: str | None
    plan: Plan = field(repr=False)
    stats: TrajectoryStatistics | None = field(repr=False)
    n_trajectories: int
    n_steps: int
    logged: Behavior | None = field(default=None, repr=False)
    origin: Origin = field(default_factory=Origin, repr=False)

    def __getitem__(self, quantity: str | Quantity) -> QuantityResult:
        """Result of a quantity, by itself or its short name."""
        name = as_quantity(quantity).name
        if name not in self.quantities:
            known = ", ".join(map(repr, self.quantities))
            raise InvalidInputError(
                f"`quantity` must be one that was evaluated, {known}, got {name!r}. Pass "
                f"quantities=[..., {name!r}]."
            )
        return self.quantities[name]

    @property
    def mean(self) -> float:
        """Estimate of the mean."""
        return self["mean"].estimate

    @property
    def variance(self) -> float:
        """Estimate of the variance."""
        return self["variance"].estimate

    @property
    def std(self) -> float:
        """Estimate of the standard deviation."""
        return self["std"].estimate

    @property
    def guaranteed(self) -> bool:
        """Whether the main intervals of all quantities are guaranteed."""
        return all(result.interval.guaranteed for result in self.quantities.values())

    @cached_property
    def band(self) -> DistributionBand | None:
        """Band around the distribution function of the return, computed when it is asked for.

        It holds by itself with probability 1 - delta, for all returns together, from one random
        order of the episodes. None if the weights could not be computed, or if the method has no
        bounds for quantiles.
        """
        method, stats = self.plan.method, self.stats
        if stats is None or not method.supports(Quantile(0.5)):
            return None
        if isinstance(method, Betting):
            method = replace(method, n_shuffles=1)

        def interval_of(quantile: Quantile, delta: float) -> Interval:
            assumptions = self.plan.at(delta)
            return compute_interval(stats, quantile, method, assumptions, rng=self.plan.seed)

        return distribution_band(interval_of, self.plan.budget.candidate_delta)

    # --- advice

    @cached_property
    def episodes_to_halve(self) -> int | None:
        """About how many episodes in all would halve the main interval for the variance.

        None if unknown.
        """
        if "variance" not in self.quantities:
            return None
        rate = convergence_rate(self._advised.interval, self._halves)
        return episodes_for(self.n_trajectories, 0.5, rate)

    @cached_property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """Changes that would narrow the interval of the variance, narrowest first.

        Each comes with the interval it would give; `advice` states them in words.
        """
        if self.stats is None:
            return ()
        advised = self._advised
        with _without_support_warnings():
            return suggestions(
                self.stats, self.plan, advised.quantity, advised.interval, self._halves
            )

    @property
    def advice(self) -> tuple[str, ...]:
        """How to make the intervals narrower."""
        if self.stats is None:
            return ()
        return advise(self.diagnostics, self.episodes_to_halve, self.suggestions, self.plan.share)

    @property
    def _advised(self) -> QuantityResult:
        """The quantity that the advice is about."""
        return self.quantities.get("variance", next(iter(self.quantities.values())))

    @cached_property
    def _halves(self) -> list[Interval]:
        """Its intervals from the two halves of the log."""
        return [] if self.stats is None else self._half_intervals(self._advised.quantity)

    def _half_intervals(self, quantity: Quantity) -> list[Interval]:
        assert self.stats is not None
        with _without_support_warnings():
            return half_intervals(
                self.stats,
                lambda part: self._interval(part, quantity),
                seed=self.plan.seed,
                in_order=self.plan.assumptions.evidence.adaptive,
            )

    def _interval(self, stats: TrajectoryStatistics, quantity: Quantity) -> Interval:
        """Main interval of a quantity from other statistics."""
        plan = self.plan
        assumptions = plan.at(plan.interval_delta)
        return compute_interval(stats, quantity, plan.method, assumptions, rng=plan.seed)

    @property
    def subject(self) -> str:
        """Name of the variable whose distribution is estimated: ``"return"``, or a sum of costs."""
        return self.plan.subject

    @property
    def interval_delta(self) -> float:
        """Probability of a miss of each interval."""
        return self.plan.interval_delta

    @property
    def joint_delta(self) -> float | None:
        """Probability that any interval misses; None if they do not hold simultaneously."""
        return self.plan.budget.candidate_delta if self.plan.budget.simultaneous else None

    # --- requirements

    def check(self, requirement: str | Requirement) -> Verdict:
        """Decide whether a requirement such as ``"variance <= 80"`` is proven.

        A false requirement is called proven with probability at most delta, and a true one refuted
        with probability at most delta.
        """
        return self.check_all(requirement)[0]

    def check_all(self, *requirements: str | Requirement) -> tuple[Verdict, ...]:
        """Decide several requirements together.

        If not all of them hold, all are called proven with probability at most delta. Any true one
        is called refuted with probability at most delta.
        """
        parsed = parse_requirements(requirements)
        if not parsed:
            raise InvalidInputError(
                'at least one requirement must be given, got none. Write for example "variance <= '
                '80".'
            )
        return tuple(self._decide(requirement, len(parsed)) for requirement in parsed)

    def satisfies(self, *requirements: str | Requirement) -> bool:
        """Whether all requirements are proven, see `check_all`."""
        return all(verdict.proven for verdict in self.check_all(*requirements))

    def _decide(self, requirement: Requirement, n_requirements: int) -> Verdict:
        reported = self.quantities.get(requirement.quantity.name)
        if reported is not None and not reported.interval.consistent:
            interval = reported.interval
            reason = contradiction(interval.lower, interval.upper)
            return Verdict(str(requirement), "undecided", reason)
        if self.stats is None:
            reason = "The log gives no bounds for this candidate, see the warnings."
            return Verdict(str(requirement), "undecided", reason)
        return decide(
            requirement,
            self._one_sided,
            self.plan.budget,
            n_requirements=n_requirements,
            episodes_needed=self._episodes_needed,
            reference_bound=self._reference_bound(requirement),
        )

    def _reference_bound(self, requirement: Requirement) -> BoundFunction | None:
        """One-sided bounds on the reference of a requirement."""
        reference, behavior = requirement.reference, self.logged
        if reference is None:
            return None
        assert behavior is not None
        behavior.check_comparable(reference)

        def bound(quantity: Quantity, side: str, delta: float) -> Interval:
            return behavior.interval(quantity, delta, side, reference)

        return bound

    def _one_sided(self, quantity: Quantity, side: str, delta: float) -> Interval:
        assert self.stats is not None
        return compute_interval(
            self.stats,
            quantity,
            self.plan.method,
            self.plan.at(delta),
            side=side,
            rng=self.plan.seed,
        )

    def _episodes_needed(
        self, requirement: Requirement, bound: float, reference_bound: float
    ) -> int | None:
        """Number of episodes at which the bounds would about meet the limit."""
        assert self.stats is not None
        plan, quantity = self.plan, requirement.quantity
        value = plan.estimate(self.stats, quantity)
        reference = 0.0
        if requirement.reference is not None and self.logged is not None:
            reference = self.logged.estimate(quantity, requirement.reference)
        shrinkage = needed_shrinkage(requirement, value, reference, bound, reference_bound)
        if not 0.0 < shrinkage < 1.0:
            return None
        halves = self._half_intervals(quantity)
        rate = convergence_rate(self._interval(self.stats, quantity), halves)
        return episodes_for(self.n_trajectories, shrinkage, rate)

    # --- text

    @property
    def headline(self) -> str:
        """Candidate, log and discount factor in one line."""
        where = f" of {self.env_id}" if self.env_id else ""
        by = f" logged by {self.behavior}" if self.behavior else ""
        return (
            f"Estimated {self.subject} of {self.candidate} from {self.n_trajectories} "
            f"episodes{where}{by} (gamma {self.plan.assumptions.gamma:g})"
        )

    @property
    def table(self) -> Table:
        """Quantities with their estimates and intervals."""
        confidence = percent(self.interval_delta)
        results = list(self.quantities.values())
        header = ["", "estimate", f"{confidence} {self._interval_label}"]
        method = self.plan.approximate
        approximate = method is not None and any(r.approximate is not None for r in results)
        if method is not None and approximate:
            header.append(f"{confidence} {method.name}")
        rows = []
        for result in results:
            cells = [result.quantity.label, number(result.estimate), bounds(result.interval)]
            if approximate:
                cells.append(bounds(result.approximate))
            rows.append([*cells, number(result.behavior)])
        return Table.of([*header, "behavior"], rows, strong=2)

    @property
    def _interval_label(self) -> str:
        word = label(*(result.interval for result in self.quantities.values()))
        return word if self.guaranteed else f"{self.plan.method.name}, {word}"

    @property
    def remarks(self) -> list[str]:
        """Lines below the table."""
        ess = self.diagnostics.effective_sample_size
        known = "unknown, from" if math.isnan(ess) else f"{count(ess)} of"
        lines = [f"effective sample size {known} {self.n_trajectories} episodes"]
        if self.episodes_to_halve is not None:
            needed = f"about {self.episodes_to_halve} episodes"
            lines[0] += f"; {needed} would halve the interval of the variance"
        consistent = all(result.interval.consistent for result in self.quantities.values())
        if self.joint_delta is not None and consistent:
            together = percent(self.joint_delta)
            lines.append(
                f"the {self._interval_label} intervals hold simultaneously with {together}"
            )
        tail = tail_sentence(self)
        lines += [tail] if tail is not None else []
        lines += [f"warning: {text}" for text in self.warnings]
        useless = any(not result.interval.informative for result in self.quantities.values())
        shown = [some for some in self.suggestions if useless or not some.new_episodes]
        return [*lines, *(f"advice: {suggestion}" for suggestion in shown[:1])]

    def __str__(self) -> str:
        return "\n".join([self.headline, "", *self.table.lines(), "", *self.remarks])

    def __repr__(self) -> str:
        names = ", ".join(self.quantities)
        return f"<Evaluation: {self.headline}: {names}>"

    def _repr_html_(self) -> str:
        """Headline, table and remarks for a notebook."""
        return summary(self.headline, self.table, self.remarks)

    # --- exports

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON; the same from memory and from disk."""
        return {
            "candidate": self.candidate,
            "behavior": self.behavior,
            "env_id": self.env_id,
            "n_trajectories": self.n_trajectories,
            "n_steps": self.n_steps,
            "quantities": {name: result.to_dict() for name, result in self.quantities.items()},
            "episodes_to_halve": self.episodes_to_halve,
            "diagnostics": self.diagnostics.to_dict(),
            "warnings": list(self.warnings),
            "advice": list(self.advice),
            "settings": self.plan.to_dict(),
            "versions": library_versions(),
        }

    def settings(self) -> dict[str, Any]:
        """Options and versions the result depends on."""
        return {**self.plan.to_dict(), "versions": library_versions()}

    def plot(self, ax: Axes | None = None) -> Figure:
        """Draw the result with matplotlib.

        Parameters
        ----------
        ax : Axes, optional
            Draw only the distribution function of the return, into these axes. By default a new
            figure also shows the intervals of every quantity and the concentration of the weights.
        """
        from ove_sb3.report.figure import evaluation_figure

        return evaluation_figure(self, ax)

    def save_html(
        self,
        path: str | PathLike[str],
        *requirements: str | Requirement,
        author: str | None = None,
        purpose: str | None = None,
    ) -> None:
        """Write a self-contained HTML report, atomically.

        Parameters
        ----------
        path : path
        *requirements : str
            Requirements that the report decides, see `check_all`.
        author, purpose : str, optional
            Who made the report and what for; shown with its date.
        """
        from ove_sb3._files import write_text
        from ove_sb3.report.about import About
        from ove_sb3.report.pages import evaluation_page

        about = About(author, purpose)
        verdicts = self.check_all(*requirements) if requirements else ()
        write_text(path, evaluation_page(self, verdicts, about))
