"""Protocols of the results that can be rendered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ove_sb3.core.band import DistributionBand
from ove_sb3.core.diagnostics import Diagnostics
from ove_sb3.core.interval import Interval
from ove_sb3.core.quantities import Quantity
from ove_sb3.core.statistics import TrajectoryStatistics

from .origin import Origin
from .table import Table


class VerdictView(Protocol):
    """A decided requirement; prints as a sentence."""

    @property
    def status(self) -> str:
        """``"proven"``, ``"refuted"`` or ``"undecided"``."""


class QuantityView(Protocol):
    """Estimate and intervals of one quantity."""

    @property
    def quantity(self) -> Quantity:
        """The quantity."""

    @property
    def estimate(self) -> float:
        """Point estimate."""

    @property
    def estimator(self) -> str:
        """Name of the estimator."""

    @property
    def interval(self) -> Interval:
        """Main interval."""

    @property
    def intervals(self) -> Sequence[Interval]:
        """All intervals, the main one first."""

    @property
    def behavior(self) -> float:
        """Value for the logged returns."""


class EvaluationView(Protocol):
    """The evaluation of one candidate."""

    @property
    def quantities(self) -> Mapping[str, QuantityView]:
        """Results by short name."""

    @property
    def subject(self) -> str:
        """Name of the variable whose distribution is estimated, such as ``"return"``."""

    @property
    def headline(self) -> str:
        """Candidate and log in one line."""

    @property
    def table(self) -> Table:
        """Estimates and intervals."""

    @property
    def warnings(self) -> Sequence[str]:
        """Problems found."""

    @property
    def advice(self) -> Sequence[str]:
        """Advice on how to make the intervals narrower."""

    @property
    def diagnostics(self) -> Diagnostics:
        """Diagnostics of the weights."""

    @property
    def stats(self) -> TrajectoryStatistics | None:
        """Statistics behind the result."""

    @property
    def band(self) -> DistributionBand | None:
        """Band around the distribution function of the return."""

    @property
    def candidate(self) -> str:
        """Name of the candidate."""

    @property
    def env_id(self) -> str | None:
        """Name of the environment."""

    @property
    def behavior(self) -> str | None:
        """Name of the policy that logged."""

    @property
    def n_trajectories(self) -> int:
        """Number of logged episodes."""

    @property
    def n_steps(self) -> int:
        """Number of logged steps."""

    @property
    def origin(self) -> Origin:
        """Files of the log and the candidate."""

    @property
    def joint_delta(self) -> float | None:
        """Probability that any interval misses, if the intervals hold simultaneously."""

    @property
    def interval_delta(self) -> float:
        """Probability of a miss of each interval."""

    def settings(self) -> dict[str, Any]:
        """Options the result depends on."""


class ComparisonView(Protocol):
    """The evaluation of several candidates."""

    @property
    def evaluations(self) -> Mapping[str, EvaluationView]:
        """Evaluations by name, in order."""

    @property
    def headline(self) -> str:
        """Candidates and log in one line."""

    @property
    def table(self) -> Table:
        """Candidates in order."""

    @property
    def question(self) -> str:
        """The question that the comparison answers."""

    @property
    def answer(self) -> str:
        """The answer in one sentence."""

    @property
    def findings(self) -> Sequence[str]:
        """Sentence about the proven order."""

    @property
    def delta(self) -> float:
        """Probability that any guaranteed interval misses."""
