"""Batches of observations: arrays, or dicts of arrays for a Dict space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ove_sb3._validation import as_array
from ove_sb3.errors import InvalidInputError

Observation = NDArray[Any] | Mapping[str, NDArray[Any]]

_OTHER_ENVIRONMENT = "The policy and the log belong to different environments?"


class Batch(NamedTuple):
    """A batch of observations.

    Attributes
    ----------
    observations : ndarray, (n, ...), or dict of such
    n : int
    single : bool
        Whether it was made of one observation without a batch axis.
    """

    observations: Observation
    n: int
    single: bool


def as_batch(observations: Any, space: spaces.Space[Any] | None) -> Batch:
    """Check observations of `space`, a batch or a single one, and return them as a batch.

    Without a space, the observations are a batch.
    """
    if space is None:
        rows = [as_array(entry, "observations") for entry in _entries(observations)]
        sizes = {len(entry) if entry.ndim else None for entry in rows}
        if len(sizes) != 1 or None in sizes:
            raise InvalidInputError(
                "`observations` must be a batch, (n, ...), or a dict of such, got shapes "
                f"{[entry.shape for entry in rows]}."
            )
        return Batch(observations, len(rows[0]), single=False)
    if isinstance(space, spaces.Dict):
        return _dict_batch(observations, space)
    array = as_array(observations, "observations")
    for shape in _shapes(space):
        if array.shape == shape:
            return Batch(array[None], 1, single=True)
        if array.ndim == len(shape) + 1 and array.shape[1:] == shape:
            return Batch(array, len(array), single=False)
    shown = ", ".join(map(str, space.shape or ()))
    raise InvalidInputError(
        f"`observations` must be a batch of {space}, (n, {shown}), got shape {array.shape}. "
        f"{_OTHER_ENVIRONMENT}"
    )


def guess_batch(observations: Any) -> Batch:
    """Batch of observations whose space is not known.

    Arrays of at most one dimension, or dicts of such, are a single observation; arrays of more
    dimensions are a batch.
    """
    if all(np.ndim(entry) <= 1 for entry in _entries(observations)):
        return Batch(add_batch_axis(observations), 1, single=True)
    return as_batch(observations, None)


def _entries(observations: Any) -> list[Any]:
    return list(observations.values()) if isinstance(observations, Mapping) else [observations]


def _dict_batch(observations: Any, space: spaces.Dict) -> Batch:
    if not isinstance(observations, Mapping) or set(observations) != set(space.spaces):
        got = sorted(observations) if isinstance(observations, Mapping) else type(observations)
        raise InvalidInputError(
            f"`observations` must be a dict with the entries {sorted(space.spaces)}, got {got}. "
            f"{_OTHER_ENVIRONMENT}"
        )
    batches = {key: as_batch(observations[key], space[key]) for key in space.spaces}
    sizes = {batch.n for batch in batches.values()}
    if len(sizes) != 1:
        raise InvalidInputError(
            f"`observations` must have the same number of rows in every entry, got {sorted(sizes)}."
        )
    rows: dict[str, Any] = {key: batch.observations for key, batch in batches.items()}
    single = all(batch.single for batch in batches.values())
    return Batch(rows, sizes.pop(), single)


def _shapes(space: spaces.Space[Any]) -> list[tuple[int, ...]]:
    """Shapes that an observation of `space` may have: images have either channel order."""
    shape = tuple(space.shape or ())
    if not is_image_space(space):
        return [shape]
    channels_first = int(np.argmin(shape)) == 0  # as stable-baselines3 decides
    return [shape, shape[1:] + shape[:1] if channels_first else shape[-1:] + shape[:-1]]


def is_image_space(space: spaces.Space[Any]) -> bool:
    """Whether stable-baselines3 takes `space` for one of images, without importing it."""
    return (
        isinstance(space, spaces.Box)
        and len(space.shape) == 3
        and space.dtype == np.uint8
        and bool((space.low == 0).all() and (space.high == 255).all())
    )


def take_rows(observations: Observation, index: Any) -> Any:
    """Rows `index` of an array, or of every array of a dict."""
    if isinstance(observations, Mapping):
        return {key: array[index] for key, array in observations.items()}
    return observations[index]


def stack_rows(batches: Sequence[Any], index: int) -> Any:
    """Row `index` of every batch, along a new first axis."""
    if isinstance(first := batches[0], Mapping):
        return {key: np.array([batch[key][index] for batch in batches]) for key in first}
    return np.array([batch[index] for batch in batches])


def copy_observations(observations: Any) -> Any:
    """Copy of an array or of every array of a dict, which nobody else can change."""
    if isinstance(observations, Mapping):
        return {key: np.array(array) for key, array in observations.items()}
    return np.array(observations)


def add_batch_axis(observation: Any) -> Any:
    """A single observation as a batch of one, (1, ...)."""
    if isinstance(observation, Mapping):
        return {key: np.asarray(value)[None] for key, value in observation.items()}
    return np.asarray(observation)[None]
