"""The squashing of SAC in single precision: which Gaussian draws give an executed action.

stable-baselines3 squashes a draw u to the float32 number a = tanh(u) and scales it to the bounds in
the arithmetic of the action space, ``y = low + 0.5 (a + 1) (high - low)``. Near a bound,
neighboring y are far apart in u, so that the density at y says little about the probability of y.
The exact probability is that of the interval of u that is rounded to y. All float32 numbers a with
this y form an interval, because the map is monotone; its edges lie midway to the neighboring
float32 numbers.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ove_sb3._validation import FloatArray, IntArray

_ONE = int(np.float32(1.0).view(np.int32))  # order number of 1


class Squashing:
    """The map from float32 numbers in [-1, 1] to the actions of a bounded Box.

    Parameters
    ----------
    space : gymnasium.spaces.Box
        All bounds finite.
    """

    def __init__(self, space: spaces.Box) -> None:
        self.low, self.high = space.low.ravel(), space.high.ravel()

    def scale(self, a: NDArray[np.float32], dimension: Any = slice(None)) -> NDArray[Any]:
        """Scale to the bounds, in the arithmetic of stable-baselines3.

        Parameters
        ----------
        a : ndarray of float32, (..., d) or (m,)
        dimension : index, optional
            Dimension of every entry, (m,); by default those of the last axis.
        """
        low, high = self.low[dimension], self.high[dimension]
        return np.asarray(low + (0.5 * (a + 1.0) * (high - low)))

    def edges(self, y: FloatArray, dimension: IntArray) -> tuple[FloatArray, FloatArray]:
        """Edges of the interval of tanh(u) that is executed as y, both (m,).

        Infinite bounds of u are edges of -1 and 1. The interval is empty (its edges are in reverse
        order) if no draw gives y.
        """
        first = self._first_at_least(y, dimension)
        last = self._first_at_least(np.nextafter(y, np.inf), dimension) - 1
        return self._edge_below(first), self._edge_below(last + 1)

    @cached_property
    def dimensions(self) -> IntArray:
        """Number of every dimension, (d,)."""
        return np.arange(self.low.size)

    def edge_at_least(self, y: FloatArray) -> FloatArray:
        """Smallest tanh(u) that is executed as y or more, for every dimension, (d,)."""
        return self._edge_below(self._first_at_least(y, self.dimensions))

    def edge_at_most(self, y: FloatArray) -> FloatArray:
        """Largest tanh(u) that is executed as y or less, for every dimension, (d,)."""
        return self._edge_below(self._first_at_least(np.nextafter(y, np.inf), self.dimensions))

    def _first_at_least(self, y: FloatArray, dimension: IntArray) -> IntArray:
        """Order number of the smallest a that is scaled to y or more; that after 1 if none is."""
        low = np.full(y.shape, -_ONE)
        high = np.full(y.shape, _ONE + 1)
        while (low < high).any():
            middle = (low + high) // 2
            reached = self.scale(_number(np.minimum(middle, _ONE)), dimension) >= y
            reached |= middle > _ONE
            high = np.where(reached, middle, high)
            low = np.where(reached, low, np.minimum(middle + 1, high))
        return low

    def _edge_below(self, order: IntArray) -> FloatArray:
        """Midpoint between a float32 number and the one before it; -1 and 1 at the ends."""
        inside = np.clip(order, 1 - _ONE, _ONE)
        middle = 0.5 * (_number(inside).astype(np.float64) + _number(inside - 1))
        return np.where(order <= -_ONE, -1.0, np.where(order > _ONE, 1.0, middle))


def _number(order: IntArray) -> NDArray[np.float32]:
    """Float32 number with a given order number: neighbors have consecutive ones, 0 has 0."""
    magnitude = np.abs(order).astype(np.uint32)
    sign = np.where(order < 0, np.uint32(0x80000000), np.uint32(0))
    return (magnitude | sign).view(np.float32)
