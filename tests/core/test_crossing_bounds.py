"""Bounds that contradict each other are shown as they are, and guarantee nothing."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import ove_sb3 as ove
from ove_sb3.core.label import INCONSISTENT
from tests.problems.fixed_logs import crossing

from .test_golden import statistics

PROBLEM = crossing()
STATS = statistics(PROBLEM)
ONE_ORDER = ove.Betting(n_shuffles=1)


@dataclass(frozen=True)
class Fixed(ove.Method):
    """Bounds that do not depend on the data."""

    lower: float
    upper: float

    name = "fixed"
    proven = True

    def bounds(self, quantity: ove.Quantity, inputs: ove.MethodInputs) -> tuple[float, float]:
        return self.lower, self.upper


@dataclass(frozen=True)
class Approximate(Fixed):
    name = "approximate"
    proven = False


@pytest.mark.parametrize("quantity", ["mean", "variance", "std"])
def test_crossing_bounds_are_not_swapped_and_not_guaranteed(quantity: str) -> None:
    interval = ove.interval(STATS, quantity, delta=0.2, method=ONE_ORDER, **PROBLEM.limits)
    assert interval.lower > interval.upper
    assert interval.width < 0.0
    assert not interval.consistent
    assert not interval.guaranteed
    assert interval.label == "approximate"
    assert interval.reasons == (INCONSISTENT,)
    assert INCONSISTENT in interval.assumptions
    assert "bounds contradict each other" in str(interval)
    plain = interval.to_dict()
    assert (plain["consistent"], plain["guaranteed"]) == (False, False)
    assert (plain["lower"], plain["upper"]) == (interval.lower, interval.upper)
    assert (interval.lower + interval.upper) / 2 not in interval


@pytest.mark.parametrize("quantity", ["mean", "variance", "std"])
def test_each_of_the_crossing_bounds_alone_is_guaranteed(quantity: str) -> None:
    both = ove.interval(STATS, quantity, delta=0.2, method=ONE_ORDER, **PROBLEM.limits)
    lower, upper = (
        ove.interval(STATS, quantity, delta=0.1, side=side, method=ONE_ORDER, **PROBLEM.limits)
        for side in ("lower", "upper")
    )
    assert (lower.lower, upper.upper) == (both.lower, both.upper)
    for interval in (lower, upper):
        assert interval.consistent
        assert interval.guaranteed
        assert INCONSISTENT not in interval.assumptions


def test_bounds_that_do_not_cross_are_consistent() -> None:
    interval = ove.interval(STATS, "variance", delta=0.05, **PROBLEM.limits)
    assert interval.lower < interval.upper
    assert interval.consistent
    assert interval.guaranteed
    assert "contradict" not in str(interval)


@pytest.mark.parametrize("quantity", ["mean", "variance"])
def test_bounds_of_a_method_that_cross_are_kept(quantity: str) -> None:
    interval = ove.interval(STATS, quantity, method=Fixed(0.7, 0.6), **PROBLEM.limits)
    assert (interval.lower, interval.upper) == (0.7, 0.6)
    assert not interval.consistent
    assert not interval.guaranteed


def test_a_reason_is_added_to_those_of_the_method() -> None:
    interval = ove.interval(STATS, "mean", method=Approximate(0.7, 0.6))
    assert not interval.consistent
    assert len(interval.reasons) == 2
    assert interval.reasons[1] == INCONSISTENT


@pytest.mark.parametrize(
    ("lower", "upper", "consistent"),
    [
        (0.6 + 1e-10, 0.6, True),
        (0.6, 0.6, True),
        (0.6 + 1e-6, 0.6, False),
        (2.9, 2.8, False),
    ],
)
def test_rounding_is_no_contradiction(lower: float, upper: float, consistent: bool) -> None:
    options = {"reward_range": (0.0, 1.0), "return_range": (0.4, 3.0)}
    interval = ove.interval(STATS, "mean", method=Fixed(lower, upper), **options)  # type: ignore[arg-type]
    assert interval.consistent == interval.guaranteed == consistent
    expected = (upper, lower) if consistent else (lower, upper)
    assert (interval.lower, interval.upper) == expected


def test_rounding_is_relative_to_the_bounds_without_a_range() -> None:
    # Of numbers near a million, the ninth digit is rounding.
    near = ove.interval(STATS, "mean", method=Approximate(1e6 + 1e-4, 1e6))
    assert near.consistent
    assert (near.lower, near.upper) == (1e6, 1e6 + 1e-4)
    far = ove.interval(STATS, "mean", method=Approximate(1e6 + 1.0, 1e6))
    assert not far.consistent
    assert (far.lower, far.upper) == (1e6 + 1.0, 1e6)


def test_bounds_outside_the_a_priori_range_are_clipped_before_they_are_compared() -> None:
    interval = ove.interval(STATS, "variance", method=Fixed(-1.0, -2.0), **PROBLEM.limits)
    assert (interval.lower, interval.upper) == (0.0, 0.0)
    assert interval.consistent
