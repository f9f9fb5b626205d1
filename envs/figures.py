"""Figures drawn by matplotlib without touching pyplot's global state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.error import DependencyNotInstalled
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float, **layout: Any) -> Figure:
    """An empty figure, inches at 100 pixels each.

    Raises
    ------
    gymnasium.error.DependencyNotInstalled
        If matplotlib is missing.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise DependencyNotInstalled(
            'render_mode="rgb_array" needs matplotlib: pip install "ove-sb3[plot]"'
        ) from error
    figure = Figure(figsize=(width, height), dpi=100, layout="constrained", **layout)
    FigureCanvasAgg(figure)
    return figure


def pixels(figure: Figure) -> NDArray[np.uint8]:
    """The figure as an image, (height, width, 3)."""
    canvas: Any = figure.canvas
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
