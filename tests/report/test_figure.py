"""The matplotlib figure shows the numbers of the result."""

from __future__ import annotations

import builtins
import io
from typing import Any

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.report.shapes import histogram


def test_the_figure_shows_the_result(result: ove.Evaluation) -> None:
    figure = result.plot()
    returns, mean, weights, variance = figure.axes
    shape = histogram(result.stats)
    drawn = returns.patches[-1].get_data()  # type: ignore[attr-defined]
    np.testing.assert_array_equal(drawn.values, shape.candidate)
    for axes, intervals, value in (
        (mean, result.mean_intervals, result.mean),
        (variance, result.intervals, result.variance),
    ):
        lines = [np.asarray(line.get_xdata()).ravel().tolist() for line in axes.lines]
        for interval in intervals.values():
            assert [interval.lower, interval.upper] in lines
        assert [value] in lines
    assert f"of {result.n_trajectories}" in weights.texts[0].get_text()


def test_it_can_be_drawn(
    result: ove.Evaluation, comparison: ove.Comparison, blind: ove.Evaluation
) -> None:
    for each in (result, comparison["far"], blind):
        picture = io.BytesIO()
        each.plot().savefig(picture)
        assert picture.tell() > 10_000


def test_without_matplotlib(result: ove.Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ove.InvalidInputError, match=r"pip install 'ove-sb3\[plot\]'"):
        result.plot()
