"""Dynamics and rewards of a gridworld."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ove_sb3._validation import check_integer
from ove_sb3.errors import InvalidInputError

from ..common.checks import check_finite, check_probabilities
from ..common.types import FloatArray, IntArray

#: Change of row and column of each action: up, down, left, right and the four diagonals.
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
N_ACTIONS = len(MOVES)


class Grid(NamedTuple):
    """Gridworld as compiled code reads it.

    Attributes
    ----------
    destinations
        Cell reached by each move, (n_states, 8).
    starts
        Initial cells, equally likely, (n_starts,).
    goal
        Goal cell.
    slip
        Probability that the action is replaced by a random move.
    moves_per_slip
        8 / slip, or 0 without slip.
    step_reward, goal_reward, horizon
        As in `GridworldEnv`.
    """

    destinations: IntArray
    starts: IntArray
    goal: int
    slip: float
    moves_per_slip: float
    step_reward: float
    goal_reward: float
    horizon: int


def build_grid(
    shape: tuple[int, int],
    slip: float,
    step_reward: float,
    goal_reward: float,
    start: tuple[int, int] | None,
    goal: tuple[int, int] | None,
    horizon: int,
) -> Grid:
    """Grid for the arguments of `GridworldEnv`; `shape` is already checked."""
    rows, columns = shape
    goal_cell = _cell((rows - 1, columns - 1) if goal is None else goal, "goal", shape)
    slip = check_finite(slip, "slip", 0.0, 1.0)
    return Grid(
        destinations=_destinations(rows, columns),
        starts=_starts(start, goal_cell, shape),
        goal=goal_cell,
        slip=slip,
        moves_per_slip=N_ACTIONS / slip if slip else 0.0,
        step_reward=check_finite(step_reward, "step_reward"),
        goal_reward=check_finite(goal_reward, "goal_reward"),
        horizon=check_integer(horizon, "horizon", 1),
    )


def check_shape(shape: tuple[int, int]) -> tuple[int, int]:
    """Return `shape` as (rows, columns) with at least two cells."""
    try:
        rows, columns = shape
    except (TypeError, ValueError):
        raise InvalidInputError(f"`shape` must be (rows, columns), got {shape!r}.") from None
    rows, columns = check_integer(rows, "shape[0]", 1), check_integer(columns, "shape[1]", 1)
    if rows * columns < 2:
        raise InvalidInputError(f"`shape` must have room for a start and a goal, got {shape!r}.")
    return rows, columns


def policy_table(grid: Grid, policy: ArrayLike) -> FloatArray:
    """Return `policy` as checked action probabilities, (horizon or 1, n_states, 8)."""
    table = np.asarray(policy, dtype=np.float64)
    shape = (grid.destinations.shape[0], N_ACTIONS)
    if table.ndim == 3:
        return check_probabilities(table, "policy", (grid.horizon, *shape))
    return check_probabilities(table, "policy", shape)[np.newaxis]


def _starts(start: tuple[int, int] | None, goal: int, shape: tuple[int, int]) -> IntArray:
    if start is None:
        cells = np.arange(shape[0] * shape[1])
        return np.asarray(cells[cells != goal], dtype=np.int64)
    cell = _cell(start, "start", shape)
    if cell == goal:
        raise InvalidInputError(f"`start` must differ from `goal`, got {start!r} for both.")
    return np.array([cell], dtype=np.int64)


def _cell(place: tuple[int, int], name: str, shape: tuple[int, int]) -> int:
    """Index of the cell at (row, column)."""
    rows, columns = shape
    cells = np.asarray(place)
    if (
        cells.shape != (2,)
        or cells.dtype.kind not in "iu"
        or not (0 <= cells[0] < rows and 0 <= cells[1] < columns)
    ):
        raise InvalidInputError(
            f"`{name}` must be a (row, column) inside the {rows} x {columns} grid, counted "
            f"from 0, got {place!r}."
        )
    return int(cells[0]) * columns + int(cells[1])


def _destinations(rows: int, columns: int) -> IntArray:
    """Cell reached by each move, (rows * columns, 8)."""
    row, column = np.divmod(np.arange(rows * columns), columns)
    to_row = row[:, np.newaxis] + np.array([move[0] for move in MOVES])
    to_column = column[:, np.newaxis] + np.array([move[1] for move in MOVES])
    inside = (to_row >= 0) & (to_row < rows) & (to_column >= 0) & (to_column < columns)
    stay = np.arange(rows * columns)[:, np.newaxis]
    return np.asarray(np.where(inside, to_row * columns + to_column, stay), dtype=np.int64)
