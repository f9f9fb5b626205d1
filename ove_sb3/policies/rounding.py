"""Rounding of Box actions: which real numbers are executed as the same floating-point action.

The executed action y is a rounded number, and its probability is that of the set of real numbers
that are rounded to it, its cell. Where a density changes within a cell, the density at y says
little about the probability of y. Gaussian actions are rounded to single precision, see
`FloatGrid`. A squashed Gaussian is rounded twice, see `SquashedGrid`: near a bound, neighboring y
are far apart in the Gaussian.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from typing_extensions import override

from ove_sb3._validation import FloatArray, IntArray

_ONE = int(np.float32(1.0).view(np.int32))  # order number of 1
_REACH = 8.0  # more than the rounding errors of the scaling, in spacings


class Grid(ABC):
    """Partition of the real line into the cells of the executed actions, in environment units."""

    @abstractmethod
    def cell(self, y: FloatArray, dimension: IntArray) -> tuple[FloatArray, FloatArray]:
        """Edges of the cells of actions `y` in these dimensions, all (m,).

        The cell that contains y, if no real number is rounded to y.
        """

    @abstractmethod
    def edge_above(self, y: FloatArray) -> FloatArray:
        """Supremum of the numbers executed as y or less, for every dimension, (d,)."""

    @abstractmethod
    def edge_below(self, y: FloatArray) -> FloatArray:
        """Infimum of the numbers executed as y or more, for every dimension, (d,)."""


class FloatGrid(Grid):
    """Rounding to the nearest floating-point number.

    Parameters
    ----------
    dtype : numpy dtype
    """

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)

    def round(self, x: FloatArray) -> FloatArray:
        """Nearest number of the grid, in float64."""
        return x.astype(self.dtype).astype(np.float64)

    @override
    def cell(self, y: FloatArray, dimension: IntArray) -> tuple[FloatArray, FloatArray]:
        number = y.astype(self.dtype)
        return self._midpoint(number, -np.inf), self._midpoint(number, np.inf)

    @override
    def edge_above(self, y: FloatArray) -> FloatArray:
        number = y.astype(self.dtype)
        return self._midpoint(np.where(number > y, self._next(number, -np.inf), number), np.inf)

    @override
    def edge_below(self, y: FloatArray) -> FloatArray:
        return -self.edge_above(-y)

    def _midpoint(self, number: NDArray[Any], direction: float) -> FloatArray:
        neighbor = self._next(number, direction)
        return 0.5 * (number.astype(np.float64) + neighbor.astype(np.float64))

    def _next(self, number: NDArray[Any], direction: float) -> NDArray[Any]:
        return np.asarray(np.nextafter(number, self.dtype.type(direction)))


class SquashedGrid(Grid):
    """Rounding of a squashed Gaussian in stable-baselines3.

    A draw u is squashed to the float32 number a = tanh(u), which is scaled to the bounds in the
    arithmetic of the action space, ``y = low + 0.5 (a + 1) (high - low)``. All a with the same y
    form an interval, because the map is monotone; the edges of the cell lie midway to the next a.

    Parameters
    ----------
    space : gymnasium.spaces.Box
        All bounds finite.
    spacing : ndarray, (d,)
        Upper bound on the distance of neighboring y.
    """

    def __init__(self, space: spaces.Box, spacing: FloatArray) -> None:
        self.low, self.high = space.low.ravel(), space.high.ravel()
        self._dimensions = np.arange(self.low.size)
        self._origin = self.low.astype(np.float64)
        self._half = 0.5 * (self.high.astype(np.float64) - self._origin)
        self._reach = _REACH * spacing / self._half

    def scale(self, a: NDArray[np.float32], dimension: Any = slice(None)) -> NDArray[Any]:
        """Scale from [-1, 1] to the bounds, in the arithmetic of stable-baselines3.

        Parameters
        ----------
        a : ndarray of float32, (..., d) or (m,)
        dimension : index, optional
            Dimension of every entry, (m,); by default those of the last axis.
        """
        low, high = self.low[dimension], self.high[dimension]
        return np.asarray(low + (0.5 * (a + 1.0) * (high - low)))

    @override
    def cell(self, y: FloatArray, dimension: IntArray) -> tuple[FloatArray, FloatArray]:
        first, after = self._first_and_after(y, dimension)
        missing = first == after  # no a is scaled to y, which lies between two that are
        if missing.any():
            at, upper, column = np.flatnonzero(missing), first[missing], dimension[missing]
            below = y[at] < self._edge(upper, column)
            nearest = _number(np.clip(upper - below, -_ONE, _ONE))
            executed = self.scale(nearest, column).astype(np.float64)
            first[at], after[at] = self._first_and_after(executed, column)
        return self._edge(first, dimension), self._edge(after, dimension)

    @override
    def edge_above(self, y: FloatArray) -> FloatArray:
        after = self._first_at_least(np.nextafter(y, np.inf), self._dimensions)
        return self._edge(after, self._dimensions)

    @override
    def edge_below(self, y: FloatArray) -> FloatArray:
        return self._edge(self._first_at_least(y, self._dimensions), self._dimensions)

    def _first_and_after(self, y: FloatArray, dimension: IntArray) -> tuple[IntArray, IntArray]:
        """Order numbers of the smallest a that are scaled to y or more, and to more than y."""
        both = np.concatenate([y, np.nextafter(y, np.inf)])  # one search takes half the time
        order = self._first_at_least(both, np.concatenate([dimension, dimension]))
        return order[: len(y)], order[len(y) :]

    def _first_at_least(self, y: FloatArray, dimension: IntArray) -> IntArray:
        """Order number of the smallest a that is scaled to y or more; that after 1 if none is."""
        reach = self._reach[dimension]
        unit = (y - self._origin[dimension]) / self._half[dimension] - 1.0
        low, high = _order(unit - reach), np.minimum(_order(unit + reach) + 1, _ONE + 1)
        while (low < high).any():
            middle = (low + high) // 2
            reached = self.scale(_number(np.minimum(middle, _ONE)), dimension) >= y
            reached |= middle > _ONE
            high = np.where(reached, middle, high)
            low = np.where(reached, low, np.minimum(middle + 1, high))
        return low

    def _edge(self, order: IntArray, dimension: IntArray) -> FloatArray:
        """Midpoint between the number a of this order and the one before, scaled; or the bounds."""
        inside = np.clip(order, 1 - _ONE, _ONE)
        middle = 0.5 * (_number(inside).astype(np.float64) + _number(inside - 1))
        unit = np.where(order <= -_ONE, -1.0, np.where(order > _ONE, 1.0, middle))
        return self._origin[dimension] + (unit + 1.0) * self._half[dimension]


def _number(order: IntArray) -> NDArray[np.float32]:
    """Float32 number with a given order number: neighbors have consecutive ones, 0 has 0."""
    magnitude = np.abs(order).astype(np.uint32)
    sign = np.where(order < 0, np.uint32(0x80000000), np.uint32(0))
    return (magnitude | sign).view(np.float32)


def _order(unit: FloatArray) -> IntArray:
    """Order number of the float32 number nearest to a number, which is clipped to [-1, 1]."""
    number = np.clip(unit, -1.0, 1.0).astype(np.float32)
    magnitude = np.abs(number).view(np.int32).astype(np.int64)
    return np.where(number < 0.0, -magnitude, magnitude)
