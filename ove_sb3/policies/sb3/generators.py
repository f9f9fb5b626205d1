"""Random generators of numpy that models of stable-baselines3 draw actions from."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

Generators = tuple[tuple[Any, Any], ...]


def numpy_generator() -> Generators:
    """The generator behind ``np.random.rand()``, of exploration and action noise, and its state."""
    return ((np.random, np.random.get_state(legacy=False)),)  # noqa: NPY002


def space_generator(space: spaces.Space[Any]) -> Generators:
    """The generator of ``space.sample()`` and its state; none if it was never used or seeded."""
    generator = space._np_random
    return () if generator is None else ((generator, generator.bit_generator.state),)


def numpy_state() -> bytes:
    """State of the generator behind ``np.random.rand()``, quickly."""
    state: Any = np.random.get_state()  # noqa: NPY002
    key: bytes = state[1].tobytes()
    return key + str(state[2:]).encode()
