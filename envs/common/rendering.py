"""Figures, colors and text bars for `render`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE = "#3168bd"
GREEN = "#58a66e"
RED = "#d1495b"
LIGHT_GRAY = "#c8ccd4"


def rgb(color: str) -> NDArray[np.uint8]:
    """Red, green and blue of a color ``"#rrggbb"``, (3,)."""
    return np.frombuffer(bytes.fromhex(color[1:]), dtype=np.uint8)


def text_bar(value: float, largest: float, width: int) -> str:
    """Horizontal bar of at most `width` characters, padded to `width`."""
    return f"{'#' * min(round(width * value / largest), width):<{width}}"


def new_figure(width: float, height: float) -> Figure:
    """Empty figure, in inches of 100 pixels, that does not use pyplot's global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def hide_frame(axes: Axes) -> None:
    """Hide the upper and the right border of a plot."""
    axes.spines[["top", "right"]].set_visible(False)


def pixels(figure: Figure) -> NDArray[np.uint8]:
    """Image of the figure, (height, width, 3)."""
    canvas: Any = figure.canvas
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
