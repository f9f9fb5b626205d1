"""Sharing of delta over evaluations, candidates, quantities and requirements."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class ErrorBudget:
    """How the total failure probability is divided.

    Attributes
    ----------
    delta : float
        Total failure probability, over all evaluations and candidates.
    simultaneous : bool
        The intervals of all quantities hold simultaneously. Otherwise each holds by itself.
    n_candidates : int
        Candidates whose bounds hold simultaneously.
    evaluation : int or None
        Number of this evaluation, counted from 1, of a sequence whose bounds all hold
        simultaneously; None if it stands alone.
    """

    delta: float
    simultaneous: bool = False
    n_candidates: int = 1
    evaluation: int | None = None

    @property
    def evaluation_delta(self) -> float:
        """Share of this evaluation: 6 delta / (pi k)^2, whose sum over all k is delta."""
        if self.evaluation is None:
            return self.delta
        return self.delta * 6.0 / (math.pi * self.evaluation) ** 2

    @property
    def candidate_delta(self) -> float:
        """Share of one candidate in this evaluation."""
        return self.evaluation_delta / self.n_candidates

    def interval_delta(self, n_quantities: int) -> float:
        """Share of one two-sided interval out of those of `n_quantities` quantities."""
        return self.candidate_delta / n_quantities if self.simultaneous else self.candidate_delta

    @property
    def proving_delta(self) -> float:
        """Level of a bound that proves a requirement.

        It is not divided by the number of requirements: if not all of them hold, one is false, and
        "all proven" needs that one to be proven.
        """
        return self.candidate_delta

    def refuting_delta(self, n_requirements: int) -> float:
        """Level of a bound that refutes one of several requirements."""
        return self.candidate_delta / n_requirements
