from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread

from ove_sb3.experiments import figures
from ove_sb3.experiments.runner import StudyResult, run_study
from ove_sb3.experiments.settings import RISK

from .small import BANDIT, SIZES, known_result


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    return run_study(BANDIT, SIZES, out=tmp_path_factory.mktemp("out"), progress=False)


def test_figures_are_written(result: StudyResult, tmp_path: Path) -> None:
    paths = figures.save(result, tmp_path)
    assert [path.name for path in paths] == ["figure_a.png", "figure_b.png", "figure_c.png"]
    for path in paths:
        image = imread(path)
        assert image.shape[0] > 500
        assert image.shape[1] > 1000
        assert image[..., :3].std() > 0.05  # something is drawn


def test_a_single_n_can_be_drawn(tmp_path: Path) -> None:
    assert len(figures.save(known_result(), tmp_path)) == 3


def test_bars_are_the_failure_rates() -> None:
    top = figures.figure_a(known_result()).axes[0]
    bars = {
        c.get_label(): c.patches[0].get_height() for c in top.containers if hasattr(c, "patches")
    }
    expected = {"CI +": 0.0, "CI −": 0.0, "Bootstrap +": 0.25, "Bootstrap −": 0.5}
    assert {name: bars[name] for name in expected} == expected
    assert any("δ = 0.05" in str(line.get_label()) for line in top.lines)


@pytest.mark.parametrize("draw", [figures.figure_a, figures.figure_b, figures.figure_c])
def test_labels_exist_and_legends_overlap_nothing(
    draw: Callable[[StudyResult], Figure], result: StudyResult
) -> None:
    figure = draw(result)
    FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    legends = [a.get_legend() for a in figure.axes if a.get_legend()] + figure.legends
    boxes = [legend.get_window_extent() for legend in legends if legend is not None]
    panels = [axes.get_window_extent() for axes in figure.axes]
    assert boxes
    for box in boxes:
        assert not any(box.overlaps(panel) for panel in panels)
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= figure.bbox.x1
    for axes in figure.axes:
        assert axes.get_ylabel()
    assert figure.axes[-1].get_xlabel() == "number of trajectories n"
    if draw is figures.figure_b:
        assert result.study.unit in figure.axes[0].get_ylabel()


def test_the_third_figure_shows_the_risk_quantities(result: StudyResult) -> None:
    figure = figures.figure_c(result)
    titles = [axes.get_title().split(":")[0] for axes in figure.axes]
    assert titles == ["5% quantile", "Median", "95% quantile", "CVaR 10%"]
    for axes, name in zip(figure.axes, RISK, strict=True):
        lines = {line.get_label(): line.get_ydata() for line in axes.lines}
        assert set(lines["truth"]) == {result.truth.risk[name]}
        betting = [cell["risk"][name]["bounds"]["betting"][1] for cell in result.cells]
        assert lines["betting (ours)"][0] == pytest.approx(np.mean(betting[::2]))
    known = figures.figure_c(known_result())
    expected = "Median: 0 lower and 0 upper of 4 bounds by betting miss"
    assert known.axes[1].get_title() == expected
