"""Conversion between actions in [-1, 1] and CR and CF."""

from __future__ import annotations

import numpy as np
from gymnasium.error import InvalidAction
from numpy.typing import ArrayLike

from ove_sb3.errors import InvalidInputError

from ..common.checks import check_limits
from ..common.types import FloatArray

_ROUNDING = 1e-6  # an action clipped in single precision may exceed 1 by this much


class Dosing:
    """Linear map between actions and (CR, CF).

    Parameters
    ----------
    cr_range, cf_range
        Limits of CR (g/U) and CF (mg/dL per U), positive.
    """

    def __init__(self, cr_range: tuple[float, float], cf_range: tuple[float, float]) -> None:
        limits = check_limits(cr_range, "cr_range"), check_limits(cf_range, "cf_range")
        self.ranges = np.array(limits)
        for name, (low, _) in zip(("cr_range", "cf_range"), limits, strict=True):
            if low <= 0:
                raise InvalidInputError(f"`{name}` must be positive, got lower limit {low:g}.")

    def ratios(self, actions: FloatArray) -> FloatArray:
        """CR and CF of actions in [-1, 1], (n, 2)."""
        low, high = self.ranges.T
        return np.asarray(low + 0.5 * (actions + 1.0) * (high - low))

    def action(self, cr: float, cf: float) -> FloatArray:
        """Action that stands for CR and CF, (2,).

        Raises
        ------
        InvalidInputError
            If CR or CF is outside its range.
        """
        low, high = self.ranges.T
        values = np.array([cr, cf], dtype=np.float64)
        for name, value, a, b in zip(("cr", "cf"), values, low, high, strict=True):
            if not a <= value <= b:
                raise InvalidInputError(
                    f"`{name}` must be in [{a:g}, {b:g}], got {value:g}. The limits are the "
                    f"environment's `{name}_range`."
                )
        return np.asarray(2.0 * (values - low) / (high - low) - 1.0)

    def half_range_action(self) -> FloatArray:
        """Action that stands for half the width of each range, (2,); may be outside [-1, 1]."""
        low, high = self.ranges.T
        return np.asarray(2.0 * (0.5 * (high - low) - low) / (high - low) - 1.0)


def check_actions(actions: ArrayLike, n: int, clip: bool) -> FloatArray:
    """Return `actions` as numbers in [-1, 1] of shape (n, 2).

    Raises
    ------
    gymnasium.error.InvalidAction
        If the shape is wrong, an entry is not finite, or an entry is outside [-1, 1] and `clip` is
        False.
    """
    array = np.asarray(actions)
    if array.shape != (n, 2) or array.dtype.kind not in "fiu":
        raise InvalidAction(
            "an action must be two numbers, for CR and CF, so `actions` of shape "
            f"{(n, 2)}; got {array.dtype} of shape {array.shape}."
        )
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0, 0])
        raise InvalidAction(f"an action must be finite, got {array[row]} in row {row}.")
    if not clip and (abs(array) > 1.0 + _ROUNDING).any():
        row = int(np.argwhere(abs(array) > 1.0 + _ROUNDING)[0, 0])
        raise InvalidAction(
            f"an action must lie in [-1, 1], which spans the ranges of CR and CF; got {array[row]} "
            f"in row {row}. Clip it, or create the environment with clip_actions=True."
        )
    return np.asarray(np.clip(array, -1.0, 1.0))
