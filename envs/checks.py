"""Checks of arguments; a message names the argument, the rule, the value and the remedy."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import InvalidAction
from numpy.typing import ArrayLike

from .streams import FloatArray, IntArray


def check_number(name: str, value: float, low: float = -math.inf, high: float = math.inf) -> float:
    """`value` as a float, finite and within [low, high]."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and low <= number <= high):
        bounds = f" in [{low:g}, {high:g}]" if math.isfinite(low) or math.isfinite(high) else ""
        raise ValueError(f"`{name}` must be a finite number{bounds}, got {value!r}.")
    return number


def check_count(name: str, value: int, low: int = 1) -> int:
    """`value` as an int of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low:
        raise ValueError(f"`{name}` must be an integer of at least {low}, got {value!r}.")
    return int(value)


def check_range(name: str, value: tuple[float, float]) -> tuple[float, float]:
    """`value` as a pair of finite numbers, lower < upper."""
    try:
        low, high = (float(x) for x in value)
    except (TypeError, ValueError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"`{name}` must be two finite numbers, lower < upper, got {value!r}.")
    return low, high


def check_finite_array(name: str, value: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """`value` broadcast to `shape`, all entries finite; a copy of its own."""
    try:
        array = np.array(np.broadcast_to(np.asarray(value, dtype=np.float64), shape))
    except (TypeError, ValueError):
        raise ValueError(
            f"`{name}` must be numbers of shape {shape}, or broadcast to it, "
            f"got shape {np.shape(value)}."
        ) from None
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"`{name}` must be finite, got {array[place]} at {place}.")
    return array


def check_probabilities(name: str, value: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """`value` as probabilities over the last axis of an array of exactly this shape."""
    array = np.asarray(value, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"`{name}` must have shape {shape}, got {array.shape}.")
    total = array.sum(axis=-1)
    if not ((array >= 0).all() and np.allclose(total, 1.0, rtol=0.0, atol=1e-6)):
        raise ValueError(
            f"`{name}` must hold probabilities: entries >= 0 that sum to 1 over the last axis, got "
            f"smallest entry {array.min():g} and sums between {total.min():g} and {total.max():g}."
        )
    return np.asarray(array / total[..., np.newaxis])


def check_discrete_action(action: Any, n_actions: int) -> int:
    """`action` as an int in [0, n_actions)."""
    array = np.asarray(action)
    if array.size != 1 or array.dtype.kind not in "iu" or not 0 <= int(array.item()) < n_actions:
        raise InvalidAction(
            f"`action` must be one integer in [0, {n_actions - 1}], got {action!r}. "
            "Use `env.action_space` to see which actions exist."
        )
    return int(array.item())


def check_discrete_actions(actions: ArrayLike, n_actions: int, shape: tuple[int, ...]) -> IntArray:
    """`actions` as integers in [0, n_actions) of exactly this shape."""
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
    """`render_mode` if it is one of the environment's."""
    modes = env.metadata["render_modes"]
    if render_mode is not None and render_mode not in modes:
        raise ValueError(f"`render_mode` must be None or one of {modes}, got {render_mode!r}.")
    return render_mode
