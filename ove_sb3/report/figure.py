"""The figure of an evaluation, drawn by matplotlib."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.errors import InvalidInputError

from .numbers import count, percent
from .shapes import BLUE, ORANGE, SKY, concentration, histogram, quantity_chart
from .views import EvaluationView, QuantityView

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLES = {"main": (BLUE, 5.0), "approximate": (SKY, 2.5)}


def evaluation_figure(result: EvaluationView, ax: Axes | None = None) -> Figure:
    """Distribution of the return, intervals of every quantity, concentration of the weights.

    Without the importance weights, the intervals only. No global state of pyplot is touched: show
    or save the figure that is returned.

    Parameters
    ----------
    result : EvaluationView
    ax : Axes, optional
        Draw only the distribution of the return, into these axes.
    """
    from matplotlib.figure import Figure

    stats = result.stats
    if ax is not None:
        if stats is None:
            raise InvalidInputError(
                "`ax` must be None where the importance weights could not be computed, see the "
                "warnings: there is no distribution of the return to draw."
            )
        _draw_returns(ax, stats)
        return _figure_of(ax)
    names = list(result.quantities)
    sides = (["(returns)"], ["(weights)"]) if stats is not None else ([], [])
    ratios = [1.2, 1.2, 1.0] if stats is not None else [1.0]
    figure = Figure(
        figsize=(3 + 8 / 3 * len(ratios), max(3.8, 1.5 * len(names))), layout="constrained"
    )
    axes = figure.subplot_mosaic(
        [[*sides[0], name, *sides[1]] for name in names], width_ratios=ratios
    )
    for name in names:
        _draw_intervals(axes[name], result.quantities[name])
    axes[names[-1]].set_xlabel("dashed: behavior, as logged")
    if stats is not None:
        _draw_returns(axes["(returns)"], stats)
        _draw_weights(axes["(weights)"], result, stats)
    for panel in axes.values():
        panel.spines[["top", "right"]].set_visible(False)
    return figure


def _figure_of(ax: Axes) -> Figure:
    from matplotlib.figure import Figure

    figure = ax.get_figure()
    if not isinstance(figure, Figure):
        raise InvalidInputError(f"`ax` must belong to a figure, got {figure!r}.")
    return figure


def _draw_returns(axes: Any, stats: TrajectoryStatistics) -> None:
    shape = histogram(stats)
    axes.stairs(shape.behavior, shape.edges, fill=True, color=ORANGE, alpha=0.35)
    axes.stairs(shape.behavior, shape.edges, color=ORANGE, label="behavior, as logged", ls="--")
    axes.stairs(shape.candidate, shape.edges, color=BLUE, lw=2, label="candidate, reweighted")
    axes.set(title="Distribution of the return", xlabel="return", ylabel="share of episodes")
    axes.set_ylim(bottom=0, top=1.3 * max(shape.behavior.max(), shape.candidate.max()))
    axes.legend(frameon=False, loc="upper left", fontsize="small")


def _draw_intervals(axes: Any, result: QuantityView) -> None:
    chart = quantity_chart(result)
    labels = []
    for height, bar in enumerate(reversed(chart.bars)):
        color, width = _STYLES[bar.kind]
        axes.plot(
            [bar.lower, bar.upper], [height, height], color=color, lw=width, solid_capstyle="butt"
        )
        if math.isfinite(bar.estimate):
            axes.plot(bar.estimate, height, marker="o", color="white", mec=color, mew=1.8, ms=7)
        labels.append(f"{percent(result.interval.delta)}\n{bar.label}")
    axes.axvline(chart.behavior, color=ORANGE, ls="--", lw=1.2, zorder=1)
    axes.set_yticks(range(len(labels)), labels, fontsize="small")
    axes.set_ylim(-0.6, len(labels) - 0.4)
    axes.margins(x=0.08)
    axes.set_title(chart.title[0].upper() + chart.title[1:], fontsize="medium")


def _draw_weights(axes: Any, result: EvaluationView, stats: TrajectoryStatistics) -> None:
    share, carried = concentration(stats.weights)
    axes.plot([0, 1], [0, 1], color="0.6", ls=":", lw=1.2, label="all weights equal")
    axes.plot(share, carried, color=BLUE, lw=2, label="this log")
    axes.set(
        title="Concentration of the weight",
        xlabel="share of episodes, heaviest first",
        ylabel="share of the weight",
        xlim=(0, 1),
        ylim=(0, 1.02),
    )
    ess = result.diagnostics.effective_sample_size
    axes.text(
        0.97,
        0.2,
        f"effective sample size\n{count(ess)} of {len(stats)}",
        ha="right",
        fontsize="small",
    )
    axes.legend(frameon=False, loc="lower right", fontsize="small")
