"""Numbers as they are printed."""

from __future__ import annotations

import pytest

from ove_sb3.report.numbers import count, number, percent


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1.234, "1.23"), (99.4, "99.4"), (999.96, "1000"), (12345.6, "12346")],
)
def test_a_number_of_episodes_has_no_exponent(value: float, text: str) -> None:
    assert count(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.00123456, "0.001235"), (12345.67, "12346"), (-2e7, "-2e+07")]
)
def test_numbers_are_short_and_readable(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("delta", "text"),
    [
        *[(0.05, "95%"), (0.05 / 3, "98.3%"), (0.001, "99.9%"), (1e-4, "99.99%")],
        *[(1e-13, "99.999999999%"), (5e-324, "99.999999999%")],
    ],
)
def test_confidence_is_never_rounded_up(delta: float, text: str) -> None:
    assert percent(delta) == text
