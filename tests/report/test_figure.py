"""The matplotlib figure shows the numbers of the result."""

from __future__ import annotations

import io
import itertools
from typing import Any

import matplotlib.figure
import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.report.shapes import histogram

from .conftest import log


def bars(axes: Any) -> list[list[float]]:
    """Coordinates of all lines of a panel."""
    return [np.asarray(line.get_xdata()).ravel().tolist() for line in axes.lines]


def test_the_figure_shows_the_result(result: ove.Evaluation) -> None:
    figure = result.plot()
    panels = {axes.get_title(): axes for axes in figure.axes}
    assert len(panels) == len(figure.axes) == 9
    assert result.stats is not None
    shape = histogram(result.stats)
    drawn = panels["Distribution of the return"].patches[-1].get_data()  # type: ignore[attr-defined]
    np.testing.assert_array_equal(drawn.values, shape.candidate)
    for title, name in (
        ("Mean of the return", "mean"),
        ("Variance of the return", "variance"),
        ("Standard deviation of the return", "std"),
        ("5% quantile of the return", "quantile:0.05"),
        ("Median of the return", "median"),
        ("95% quantile of the return", "quantile:0.95"),
        ("CVaR 10% of the return", "cvar:0.1"),
    ):
        lines = bars(panels[title])
        assert len(result[name].intervals) == 2
        for interval in result[name].intervals:
            assert [interval.lower, interval.upper] in lines
        assert [result[name].estimate] in lines
        assert [result[name].behavior] * 2 in lines
        labels = [label.get_text() for label in panels[title].get_yticklabels()]
        assert labels == ["95%\nbootstrap", "95%\nguaranteed"]
    text = panels["Concentration of the weight"].texts[0].get_text()
    assert f"of {result.n_trajectories}" in text


def test_one_quantity() -> None:
    data, candidates = log(100)
    result = ove.evaluate(data, candidates["near"], gamma=0.95, quantities=["std"])
    titles = [axes.get_title() for axes in result.plot().axes]
    assert sorted(titles) == [
        "Concentration of the weight",
        "Distribution of the return",
        "Standard deviation of the return",
    ]


def test_it_can_be_drawn(
    result: ove.Evaluation, comparison: ove.Comparison, no_support: ove.Evaluation
) -> None:
    for shown in (result, comparison["far"], no_support):
        picture = io.BytesIO()
        shown.plot().savefig(picture)
        assert picture.tell() > 10_000


def test_no_panel_or_label_overlaps_another(
    result: ove.Evaluation, comparison: ove.Comparison, no_weights: ove.Evaluation
) -> None:
    for shown in (result, comparison["far"], no_weights):
        figure = shown.plot()
        figure.savefig(io.BytesIO(), dpi=figure.dpi)  # lays out
        width, height = figure.canvas.get_width_height()
        boxes = {}
        for axes in figure.axes:
            box = axes.get_tightbbox()  # with title and labels
            assert box is not None
            boxes[axes.get_title()] = box
            assert min(box.x0, box.y0) >= -1
            assert box.x1 <= width + 1
            assert box.y1 <= height + 1
        for (one, first), (other, second) in itertools.combinations(boxes.items(), 2):
            assert not first.overlaps(second), (one, other)


def test_a_result_without_weights_shows_its_intervals(no_weights: ove.Evaluation) -> None:
    figure = no_weights.plot()
    assert [axes.get_title() for axes in figure.axes] == [
        "Mean of the return",
        "Variance of the return",
        "Standard deviation of the return",
        "5% quantile of the return",
        "Median of the return",
        "95% quantile of the return",
        "CVaR 10% of the return",
    ]
    for axes, one in zip(figure.axes, no_weights.quantities.values(), strict=True):
        low, high = one.interval.a_priori
        assert bars(axes) == [[low, high], [one.behavior] * 2]  # and no estimate
    picture = io.BytesIO()
    figure.savefig(picture)
    assert picture.tell() > 5_000
    axes = matplotlib.figure.Figure().subplots()
    with pytest.raises(ove.InvalidInputError, match=r"`ax` must be None where .* weights"):
        no_weights.plot(axes)


def test_a_result_whose_bounds_contradict_each_other_is_labeled(
    contradictory: ove.Evaluation,
) -> None:
    figure = contradictory.plot()
    panels = {axes.get_title(): axes for axes in figure.axes}
    for title, word in (
        ("Mean of the return", "guaranteed"),
        ("Variance of the return", "contradictory"),
        ("Standard deviation of the return", "contradictory"),
    ):
        labels = [label.get_text() for label in panels[title].get_yticklabels()]
        assert labels == ["95%\nbootstrap", f"95%\n{word}"]
    figure.savefig(io.BytesIO())


def test_into_given_axes(result: ove.Evaluation) -> None:
    figure = matplotlib.figure.Figure()
    axes, other = figure.subplots(1, 2)
    assert result.plot(axes) is figure
    assert axes.get_title() == "Distribution of the return"
    assert not other.has_data()
