"""Rendering of a gridworld as text and as an image, without matplotlib."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..common.rendering import BLUE, GREEN, LIGHT_GRAY, rgb

_CELL = 48  # pixels
_LINE = rgb(LIGHT_GRAY)
_FLOOR = rgb("#f6f7f9")
_GOAL = rgb(GREEN)
_AGENT = rgb(BLUE)


def text(shape: tuple[int, int], state: int, goal: int, time: int) -> str:
    """Grid in characters: A is the agent, G the goal, * the agent at the goal."""
    rows, columns = shape
    cells = ["."] * (rows * columns)
    cells[goal] = "G"
    if state >= 0:
        cells[state] = "*" if state == goal else "A"
    lines = [" ".join(cells[row * columns : (row + 1) * columns]) for row in range(rows)]
    return "\n".join([f"step {time}", *lines]) + "\n"


def image(shape: tuple[int, int], state: int, goal: int) -> NDArray[np.uint8]:
    """Green goal and round blue agent on the grid, (48 rows + 1, 48 columns + 1, 3)."""
    rows, columns = shape
    picture = np.empty((rows * _CELL + 1, columns * _CELL + 1, 3), dtype=np.uint8)
    picture[:] = _FLOOR
    inner = np.arange(4, _CELL - 3)
    row, column = divmod(goal, columns)
    picture[np.ix_(row * _CELL + inner, column * _CELL + inner)] = _GOAL
    if state >= 0:
        row, column = divmod(state, columns)
        _draw_disc(picture, (row + 0.5) * _CELL, (column + 0.5) * _CELL, 0.3 * _CELL)
    picture[::_CELL] = _LINE
    picture[:, ::_CELL] = _LINE
    return picture


def _draw_disc(picture: NDArray[np.uint8], row: float, column: float, radius: float) -> None:
    """Draw the agent as a disc with an antialiased edge."""
    rows, columns = np.ogrid[: picture.shape[0], : picture.shape[1]]
    distance = np.hypot(rows - row, columns - column)
    cover = np.clip(radius + 0.5 - distance, 0.0, 1.0)[..., np.newaxis]
    picture[:] = np.rint(cover * _AGENT + (1.0 - cover) * picture).astype(np.uint8)
