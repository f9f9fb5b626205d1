"""Figures of matplotlib that notebooks show without pyplot; imported where one is drawn."""

from __future__ import annotations

import io

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .errors import InvalidInputError


class NotebookFigure(Figure):
    """A figure that does not belong to pyplot, and is shown as the result of a notebook's cell."""

    def _repr_png_(self) -> bytes:
        """Picture for a notebook."""
        picture = io.BytesIO()
        self.savefig(picture, format="png", dpi=100)
        return picture.getvalue()


def figure_of(ax: Axes) -> Figure:
    """The figure that axes belong to."""
    figure = ax.get_figure()
    if not isinstance(figure, Figure):
        raise InvalidInputError(f"`ax` must belong to a figure, got {figure!r}.")
    return figure
