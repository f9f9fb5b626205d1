"""A figure of matplotlib that notebooks show without pyplot; imported where one is drawn."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class NotebookFigure(Figure):
    """A figure that does not belong to pyplot, and is shown as the result of a notebook's cell."""

    def _repr_png_(self) -> bytes:
        """Picture for a notebook."""
        picture = io.BytesIO()
        self.savefig(picture, format="png", dpi=100)
        return picture.getvalue()
