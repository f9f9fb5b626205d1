"""Decisions about requirements, from bounds that are known."""

from __future__ import annotations

import math
from typing import Any

import pytest

import ove_sb3 as ove
from ove_sb3.core.interval import Interval
from ove_sb3.evaluation.error_budget import ErrorBudget
from ove_sb3.evaluation.requirements import Requirement, decide

STATS = ove.trajectory_statistics([0.0] * 60, [0.0, 1.0] * 30, [1] * 60, gamma=1.0, horizon=1)
EXAMPLE = ove.interval(STATS, "mean", reward_range=(0, 1))


def decided(
    expression: str,
    lower: float,
    upper: float,
    *,
    n_requirements: int = 1,
    guaranteed: bool = True,
    asked: list[tuple[str, float]] | None = None,
) -> ove.Verdict:
    """Verdict from one-sided bounds `lower` and `upper`."""
    from dataclasses import replace

    def bound(quantity: ove.Quantity, side: str, delta: float) -> Interval:
        assert quantity.name == "mean"
        if asked is not None:
            asked.append((side, delta))
        low, high = (lower, 100.0) if side == "lower" else (-100.0, upper)
        reasons = () if guaranteed else ("the log is adaptive",)
        return replace(EXAMPLE, lower=low, upper=high, guaranteed=guaranteed, reasons=reasons)

    return decide(
        Requirement.parse(expression),
        bound,
        ErrorBudget(0.05),
        n_requirements=n_requirements,
        episodes_needed=lambda requirement, value, limit: 1234,
    )


@pytest.mark.parametrize(
    ("expression", "status"),
    [
        ("mean <= 8", "proven"),
        ("mean <= 7", "proven"),
        ("mean < 7", "undecided"),
        ("mean <= 5", "undecided"),
        ("mean <= 2", "undecided"),
        ("mean < 2", "refuted"),
        ("mean <= 1", "refuted"),
        ("mean >= 1", "proven"),
        ("mean >= 2", "proven"),
        ("mean > 2", "undecided"),
        ("mean >= 5", "undecided"),
        ("mean >= 7", "undecided"),
        ("mean > 7", "refuted"),
        ("mean >= 8", "refuted"),
    ],
)
def test_only_the_bound_on_the_far_side_proves(expression: str, status: str) -> None:
    verdict = decided(expression, 2.0, 7.0)
    assert verdict.status == status
    assert verdict.episodes_needed == (1234 if status == "undecided" else None)


def test_proving_needs_no_share_of_delta_and_refuting_does() -> None:
    asked: list[tuple[str, float]] = []
    decided("mean <= 8", 2.0, 7.0, n_requirements=5, asked=asked)
    assert dict(asked) == {"upper": 0.05, "lower": pytest.approx(0.01)}


def test_bounds_that_contradict_each_other_decide_nothing() -> None:
    for expression in ("mean <= 8", "mean >= 1", "mean <= 0"):
        assert decided(expression, 7.0, 2.0).status == "undecided"


def test_bounds_that_are_not_guaranteed_decide_nothing() -> None:
    verdict = decided("mean <= 8", 2.0, 7.0, guaranteed=False)
    assert verdict.status == "undecided"
    assert "the log is adaptive" in verdict.reason


@pytest.mark.parametrize("operator", ["≤", "=<", "==", "", None])
def test_an_operator_that_is_not_known_is_refused(operator: Any) -> None:
    with pytest.raises(ove.InvalidInputError, match="`operator` must be one of <=, >=, <, >"):
        ove.Requirement(ove.Mean(), operator, 0.2)


@pytest.mark.parametrize("limit", [math.nan, math.inf, "2", None])
def test_a_limit_that_is_no_number_is_refused(limit: Any) -> None:
    with pytest.raises(ove.InvalidInputError, match="`limit` must"):
        ove.Requirement(ove.Mean(), "<=", limit)


@pytest.mark.parametrize("reference", ["candidate", "behavior:", "behavior:x", 0])
def test_a_reference_that_is_not_known_is_refused(reference: Any) -> None:
    with pytest.raises(ove.InvalidInputError, match="`reference` must"):
        ove.Requirement(ove.Mean(), "<=", 0.0, reference)


def test_a_requirement_takes_the_short_name_of_a_quantity() -> None:
    requirement = ove.Requirement("mean", "<=", 2)  # type: ignore[arg-type]
    assert requirement == ove.Requirement.parse("mean <= 2")
