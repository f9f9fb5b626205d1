"""Values that callers pass by mistake: wrong kinds, lengths, masks, and numbers out of range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

KINDS: list[Any] = [
    None,
    True,
    False,
    -3,
    0,
    1,
    2**70,
    0.5,
    -1.0,
    1e308,
    5e-324,
    float("nan"),
    float("inf"),
    -float("inf"),
    1j,
    "x",
    "",
    b"x",
    "from_data",
    (),
    [],
    {},
    [1, [2, 3]],
    (0, 1),
    (1, 0),
    (0.0, float("nan")),
    (0.0, float("inf")),
    ("a", "b"),
    {"a": 1},
    {1: "a"},
    {"adaptve": True},
    {3, 4},
    range(3),
    object(),
    object,
    len,
    np.int8(3),
    np.float32(0.5),
    np.bool_(True),
    np.float64("nan"),
    np.array(3.0),
    np.array([]),
    np.zeros((2, 2)),
    np.zeros(3, complex),
    np.array(["a", "b"]),
    np.array([None, 1], object),
    np.array(["2020-01-01"], "datetime64[D]"),
    np.ma.masked_array([1.0, 2.0], [True, False]),
    np.zeros(2, [("a", float)]),
]


def _set(value: Any) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        changed = np.array(array, dtype=float)
        changed.flat[len(changed) // 2] = value
        return changed

    return change


def _mask(array: Any) -> Any:
    return np.ma.masked_array(array, np.arange(np.size(array)).reshape(np.shape(array)) == 0)


CHANGES: list[Callable[[Any], Any]] = [
    lambda array: np.asarray(array)[:-1],
    lambda array: np.asarray(array)[:1],
    lambda array: np.asarray(array)[:0],
    lambda array: np.concatenate([array, array]),
    lambda array: np.concatenate([array, np.asarray(array)[:1]]),
    lambda array: np.asarray(array)[:, None],
    lambda array: np.asarray(array)[0],
    lambda array: np.asarray(array).astype(object),
    lambda array: np.asarray(array).astype(str),
    lambda array: np.asarray(array).astype(complex),
    lambda array: np.asarray(array) > 0,
    lambda array: np.asarray(array, dtype=np.float16),
    lambda array: np.asarray(array).astype(np.longdouble),
    lambda array: np.asarray(array).astype(">f8"),
    lambda array: np.asarray(array).astype(np.int8),
    lambda array: np.repeat(array, 2)[::2],
    lambda array: np.asarray(array) * -1,
    lambda array: np.asarray(array) * 1e200,
    lambda array: np.exp(np.asarray(array, dtype=float)),
    lambda array: list(array),
    lambda array: iter(list(array)),
    lambda array: [list(array), list(array)[:1]],
    lambda array: dict(enumerate(array)),
    _mask,
    lambda array: np.ma.masked_array(array),
    *map(_set, (float("nan"), float("inf"), -float("inf"), 1e200, -1e200, 1e-320, 0.5, -1)),
]


def changed(value: Any) -> st.SearchStrategy[Any]:
    """`value` itself, something else, or for an array the array in another form."""
    numbers = st.floats() | st.integers(-(2**65), 2**65) | st.text(max_size=12)
    others = st.sampled_from(KINDS) | numbers
    if not isinstance(value, np.ndarray):
        return st.just(value) | others
    return st.one_of(others, *[st.sampled_from(CHANGES).map(lambda change: change(value))] * 3)
