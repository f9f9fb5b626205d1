"""The figure of a comparison, drawn by matplotlib."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .figure import draw_bar, plain
from .numbers import label, percent
from .shapes import ORANGE, Bar
from .views import ComparisonView

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def comparison_figure(comparison: ComparisonView, quantity: str, ax: Axes | None = None) -> Figure:
    """Main intervals of one quantity, one below the other, in the order of the comparison.

    No global state of pyplot is touched: show or save the figure that is returned.

    Parameters
    ----------
    comparison : ComparisonView
    quantity : str
        Short name of the quantity.
    ax : Axes, optional
        Axes to draw into; by default those of a new figure.
    """
    from ove_sb3._figure import NotebookFigure, figure_of

    if ax is None:
        size = (6.5, 1.6 + 0.45 * len(comparison.evaluations))
        ax = NotebookFigure(figsize=size, layout="constrained").subplots()
    results = {name: result.quantities[quantity] for name, result in comparison.evaluations.items()}
    first = next(iter(results.values()))
    intervals = [one.interval for one in results.values()]
    confidence = f"{percent(first.interval.delta)} {label(*intervals)}"
    for row, (name, one) in enumerate(results.items()):
        bar = Bar(name, one.interval.lower, one.interval.upper, one.estimate, "main")
        draw_bar(ax, bar, row, (-math.inf, math.inf), confidence if row == 0 else None)
    ax.axvline(first.behavior, color=ORANGE, ls="--", lw=1.5, zorder=1, label="behavior, as logged")
    ax.set_yticks(range(len(results)), list(results))
    ax.set_ylim(len(results) - 0.4, -0.6)
    ax.margins(x=0.08)
    ax.set_xlabel(first.quantity.title)
    ax.set_title(f"{first.quantity.label[0].upper()}{first.quantity.label[1:]} by candidate")
    ax.legend(frameon=False, fontsize="small", loc="best")
    plain(ax)
    return figure_of(ax)
