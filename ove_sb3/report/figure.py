"""The figure of an evaluation, drawn by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ove_sb3.core.results import Interval
from ove_sb3.errors import InvalidInputError
from ove_sb3.evaluation.text import count, percent

from .shapes import BLUE, ORANGE, SKY, concentration, histogram

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ove_sb3.evaluation.result import Evaluation


def evaluation_figure(result: Evaluation) -> Figure:
    """Distribution of the return, intervals of mean and variance, concentration of the weight.

    No global state of pyplot is touched: show or save the figure that is returned.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InvalidInputError(
            "`plot` needs matplotlib, which is not installed. Install it: pip install "
            "'ove-sb3[plot]'."
        ) from error
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    axes = figure.subplot_mosaic(
        [["returns", "mean", "weights"], ["returns", "variance", "weights"]],
        width_ratios=[1.2, 1.2, 1],
    )
    _draw_returns(axes["returns"], result)
    _draw_intervals(axes["mean"], "mean", result.mean, result.mean_intervals, result.behavior_mean)
    _draw_intervals(
        axes["variance"], "variance", result.variance, result.intervals, result.behavior_variance
    )
    _draw_weights(axes["weights"], result)
    for each in axes.values():
        each.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_returns(axes: Any, result: Evaluation) -> None:
    shape = histogram(result.stats)
    axes.stairs(shape.behavior, shape.edges, fill=True, color=ORANGE, alpha=0.35)
    axes.stairs(shape.behavior, shape.edges, color=ORANGE, label="behavior, as logged", ls="--")
    axes.stairs(shape.candidate, shape.edges, color=BLUE, lw=2, label="candidate, reweighted")
    axes.set(title="Distribution of the return", xlabel="return", ylabel="share of episodes")
    axes.set_ylim(bottom=0, top=1.3 * max(shape.behavior.max(), shape.candidate.max()))
    axes.legend(frameon=False, loc="upper left", fontsize="small")


def _draw_intervals(
    axes: Any, name: str, value: float, intervals: dict[str, Interval], logged: float
) -> None:
    styles = {"guaranteed": (BLUE, 5.0), "bootstrap": (SKY, 2.5)}
    kinds = list(intervals)
    for height, kind in enumerate(reversed(kinds)):
        interval = intervals[kind]
        color, width = styles[kind]
        ends = [interval.lower, interval.upper]
        axes.plot(ends, [height, height], color=color, lw=width, solid_capstyle="butt")
        axes.plot(value, height, marker="o", color="white", mec=color, mew=1.8, ms=7)
    axes.axvline(logged, color=ORANGE, ls="--", lw=1.2)
    labels = [f"{percent(intervals[kind].delta)}\n{kind}" for kind in reversed(kinds)]
    axes.set_yticks(range(len(kinds)), labels, fontsize="small")
    axes.set_ylim(-0.6, len(kinds) - 0.4)
    axes.margins(x=0.08)
    axes.set_title(f"{name.capitalize()} of the return (dashed: behavior)", fontsize="medium")


def _draw_weights(axes: Any, result: Evaluation) -> None:
    share, carried = concentration(result.stats.weights)
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
        f"effective sample size\n{count(ess)} of {result.n_trajectories}",
        ha="right",
        fontsize="small",
    )
    axes.legend(frameon=False, loc="lower right", fontsize="small")
