"""The randomness of an episode: one 64-bit key, and uniforms computed from key and index.

An environment draws one key per episode from its ``np_random``; everything random in the episode
is a pure function of that key. So the i-th episode of an environment seeded with s is the i-th row
of a batch of episodes drawn with ``rng=s``, whichever of them is run first or by which thread, and
a key replays its episode.

The uniforms are the outputs of SplitMix64 (Steele, Lea and Flood, 2014) started at the key.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numba
import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
KeyArray: TypeAlias = NDArray[np.uint64]
Rng: TypeAlias = "int | np.random.Generator | None"

_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


@numba.njit(cache=True, nogil=True)
def uniform(key: np.uint64, index: int) -> float:
    """The uniform number `index` of the episode `key`, strictly between 0 and 1."""
    z = key + (np.uint64(index) + np.uint64(1)) * _INCREMENT
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    z = z ^ (z >> np.uint64(31))
    return (float(z >> np.uint64(12)) + 0.5) * 2.0**-52


@numba.njit(cache=True, nogil=True)
def uniforms(keys: KeyArray, index: int) -> FloatArray:
    """`uniform(key, index)` for every key, (n,)."""
    result = np.empty(keys.shape[0])
    for i in range(keys.shape[0]):
        result[i] = uniform(keys[i], index)
    return result


def draw_key(rng: np.random.Generator) -> np.uint64:
    """The key of the next episode; `draw_keys` gives the same keys many at a time."""
    return np.uint64(rng.integers(0, 2**64, dtype=np.uint64))


def draw_keys(rng: np.random.Generator, n: int) -> KeyArray:
    """The keys of the next `n` episodes, (n,)."""
    return rng.integers(0, 2**64, size=n, dtype=np.uint64)


def key_from_options(options: dict[str, Any] | None, rng: np.random.Generator) -> np.uint64:
    """The key asked for by ``reset(options={"key": ...})``, else a new one.

    Raises
    ------
    ValueError
        If the key is not an integer in [0, 2^64).
    """
    if not options or "key" not in options:
        return draw_key(rng)
    key = options["key"]
    if (
        isinstance(key, bool)
        or not isinstance(key, (int, np.integer))
        or not (0 <= int(key) < 2**64)
    ):
        raise ValueError(
            f'`options["key"]` must be an integer in [0, 2**64), got {key!r}. Take it from the '
            '`info["key"]` that `reset` returned for the episode to replay.'
        )
    return np.uint64(int(key))
