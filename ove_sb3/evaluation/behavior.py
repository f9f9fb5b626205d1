"""The behavior's own return, from the same log: that of a candidate whose ratios are all 1."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ove_sb3.core.assigned import ARMS, SHARES
from ove_sb3.core.inference import compute_interval
from ove_sb3.core.interval import Interval
from ove_sb3.core.quantities import Quantity
from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.errors import InvalidInputError

from .plan import Plan

BEHAVIOR = "behavior"


@dataclass(frozen=True, eq=False)
class Component:
    """A policy of a mixture drawn once per episode.

    Attributes
    ----------
    stats : TrajectoryStatistics
        Statistics of the log with this policy as the candidate.
    max_weight : float
        1 over its share in the mixture.
    """

    stats: TrajectoryStatistics = field(repr=False)
    max_weight: float


@dataclass(frozen=True, eq=False)
class Behavior:
    """Bounds on the behavior's return.

    Attributes
    ----------
    logged : TrajectoryStatistics
        Statistics of the log for any candidate.
    plan : Plan
    components : tuple of Component
        Of a mixture drawn once per episode; empty where the log does not hold the action
        probabilities of its policies.
    """

    logged: TrajectoryStatistics = field(repr=False)
    plan: Plan = field(repr=False)
    components: tuple[Component, ...] = ()

    @property
    def is_one_policy(self) -> bool:
        """Whether all episodes were logged by the same policy, which did not learn meanwhile."""
        plan = self.plan
        several = plan.several_behaviors or plan.n_components > 0
        return not (plan.assumptions.evidence.adaptive or several)

    @cached_property
    def stats(self) -> TrajectoryStatistics:
        """Statistics with all ratios 1, in closed form."""
        stats = self.logged
        G, c = stats.returns, stats.effective_horizon
        known = np.isfinite(c)
        columns = {
            "weights": np.ones_like(G),
            "returns": G,
            "pdis": G,
            "cdis": G**2,
            "pdis_ones": np.full_like(G, c if known else np.nan),
            "cdis_ones": np.full_like(G, c**2 if known else np.nan),
            "cdis_cross": G * c if known else np.full_like(G, np.nan),
        }
        columns |= {name: stats[name] for name in (ARMS, SHARES) if name in stats.columns}
        own = replace(
            stats,
            columns=columns,
            max_log_ratio=0.0,
            max_log_weight=0.0,
            n_zero_ratios=0,
            step_sums=None,
            end_sums=None,
            steps=None,
        )
        own.__dict__["n_repeated"] = stats.n_repeated  # a property of the episodes, not of weights
        return own

    def interval(
        self, quantity: Quantity, delta: float, side: str = "both", reference: str = BEHAVIOR
    ) -> Interval:
        """Interval of a quantity of the return of the behavior, or of one of its components.

        It is valid even if the candidate depends on the log.
        """
        evidence = replace(
            self.plan.assumptions.evidence,
            candidate_depends_on_log=False,
            candidate_selected_on_log=False,
            candidate_of_unknown_origin=False,
        )
        component = self._component(reference)
        stats = self.stats if component is None else component.stats
        assumptions = replace(
            self.plan.at(delta),
            evidence=evidence,
            max_ratio=1.0 if component is None else None,
            max_ratio_reason=None,
            max_weight=1.0 if component is None else component.max_weight,
        )
        return compute_interval(
            stats, quantity, self.plan.method, assumptions, side=side, rng=self.plan.seed
        )

    def estimate(self, quantity: Quantity, reference: str) -> float:
        """Point estimate of a quantity of the behavior, or of one of its components."""
        component = self._component(reference)
        if component is None:
            return quantity.of_sample(self.logged.returns)
        return self.plan.estimate(component.stats, quantity)

    def _component(self, reference: str) -> Component | None:
        """Component that a reference such as ``"behavior:0"`` names; None for the behavior."""
        index = _index(reference)
        return None if index is None else self.components[index]

    def check_comparable(self, reference: str) -> None:
        """Refuse a comparison with a behavior that is not one fixed policy."""
        index, n = _index(reference), self.plan.n_components
        if self.plan.assumptions.evidence.adaptive:
            raise InvalidInputError(
                f'a requirement must not compare with "{reference}" where the behavior changed '
                "while the log was written: it is not one policy with one distribution of returns. "
                "Log with a fixed policy, or compare with a number."
            )
        if index is None and n:
            raise InvalidInputError(
                f'a requirement must not compare with "behavior" where one of {n} policies was '
                "drawn for every episode: the variance of such a mixture contains the difference "
                'between the policies. Name one of them, such as "behavior:0".'
            )
        if index is None and self.plan.several_behaviors:
            raise InvalidInputError(
                'a requirement must not compare with "behavior" where several policies wrote the '
                "log, one after the other: it is not one policy with one distribution of returns. "
                "Evaluate the log of one of them, or compare with a number."
            )
        if index is not None and not self.components:
            raise InvalidInputError(
                f'a requirement must not compare with "{reference}": the log does not hold the '
                "action probabilities of several policies. Log with MixturePolicy(..., "
                'per="episode"), or evaluate the policy as a candidate, with ove_sb3.compare, and '
                "compare the intervals."
            )
        if index is not None and index >= n:
            raise InvalidInputError(
                f'a requirement must compare with "behavior:0" to "behavior:{n - 1}", the policies '
                f'of the mixture that wrote the log, got "{reference}".'
            )


def _index(reference: str) -> int | None:
    """Number of the component that a reference names; None for the behavior itself."""
    _, colon, index = reference.partition(":")
    return int(index) if colon else None
