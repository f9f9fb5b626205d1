"""Argument checks, with error messages that say what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from .errors import PLACE, InvalidInputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def as_float_vector(values: object, name: str) -> FloatArray:
    """Return `values` as a contiguous 1-d float64 array, refusing anything that is not numeric."""
    array = _as_vector(values, name)
    if array.dtype.kind not in "fiu":
        raise InvalidInputError(
            f"`{name}` must hold real numbers, got dtype {array.dtype}. Convert it with "
            f"np.asarray({name}, dtype=float)."
        )
    return np.ascontiguousarray(array, dtype=np.float64)


def as_array(values: object, name: str) -> NDArray[Any]:
    """Return `values` as an array, refusing ragged lists and arrays with masked entries."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        masked = int(np.count_nonzero(np.ma.getmaskarray(values)))
        raise InvalidInputError(
            f"`{name}` must have no masked entries, got {masked} of {values.size}. A masked entry "
            "is a value that is not known: drop the episodes that hold one."
        )
    try:
        return np.asarray(values)
    except Exception as error:  # converting an arbitrary object can raise anything
        raise InvalidInputError(
            f"`{name}` must convert to an array, got {_kind(values)} that does not: {error}. Rows "
            "must all have the same shape."
        ) from error


def as_flags(values: object, name: str) -> NDArray[np.bool_]:
    """Return `values` as booleans; integers must be 0 or 1."""
    array = as_array(values, name)
    if array.dtype.kind in "iu" and np.isin(array, (0, 1)).all():
        array = array.astype(np.bool_)
    if array.dtype.kind != "b" and array.size:
        raise InvalidInputError(
            f"`{name}` must hold True or False, got dtype {array.dtype}. Convert it with a "
            f"comparison, such as {name} == 1."
        )
    return np.asarray(array, dtype=np.bool_)


def as_lengths(values: object, n_steps: int, fewest: int = 2) -> IntArray:
    """Return `values` as episode lengths, all at least 1 and adding up to `n_steps`."""
    array = _as_vector(values, "lengths")
    if array.dtype.kind not in "iu" and array.size:
        raise InvalidInputError(
            f"`lengths` must hold integers, got dtype {array.dtype}. Pass the number of steps of "
            "every episode, as np.asarray(lengths, dtype=int)."
        )
    if array.size < fewest:
        raise InvalidInputError(
            f"`lengths` must name at least {fewest} trajectories, got {array.size}. A variance "
            "cannot be estimated from fewer: log more episodes."
        )
    if (short := np.flatnonzero(array < 1)).size:
        raise InvalidInputError(
            f"`lengths` must be at least 1, got {array[short[0]]} at {PLACE} "
            f"({short.size} of {array.size} entries). Drop empty episodes.",
            episode=int(short[0]),
        )
    largest = int(array.max(initial=0))
    # A length beyond the log may not fit an int64, nor the sum of several such lengths.
    total = int(array.sum(dtype=np.int64)) if largest <= n_steps else largest
    if total != n_steps:
        raise InvalidInputError(
            f"`lengths` must add up to the number of logged steps, {n_steps}, got {total}. "
            "Pass the flat arrays of all steps and the length of every episode."
        )
    return np.ascontiguousarray(array, dtype=np.int64)


def as_counts(values: object, name: str, n: int) -> IntArray:
    """Return `values` as `n` integers of at least 0."""
    array = _as_vector(values, name)
    if (array.dtype.kind not in "iu" and array.size) or array.size != n:
        raise InvalidInputError(
            f"`{name}` must hold {n} integers, one per trajectory, got {array.size} of dtype "
            f"{array.dtype}."
        )
    if (low := np.flatnonzero(array < 0)).size:
        raise InvalidInputError(
            f"`{name}` must be at least 0, got {array[low[0]]} at {PLACE} ({low.size} of {n} "
            "entries).",
            episode=int(low[0]),
        )
    return np.ascontiguousarray(array, dtype=np.int64)


def episode_and_step(index: int, lengths: IntArray) -> tuple[int, int]:
    """Number of the episode that the flat step `index` belongs to, and of the step within it."""
    ends = np.cumsum(lengths)
    episode = int(np.searchsorted(ends, index, side="right"))
    return episode, index - int(ends[episode] - lengths[episode])


def bad_step(
    rule: str, values: FloatArray, bad: NDArray[np.bool_], lengths: IntArray, remedy: str
) -> InvalidInputError:
    """Error about the first `bad` entry of a flat array of steps, with its position."""
    places = np.flatnonzero(bad)
    episode, step = episode_and_step(int(places[0]), lengths)
    return InvalidInputError(
        f"{rule}, got {values[places[0]]} at {PLACE} ({places.size} of {values.size} entries). "
        f"{remedy}",
        episode=episode,
        step=step,
    )


def check_same_size(first: FloatArray, second: FloatArray, names: tuple[str, str]) -> None:
    """Refuse two flat step arrays of different size."""
    if first.size != second.size:
        raise InvalidInputError(
            f"`{names[0]}` and `{names[1]}` must have one entry per logged step, got "
            f"{first.size} and {second.size}."
        )


def check_real(
    value: object, name: str, low: float, high: float, *, closed: bool = True, remedy: str = ""
) -> float:
    """Return `value` as a float in [low, high] (``closed``) or (low, high)."""
    brackets = "[]" if closed else "()"
    interval = f"{brackets[0]}{low:g}, {high:g}{brackets[1]}"
    number = _as_number(value, name, f"a real number in {interval}", remedy)
    inside = low <= number <= high if closed else low < number < high
    if not inside:  # NaN lands here as well
        raise InvalidInputError(
            _sentence(f"`{name}` must lie in {interval}, got {value!r}.", remedy)
        )
    return number


def check_integer(value: object, name: str, low: int, remedy: str = "") -> int:
    """Return `value` as an int of at least `low`; booleans and fractions are refused."""
    is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))
    if not is_integer or int(value) < low:  # type: ignore[call-overload]
        raise InvalidInputError(
            _sentence(f"`{name}` must be an integer of at least {low}, got {value!r}.", remedy)
        )
    return int(value)  # type: ignore[call-overload, no-any-return]


def check_progress(value: object) -> bool | None:
    """Return `value` if it says whether to show a progress bar."""
    if value is not None and not isinstance(value, bool):
        raise InvalidInputError(f"`progress` must be True, False or None, got {value!r}.")
    return value


def check_flag(value: object, name: str) -> bool:
    """Return `value` if it is a boolean."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidInputError(f"`{name}` must be True or False, got {value!r}.")
    return bool(value)


def check_path(value: object, name: str = "path", *, uri: bool = False) -> Path:
    """Return `value` as a path, a local one unless `uri`."""
    if not isinstance(value, (str, PathLike)) or not isinstance(fspath(value), str):
        raise InvalidInputError(f"`{name}` must be a path, got {value!r}. Pass a str or a Path.")
    path = local_path(value)
    if not uri and is_uri(path):
        raise InvalidInputError(
            f"`{name}` must be a directory of this machine, got {value}. Logs are written locally; "
            "copy the finished directory, and read it with `ove_sb3.open_log`."
        )
    return path


def is_uri(path: str | PathLike[str]) -> bool:
    """Whether `path` is a URI; in a Path, which merges slashes, one of them is left."""
    return _URI.match(fspath(path)) is not None


def local_path(path: str | PathLike[str]) -> Path:
    """The path that a ``file:`` URI names; any other path, or URI, as it is."""
    if not fspath(path).lower().startswith("file:/"):
        return Path(path)
    parts = urlsplit(fspath(path))
    if parts.netloc not in ("", "localhost"):
        raise InvalidInputError(
            f"`path` must name no other machine in a file: URI, got {fspath(path)}. Write "
            "file:///directory, with three slashes."
        )
    if parts.query or parts.fragment or "%00" in parts.path:
        raise InvalidInputError(
            f"`path` must be a path and nothing else in a file: URI, got {fspath(path)}. Write "
            "? as %3F and # as %23, or pass the plain path."
        )
    return Path(unquote(parts.path))


def check_choice(value: object, name: str, choices: Iterable[str]) -> str:
    """Return `value` if it is one of `choices`."""
    known = tuple(choices)
    if not isinstance(value, str) or value not in known:
        raise InvalidInputError(
            f"`{name}` must be one of {', '.join(map(repr, known))}, got {value!r}."
        )
    return value


def check_range(value: object, name: str) -> tuple[float, float]:
    """Return `value` as a finite pair (low, high) with low <= high."""
    remedy = f"Pass {name}=(low, high): limits known before the data were seen."
    listed = isinstance(value, Sequence) or (isinstance(value, np.ndarray) and value.ndim == 1)
    if isinstance(value, (str, bytes)) or not listed:
        raise InvalidInputError(f"`{name}` must be a pair of numbers, got {value!r}. {remedy}")
    pair = list(value)  # type: ignore[call-overload]
    if len(pair) != 2:
        raise InvalidInputError(
            f"`{name}` must be a pair of numbers, got {len(pair)} entries. {remedy}"
        )
    low, high = (_as_number(end, name, "a pair of numbers", remedy) for end in pair)
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise InvalidInputError(
            f"`{name}` must be finite with low <= high, got ({low:g}, {high:g}). {remedy}"
        )
    return low, high


def as_generator(rng: object) -> np.random.Generator:
    """Return a numpy Generator from a seed, a Generator, or None for fresh entropy."""
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is None:
        return np.random.default_rng()
    seed = check_integer(rng, "rng", 0, "Pass an int seed, a numpy Generator, or None.")
    return np.random.default_rng(seed)


def _as_vector(values: object, name: str) -> NDArray[Any]:
    array = as_array(values, name)
    if array.ndim != 1:
        raise InvalidInputError(
            f"`{name}` must be 1-dimensional, got shape {array.shape}. Concatenate the episodes "
            "into one flat array and pass their `lengths`."
        )
    return array


def _as_number(value: object, name: str, rule: str, remedy: str) -> float:
    numeric = isinstance(value, (int, float, np.integer, np.floating))
    if not numeric or isinstance(value, bool):
        raise InvalidInputError(_sentence(f"`{name}` must be {rule}, got {value!r}.", remedy))
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError as error:
        raise InvalidInputError(f"`{name}` must be {rule}, got {value!r}.") from error


def _kind(value: object) -> str:
    return f"a {type(value).__name__}"


def _sentence(text: str, remedy: str) -> str:
    return f"{text} {remedy}".rstrip()
