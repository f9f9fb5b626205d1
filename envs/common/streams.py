"""Random numbers of an episode, computed from its 64-bit key.

An environment draws one key per episode from its ``np_random``. Every random number of the episode
is a pure function of that key and an index. Episode i of an environment seeded with s is therefore
row i of a batch simulated with ``rng=s``, whatever the order or the number of threads, and the key
is enough to replay an episode.

The uniforms are the outputs of SplitMix64 [1]_ started at the key.

References
----------
.. [1] G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators",
   OOPSLA 2014.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ove_sb3._validation import check_integer
from ove_sb3.errors import InvalidInputError

from .types import FloatArray, KeyArray

_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)

_N_KEYS = 2**64


@numba.njit(cache=True, nogil=True)
def uniform(key: np.uint64, index: int) -> float:
    """Uniform number `index` of the episode `key`, strictly between 0 and 1."""
    z = key + (np.uint64(index) + np.uint64(1)) * _INCREMENT
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    z = z ^ (z >> np.uint64(31))
    return (float(z >> np.uint64(12)) + 0.5) * 2.0**-52


@numba.njit(cache=True, nogil=True)
def uniform_table(keys: KeyArray, first: int, count: int) -> FloatArray:
    """Uniform numbers first, ..., first + count - 1 of every key, (n, count)."""
    result = np.empty((keys.shape[0], count))
    for i in range(keys.shape[0]):
        for j in range(count):
            result[i, j] = uniform(keys[i], first + j)
    return result


def uniforms(keys: KeyArray, index: int) -> FloatArray:
    """Uniform number `index` of every key, (n,)."""
    return uniform_table(keys, index, 1)[:, 0]


def draw_key(rng: np.random.Generator) -> np.uint64:
    """Key of the next episode, equal to the next one from `draw_keys`."""
    return np.uint64(rng.integers(0, _N_KEYS, dtype=np.uint64))


def draw_keys(rng: np.random.Generator, n: int) -> KeyArray:
    """Keys of the next `n` episodes, (n,)."""
    return rng.integers(0, _N_KEYS, size=n, dtype=np.uint64)


def key_from_options(options: dict[str, Any] | None, rng: np.random.Generator) -> np.uint64:
    """Key requested by ``reset(options={"key": ...})``, or a new one.

    Raises
    ------
    InvalidInputError
        If the key is not an integer in [0, 2^64).
    """
    if not options or "key" not in options:
        return draw_key(rng)
    remedy = 'Use the `info["key"]` that `reset` returned for the episode to replay.'
    key = check_integer(options["key"], 'options["key"]', 0, remedy)
    if key >= _N_KEYS:
        raise InvalidInputError(f'`options["key"]` must be below 2**64, got {key}. {remedy}')
    return np.uint64(key)
