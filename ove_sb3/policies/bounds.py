"""Bounds of a Box of actions, its units and the rounding of actions in it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ove_sb3._validation import FloatArray
from ove_sb3.errors import InvalidInputError

from .rounding import FloatGrid, SquashedGrid

_MARGIN = 4.0  # spacings of neighboring actions


class BoxBounds:
    """Bounds of a Box, flattened, as they are executed.

    Attributes
    ----------
    low, high : ndarray, (d,)
        Bounds, possibly infinite.
    low_edge, high_edge : ndarray, (d,)
        Bounds, rounded as different policies round them. Actions at or beyond lie on the bound.
    margin : ndarray, (d,)
        Actions beyond the bounds are accepted up to this rounding error.
    dtype : numpy dtype
        Precision of the executed actions.
    """

    def __init__(self, space: spaces.Box) -> None:
        dtype = np.dtype(space.dtype or np.float32)
        if dtype.kind != "f":
            raise InvalidInputError(
                f"`action_space` must be a Box of floating-point numbers, got {space}. Use "
                "MultiDiscrete for integer actions."
            )
        self.space = space
        self.low = space.low.astype(np.float64).ravel()
        self.high = space.high.astype(np.float64).ravel()
        self.bounded = bool(np.isfinite(self.low).all() and np.isfinite(self.high).all())
        # stable-baselines3 draws in single precision, and executes that or the precision of a Box.
        self.float_grid = FloatGrid(np.float32)
        self.dtype = np.result_type(dtype, np.float32)
        half = np.where(np.isfinite(self.high - self.low), 0.5 * (self.high - self.low), 0.0)
        largest = np.maximum(
            *(np.where(np.isfinite(b), abs(b), 0.0) for b in (self.low, self.high))
        )
        finest = half * np.finfo(np.float32).eps  # of tanh, scaled
        self._spacing = np.maximum(self._float_spacing(largest), finest)
        exact = self.dtype != self.float_grid.dtype  # bounds are not rounded further
        self.margin = _MARGIN * (
            np.maximum(np.spacing(largest), finest) if exact else self._spacing
        )
        self.low_edge = np.maximum(self.low, self.float_grid.round(self.low))
        # A squashed action of 1 is executed as low + (high - low), in the precision of the space.
        scaled = (space.low + (space.high - space.low)).ravel() if self.bounded else self.high
        self.high_edge = np.minimum(np.minimum(self.high, scaled), self.float_grid.round(self.high))
        if (self.low + self.margin >= self.high - self.margin).any():
            raise InvalidInputError(
                f"`action_space` must have bounds that its dtype can tell apart, got {space}. "
                "Rescale the actions."
            )

    @cached_property
    def half_width(self) -> FloatArray:
        """Half of high - low, (d,)."""
        return 0.5 * (self.high - self.low)

    @cached_property
    def squashed_grid(self) -> SquashedGrid:
        """Rounding of squashed Gaussians; all bounds are finite."""
        return SquashedGrid(self.space, self._spacing)

    def equals(self, other: BoxBounds) -> bool:
        """Whether all numbers are the same; Box itself ignores small differences."""
        same = np.array_equal(self.low, other.low) and np.array_equal(self.high, other.high)
        return same and self.dtype == other.dtype

    def spacing(self, x: FloatArray) -> FloatArray:
        """Upper bound on the distance of neighboring actions near x, (n, d) -> (n, d) or (d,)."""
        return self._spacing if self.bounded else self._float_spacing(x)

    def _float_spacing(self, x: FloatArray) -> FloatArray:
        rounded = np.abs(x).astype(self.float_grid.dtype)
        return np.asarray(np.spacing(rounded), dtype=np.float64)

    def to_unit(self, x: FloatArray, dimension: Any = slice(None)) -> FloatArray:
        """From environment units to [-1, 1]; by default the last axis holds the dimensions."""
        return np.asarray((x - self.low[dimension]) / self.half_width[dimension] - 1.0)

    def from_unit(self, y: NDArray[Any]) -> FloatArray:
        """From [-1, 1] to environment units."""
        return self.low + (y.astype(np.float64) + 1.0) * self.half_width
