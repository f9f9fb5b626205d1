"""Data of charts and tables, and numbers in text."""

from __future__ import annotations

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.report.numbers import bounds, count, label, number, percent
from ove_sb3.report.shapes import _distribution, concentration, quantity_chart, ticks
from ove_sb3.report.table import Table


def test_distribution_functions_are_thinned_but_not_interpolated() -> None:
    rng = np.random.default_rng(0)
    returns, weights = rng.normal(size=20_000), rng.exponential(size=20_000)
    values, levels = _distribution(returns, weights)
    assert values.size <= 400
    assert values[-1] == returns.max()
    assert levels[-1] == pytest.approx(1)
    for x, y in zip(values, levels, strict=True):
        assert y == pytest.approx(weights[returns <= x].sum() / weights.sum())
    assert np.diff(levels).max() < 0.02
    values, levels = _distribution(np.array([3.0, 1.0, 3.0]), np.ones(3))
    assert values.tolist() == [1.0, 3.0]
    assert levels.tolist() == pytest.approx([1 / 3, 1.0])


def test_concentration() -> None:
    share, carried = concentration(np.array([0.0, 1.0, 3.0, 0.0]))
    assert dict(zip(share, carried, strict=True)) == {
        0.0: 0.0,
        0.25: 0.75,
        0.5: 1.0,
        0.75: 1.0,
        1.0: 1.0,
    }
    share, carried = concentration(np.ones(100_000))
    assert len(share) <= 200
    np.testing.assert_allclose(share, carried)
    assert not concentration(np.zeros(3))[1].any()


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (-4.7, 3.9, [-4, -2, 0, 2]),
        (0.0, 0.37, [0, 0.1, 0.2, 0.3]),
        (1e6, 3e6, [1e6, 1.5e6, 2e6, 2.5e6, 3e6]),
        (2.0, 2.0, [2.0]),
    ],
)
def test_ticks(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(expected)


def test_numbers_as_text() -> None:
    assert [number(x) for x in (0, 1.23456, 12345.6, 1.5e8, -0.00001234)] == [
        "0",
        "1.235",
        "12346",
        "1.5e+08",
        "-1.234e-05",
    ]
    assert [percent(d) for d in (0.05, 0.025, 0.1, 0.05 / 6, 1e-4, 0.32)] == [
        "95%",
        "97.5%",
        "90%",
        "99.16%",
        "99.99%",
        "68%",
    ]
    assert [count(x) for x in (4.512, 999.4, 2000.0)] == ["4.51", "999", "2000"]
    assert bounds(None) == "-"
    assert number(float("nan")) == count(float("nan")) == "-"


def test_tables_are_aligned() -> None:
    table = Table.of(["", "bb"], [["a", "b"], ["cc", "d"]])
    assert table.lines() == ["     bb", "a     b", "cc    d"]
    assert str(table) == "\n".join(table.lines())


def test_labels_of_intervals(
    result: ove.Evaluation, contradictory: ove.Evaluation, no_support: ove.Evaluation
) -> None:
    good, other = result["mean"].interval, result["variance"].interval
    approximate, broken = result["mean"].approximate, contradictory["variance"].interval
    assert approximate is not None
    assert label(good) == label(good, other) == "guaranteed"
    assert label(approximate) == label(good, approximate) == "approximate"
    assert label(broken) == label(good, broken) == label(approximate, broken) == "contradictory"


def test_charts_of_quantities(
    result: ove.Evaluation, contradictory: ove.Evaluation, no_weights: ove.Evaluation
) -> None:
    chart = quantity_chart(result["mean"])
    assert chart.title == "mean of the return"
    assert [(bar.label, bar.kind) for bar in chart.bars] == [
        ("guaranteed", "main"),
        ("bootstrap", "approximate"),
    ]
    low, high = chart.extent
    for bar in chart.bars:
        assert bar.estimate == result.mean
        assert low <= bar.lower < bar.upper <= high
    assert low <= chart.behavior == result["mean"].behavior <= high
    crossed = quantity_chart(contradictory["variance"])
    assert crossed.bars[0].label == "contradictory"
    assert crossed.bars[0].lower > crossed.bars[0].upper
    assert crossed.extent[0] <= crossed.bars[0].upper
    assert crossed.extent[1] >= crossed.bars[0].lower
    unknown = quantity_chart(no_weights["mean"])
    assert unknown.extent == no_weights["mean"].interval.a_priori
