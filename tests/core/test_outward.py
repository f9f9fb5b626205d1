"""Bounds as text are rounded outward, so that a printed bound is as valid as the exact one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ove_sb3.core.interval import bounds_text, lower_text, upper_text

numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(numbers)
def test_text_is_on_the_safe_side_and_close(bound: float) -> None:
    lower, upper = float(lower_text(bound)), float(upper_text(bound))
    rounding = 1e-12 * abs(bound)
    assert lower - rounding <= bound <= upper + rounding
    unit = max(abs(bound) * 1e-3, 1e-300)
    if math.isfinite(upper) and math.isfinite(lower):
        assert bound - lower <= unit
        assert upper - bound <= unit


@pytest.mark.parametrize(
    ("lower", "upper", "shown"),
    [
        (0.0, 1.0, "[0, 1]"),
        (0.9, 0.9, "[0.9, 0.9]"),
        (171.55, 171.55, "[171.5, 171.6]"),
        (0.123449, 0.123451, "[0.1234, 0.1235]"),
        (-0.123449, -0.123451, "[-0.1235, -0.1234]"),
        (12345.4, 12345.6, "[12345, 12346]"),
        (-math.inf, math.inf, "[-inf, inf]"),
        (math.nan, 2.0, "[-, 2]"),
    ],
)
def test_examples(lower: float, upper: float, shown: str) -> None:
    assert bounds_text(lower, upper) == shown
