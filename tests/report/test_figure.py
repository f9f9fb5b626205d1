"""The matplotlib figure shows the numbers of the result."""

from __future__ import annotations

import inspect
import io
import itertools
from typing import Any

import matplotlib.figure
import numpy as np
import pytest

import ove_sb3 as ove

from .conftest import log


def bars(axes: Any) -> list[list[float]]:
    """Coordinates of all lines of a panel."""
    return [np.asarray(line.get_xdata()).ravel().tolist() for line in axes.lines]


OTHERS = {"Variance of the return": "variance", "Standard deviation of the return": "std"}
LOCATIONS = ("mean", "quantile:0.05", "median", "quantile:0.95", "cvar:0.1")
TITLES = [
    "Distribution of the return",
    "Intervals on the axis of the return",
    "Variance of the return",
    "Standard deviation of the return",
    "Concentration of the weight",
]


def test_the_figure_shows_the_result(result: ove.Evaluation) -> None:
    figure = result.plot()
    panels = {axes.get_title(): axes for axes in figure.axes}
    assert [axes.get_title() for axes in figure.axes] == TITLES
    located = panels["Intervals on the axis of the return"]
    labels = [label.get_text() for label in located.get_yticklabels()]
    assert labels == ["mean", "5% quantile", "median", "95% quantile", "CVaR 10%"]
    shown = [(located, name) for name in LOCATIONS]
    for axes, name in [*shown, *((panels[title], name) for title, name in OTHERS.items())]:
        lines = bars(axes)
        assert len(result[name].intervals) == 2
        for interval in result[name].intervals:
            assert [interval.lower, interval.upper] in lines
        assert [result[name].estimate] in lines
        assert [result[name].behavior] * 2 in lines
    for title in OTHERS:
        labels = [label.get_text() for label in panels[title].get_yticklabels()]
        assert labels == ["95%\nbootstrap", "95%\nguaranteed"]
    text = panels["Concentration of the weight"].texts[0].get_text()
    assert f"of {result.n_trajectories}" in text


def test_the_distribution_functions_are_steps_of_the_weighted_returns(
    result: ove.Evaluation,
) -> None:
    axes = result.plot().axes[0]
    assert result.stats is not None
    drawn = {line.get_label(): line for line in axes.lines if len(line.get_xdata()) > 2}  # type: ignore[arg-type]
    returns = result.stats.returns
    for label, weights in (
        ("candidate, reweighted", result.stats.weights),
        ("behavior, as logged", np.ones_like(returns)),
    ):
        line = drawn[label]
        assert line.get_drawstyle() == "steps-post"
        for x, y in zip(*np.asarray(line.get_data(), dtype=np.float64), strict=True):
            assert y == pytest.approx(np.average(returns <= x, weights=weights))
    assert result.band is not None
    (band,) = axes.collections
    assert band.get_label() == "95% guaranteed band"
    corners = np.asarray(band.get_paths()[0].vertices)
    for x, y in corners:
        assert y in np.ravel([result.band.at(x), result.band.at(x - 1e-9)])
    assert set(result.band.levels) <= set(corners[:, 1])
    # Marks: the quantiles at the height of their level.
    marks = [line for line in axes.lines if len(set(line.get_ydata())) == 1]  # type: ignore[arg-type]
    for name, level in (("quantile:0.05", 0.05), ("median", 0.5), ("quantile:0.95", 0.95)):
        at_level = [line for line in marks if line.get_ydata()[0] == level]  # type: ignore[index]
        points = np.concatenate([np.ravel(line.get_xdata()) for line in at_level])
        assert result[name].estimate in points
        interval, (left, right) = result[name].interval, axes.get_xlim()
        assert {max(interval.lower, left), min(interval.upper, right)} <= set(points.tolist())


def test_one_quantity() -> None:
    data, candidates = log(100)
    result = ove.evaluate(data, candidates["near"], gamma=0.95, quantities=["std"])
    titles = [axes.get_title() for axes in result.plot().axes]
    assert titles == [TITLES[0], TITLES[3], TITLES[4]]


def test_the_candidate_is_not_drawn_where_there_is_no_estimate(
    comparison: ove.Comparison, no_support: ove.Evaluation
) -> None:
    for shown in (comparison["far"], no_support):
        labels = [line.get_label() for line in shown.plot().axes[0].lines]
        assert "behavior, as logged" in labels
        assert "candidate, reweighted" not in labels


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
    assert [axes.get_title() for axes in figure.axes] == TITLES[1:4]
    lines = [line for axes in figure.axes for line in bars(axes)]
    for one in no_weights.quantities.values():
        low, high = one.interval.a_priori
        assert [low, high] in lines
        assert [one.behavior] * 2 in lines
    assert not any(line[0] == line[-1] and len(line) == 1 for line in lines)  # no estimate
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


def test_the_intervals_of_a_comparison(comparison: ove.Comparison) -> None:
    for quantity in (None, "mean"):
        name = quantity or comparison.rank_by
        (axes,) = comparison.plot(quantity=quantity).axes
        labels = [label.get_text() for label in axes.get_yticklabels()]
        assert labels == list(comparison.evaluations)
        drawn = bars(axes)
        for result in comparison.evaluations.values():
            interval = result[name].interval
            assert [interval.lower, interval.upper] in drawn
        assert axes.get_xlabel() == comparison["near"][name].quantity.title
    given = matplotlib.figure.Figure().subplots()
    assert comparison.plot(ax=given) is given.get_figure()
    assert given.lines
    with pytest.raises(ove.InvalidInputError, match="must be one that was evaluated"):
        comparison.plot(quantity="cvar:0.1")


def test_figures_show_themselves_in_notebooks(
    result: ove.Evaluation, comparison: ove.Comparison
) -> None:
    assert result.stats is not None
    sequence = ove.confidence_sequence(result.stats, "mean", reward_range="from_data")
    for figure in (result.plot(), comparison.plot(), sequence.plot()):
        assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [ove.Evaluation, ove.Comparison, ove.ConfidenceSequence])
def test_every_plot_takes_axes_and_returns_a_figure(kind: Any) -> None:
    parameters = inspect.signature(kind.plot).parameters
    assert list(parameters)[:2] == ["self", "ax"]
    assert parameters["ax"].default is None
    assert inspect.signature(kind.plot).return_annotation == "Figure"
