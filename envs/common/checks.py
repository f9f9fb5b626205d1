"""Argument checks for environments, on top of those in `ove_sb3._validation`."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import InvalidAction
from numpy.typing import ArrayLike

from ove_sb3._validation import check_real
from ove_sb3.errors import InvalidInputError

from .types import FloatArray, IntArray


def check_finite(value: float, name: str, low: float = -math.inf, high: float = math.inf) -> float:
    """Return `value` as a finite float in [low, high]."""
    number = check_real(value, name, low, high)
    if not math.isfinite(number):
        raise InvalidInputError(f"`{name}` must be finite, got {value!r}.")
    return number


def check_limits(value: tuple[float, float], name: str) -> tuple[float, float]:
    """Return `value` as a pair of finite numbers (lower, upper) with lower < upper."""
    try:
        low, high = (float(x) for x in value)
    except (TypeError, ValueError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInputError(
            f"`{name}` must be two finite numbers, lower < upper, got {value!r}."
        )
    return low, high


def check_finite_array(value: ArrayLike, name: str, shape: tuple[int, ...]) -> FloatArray:
    """Return a copy of `value` broadcast to `shape`, with all entries finite."""
    try:
        array = np.array(np.broadcast_to(np.asarray(value, dtype=np.float64), shape))
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"`{name}` must hold numbers and broadcast to shape {shape}, "
            f"got shape {np.shape(value)}."
        ) from None
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InvalidInputError(f"`{name}` must be finite, got {array[place]} at {place}.")
    return array


def check_probabilities(value: ArrayLike, name: str, shape: tuple[int, ...]) -> FloatArray:
    """Return `value` as an array of this shape with probabilities along the last axis."""
    array = np.asarray(value, dtype=np.float64)
    if array.shape != shape:
        raise InvalidInputError(f"`{name}` must have shape {shape}, got {array.shape}.")
    total = array.sum(axis=-1)
    if not ((array >= 0).all() and np.allclose(total, 1.0, rtol=0.0, atol=1e-6)):
        raise InvalidInputError(
            f"`{name}` must hold probabilities: entries >= 0 that sum to 1 over the last axis, got "
            f"smallest entry {array.min():g} and sums between {total.min():g} and {total.max():g}."
        )
    return np.asarray(array / total[..., np.newaxis])


def check_discrete_action(action: Any, n_actions: int) -> int:
    """Return `action` as an int in [0, n_actions)."""
    array = np.asarray(action)
    if array.size != 1 or array.dtype.kind not in "iu" or not 0 <= int(array.item()) < n_actions:
        raise InvalidAction(
            f"`action` must be one integer in [0, {n_actions - 1}], got {action!r}. "
            "See `env.action_space` for the valid actions."
        )
    return int(array.item())


def check_discrete_actions(actions: ArrayLike, n_actions: int, shape: tuple[int, ...]) -> IntArray:
    """Return `actions` as integers in [0, n_actions) of this shape."""
    array = np.asarray(actions)
    if array.shape != shape or array.dtype.kind not in "iu":
        raise InvalidAction(
            f"`actions` must be integers of shape {shape}, got {array.dtype} of shape "
            f"{array.shape}."
        )
    if array.size and (array.min() < 0 or array.max() >= n_actions):
        raise InvalidAction(
            f"`actions` must lie in [0, {n_actions - 1}], got values from {array.min()} to "
            f"{array.max()}."
        )
    return array.astype(np.int64)


def check_render_mode(env: gym.Env[Any, Any], render_mode: str | None) -> str | None:
    """Return `render_mode` if the environment supports it."""
    modes = env.metadata["render_modes"]
    if render_mode is not None and render_mode not in modes:
        raise InvalidInputError(
            f"`render_mode` must be None or one of {modes}, got {render_mode!r}."
        )
    return render_mode
