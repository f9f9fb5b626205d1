"""The figure of an evaluation, drawn by matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.errors import InvalidInputError

from .numbers import count, percent
from .shapes import (
    BLUE,
    ORANGE,
    SKY,
    Bar,
    concentration,
    distribution_chart,
    location_results,
    quantity_chart,
    return_extent,
)
from .views import EvaluationView, QuantityView

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLES = {"main": (BLUE, 5.0), "approximate": (SKY, 2.5)}
_ROW = 0.55  # inches


def evaluation_figure(result: EvaluationView, ax: Axes | None = None) -> Figure:
    """Distribution function of the return, intervals of every quantity, concentration of weights.

    Without the importance weights, the intervals only. No global state of pyplot is touched: show
    or save the figure that is returned.

    Parameters
    ----------
    result : EvaluationView
    ax : Axes, optional
        Draw only the distribution function of the return, into these axes.
    """
    stats = result.stats
    if ax is not None:
        if stats is None:
            raise InvalidInputError(
                "`ax` must be None where the importance weights could not be computed, see the "
                "warnings: there is no distribution of the return to draw."
            )
        from ove_sb3._figure import figure_of

        _draw_distribution(ax, result, stats)
        return figure_of(ax)
    located = location_results(result)
    others = [one for one in result.quantities.values() if not one.quantity.is_location]
    left = ([("distribution", 4.2)] if stats is not None else []) + (
        [("locations", 1.1 + _ROW * len(located))] if located else []
    )
    right = [(one.quantity.name, 1.2) for one in others]
    right += [("weights", 2.6)] if stats is not None else []
    figure, axes = _panels([column for column in (left, right) if column])
    if stats is not None:
        _draw_distribution(axes["distribution"], result, stats)
        _draw_weights(axes["weights"], result, stats)
    if located:
        _draw_locations(axes["locations"], result, located)
    for one in others:
        _draw_intervals(axes[one.quantity.name], one)
    return figure


def _panels(columns: Sequence[Sequence[tuple[str, float]]]) -> tuple[Figure, dict[str, Any]]:
    """Figure with one or two columns of panels, from their names and heights in inches."""
    from ove_sb3._figure import NotebookFigure

    height = max(sum(size for _, size in column) for column in columns)
    width = 6.5 + 4.0 * (len(columns) - 1)
    figure = NotebookFigure(figsize=(width, max(3.0, height)), layout="constrained")
    outer = figure.add_gridspec(1, len(columns), width_ratios=[1.7, 1.0][: len(columns)])
    axes: dict[str, Any] = {}
    for k, column in enumerate(columns):
        sizes = [size for _, size in column]
        inner = outer[k].subgridspec(len(column), 1, height_ratios=sizes)
        axes.update((name, figure.add_subplot(inner[row])) for row, (name, _) in enumerate(column))
    return figure, axes


def distribution_figure(result: EvaluationView) -> Figure:
    """The distribution function of the return alone."""
    from ove_sb3._figure import NotebookFigure

    figure = NotebookFigure(figsize=(6.5, 4.2), layout="constrained")
    return evaluation_figure(result, figure.subplots())


def _draw_distribution(axes: Any, result: EvaluationView, stats: TrajectoryStatistics) -> None:
    chart = distribution_chart(result, stats)
    low, high = chart.extent
    if chart.band is not None:
        x, lower, upper = _over(chart.extent, *chart.band)
        axes.fill_between(
            x, lower, upper, step="post", color=BLUE, alpha=0.16, lw=0, label=chart.band_label
        )
    # The dashed line last: where the two coincide, both are seen.
    for (values, levels), style in (
        (chart.candidate, {"color": BLUE, "lw": 2.0, "label": "candidate, reweighted"}),
        (chart.behavior, {"color": ORANGE, "ls": "--", "lw": 1.5, "label": chart.behavior_label}),
    ):
        if values.size:
            axes.step(*_over(chart.extent, values, levels), where="post", **style)
    for mark in chart.marks:
        ends = sorted((min(max(mark.lower, low), high), min(max(mark.upper, low), high)))
        axes.plot(ends, [mark.level] * 2, color="black", lw=1.4, marker="|", ms=7)
        if math.isfinite(mark.estimate):
            axes.plot(mark.estimate, mark.level, "o", color="white", mec="black", mew=1.4, ms=5)
        right = mark.level < 0.5  # below a rising curve to the right, above it to the left
        axes.annotate(
            mark.label,
            (ends[1] if right else ends[0], mark.level),
            xytext=(5, -5) if right else (-5, 5),
            textcoords="offset points",
            ha="left" if right else "right",
            va="top" if right else "bottom",
            fontsize="small",
        )
    axes.set(
        title="Distribution of the return",
        xlabel=result.subject,
        ylabel="share of episodes at or below",
        xlim=chart.extent,
        ylim=(-0.06, 1.06),
    )
    axes.legend(frameon=False, loc="best", fontsize="small")
    plain(axes)


def _over(extent: tuple[float, float], x: FloatArray, *ys: FloatArray) -> tuple[FloatArray, ...]:
    """Steps continued to both ends of the extent; below the first they are 0."""
    ends = np.concatenate([[min(extent[0], x[0])], x, [max(extent[1], x[-1])]])
    return (ends, *(np.concatenate([[0.0], y, y[-1:]]) for y in ys))


def _draw_locations(axes: Any, result: EvaluationView, located: Sequence[QuantityView]) -> None:
    extent = return_extent(result)
    for row, one in enumerate(located):
        chart = quantity_chart(one)
        offsets = [-0.13, 0.17] if len(chart.bars) > 1 else [0.0]
        for offset, bar in zip(offsets, chart.bars, strict=True):
            name = f"{percent(one.interval.delta)} {bar.label}" if row == 0 else None
            draw_bar(axes, bar, row + offset, extent, name)
        axes.plot(
            [one.behavior] * 2,
            [row - 0.36, row + 0.36],
            color=ORANGE,
            ls="--",
            lw=1.5,
            label="behavior, as logged" if row == 0 else None,
        )
    axes.set_yticks(range(len(located)), [one.quantity.label for one in located])
    axes.set_ylim(len(located) - 0.45, -0.55)
    axes.set(title="Intervals on the axis of the return", xlabel=result.subject, xlim=extent)
    axes.get_figure().legend(
        *axes.get_legend_handles_labels(),
        frameon=False,
        loc="outside lower left",
        ncols=3,
        fontsize="small",
    )
    plain(axes)


def draw_bar(
    axes: Any, bar: Bar, height: float, extent: tuple[float, float], name: str | None = None
) -> None:
    """An interval and its estimate; a triangle where it continues beyond the extent."""
    color, width = _STYLES[bar.kind]
    axes.plot(
        [bar.lower, bar.upper],
        [height] * 2,
        color=color,
        lw=width,
        solid_capstyle="butt",
        label=name,
    )
    for beyond, place, marker in (
        (min(bar.lower, bar.upper) < extent[0], extent[0], "<"),
        (max(bar.lower, bar.upper) > extent[1], extent[1], ">"),
    ):
        if beyond:
            axes.plot(place, height, marker=marker, color=color, ms=7, clip_on=False)
    if math.isfinite(bar.estimate):
        axes.plot(bar.estimate, height, marker="o", color="white", mec=color, mew=1.8, ms=6)


def _draw_intervals(axes: Any, result: QuantityView) -> None:
    chart = quantity_chart(result)
    labels = []
    for height, bar in enumerate(reversed(chart.bars)):
        draw_bar(axes, bar, height, (-math.inf, math.inf))
        labels.append(f"{percent(result.interval.delta)}\n{bar.label}")
    axes.axvline(chart.behavior, color=ORANGE, ls="--", lw=1.5, zorder=1)
    axes.set_yticks(range(len(labels)), labels, fontsize="small")
    axes.set_ylim(-0.6, len(labels) - 0.4)
    axes.margins(x=0.08)
    axes.set_title(chart.title[0].upper() + chart.title[1:], fontsize="medium")
    plain(axes)


def _draw_weights(axes: Any, result: EvaluationView, stats: TrajectoryStatistics) -> None:
    share, carried = concentration(stats.weights)
    axes.plot([0, 1], [0, 1], color="0.6", ls=":", lw=1.2, label="all weights equal")
    axes.plot(share, carried, color=BLUE, lw=2, label="this log")
    axes.set(
        xlabel="share of episodes, heaviest first",
        ylabel="share of the weight",
        xlim=(0, 1),
        ylim=(0, 1.02),
    )
    axes.set_title("Concentration of the weight", fontsize="medium")
    ess = result.diagnostics.effective_sample_size
    axes.text(
        0.97,
        0.3,
        f"effective sample size\n{count(ess)} of {len(stats)}",
        ha="right",
        fontsize="small",
    )
    axes.legend(frameon=False, loc="lower right", fontsize="small")
    plain(axes)


def plain(axes: Any) -> None:
    """Leave out the frame at the top and at the right."""
    axes.spines[["top", "right"]].set_visible(False)
