"""Arrays of a log: one row per step or per episode, some of them dicts of arrays or absent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ove_sb3._validation import as_array
from ove_sb3.errors import InvalidInputError

EPISODE_COUNTS = ("overlaps", "begins")
"""Fields that hold a number per episode, which only some logs have."""

ARRAYS = (
    "observations",
    "actions",
    "log_probs",
    "rewards",
    "lengths",
    "terminated",
    "truncated",
    "action_masks",
    "final_observations",
    *EPISODE_COUNTS,
    "columns",
)


def map_rows(function: Callable[[NDArray[Any]], NDArray[Any]], rows: Any) -> Any:
    """Apply `function` to an array, to every array of a dict, or not at all to None."""
    if rows is None:
        return None
    if isinstance(rows, dict):
        return {name: function(array) for name, array in rows.items()}
    return function(rows)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """View that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def step_shapes(parts: Sequence[Any]) -> list[Any]:
    """Different shapes of a row of the parts: arrays, dicts of arrays, or None."""
    kinds = set(map(type, parts))  # the usual cases, for many parts
    if kinds == {np.ndarray}:
        return list({part.shape[1:]: None for part in parts})
    if kinds == {type(None)}:
        return [None]
    return [_step_shape(part) for part in parts]


def _step_shape(rows: Any) -> Any:
    if isinstance(rows, dict):
        return {name: array.shape[1:] for name, array in rows.items()}
    return None if rows is None else rows.shape[1:]


def concatenate_rows(parts: Sequence[Any]) -> Any:
    """Join arrays, dicts of arrays, or None, in order."""
    if parts[0] is None:
        return None
    if isinstance(parts[0], dict):
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return np.concatenate(parts)


def check_vector(flags: NDArray[np.bool_], name: str) -> NDArray[np.bool_]:
    """Flags of the episodes, if they have one dimension."""
    if flags.ndim != 1:
        raise InvalidInputError(
            f"`{name}` must be 1-dimensional, one entry per episode, got shape {flags.shape}."
        )
    return flags


def check_columns(columns: object, n_steps: int) -> dict[str, NDArray[Any]]:
    """Kept columns by name, if each has one row per step."""
    if not isinstance(columns, Mapping) or not all(isinstance(name, str) for name in columns):
        raise InvalidInputError(
            f"`columns` must be a mapping of names to arrays, got {type(columns).__name__}."
        )
    return {
        name: check_rows(rows, f"columns[{name!r}]", n_steps, "logged step")
        for name, rows in columns.items()
    }


def check_rows(rows: Any, name: str, n: int, unit: str) -> Any:
    """Numeric array, or dict of such, if it has n rows."""
    if isinstance(rows, dict):
        if not rows:
            raise InvalidInputError(f"`{name}` must not be an empty dict.")
        return {key: check_rows(rows[key], f"{name}[{key!r}]", n, unit) for key in rows}
    array = as_array(rows, name)
    if array.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"`{name}` must hold numbers, got dtype {array.dtype}. Encode it as numbers first."
        )
    if array.ndim == 0 or array.shape[0] != n:
        raise InvalidInputError(
            f"`{name}` must have one entry per {unit}, {n} in all, got shape {array.shape}."
        )
    return array
