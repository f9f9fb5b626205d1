"""Uniform distribution on any action space."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from ove_sb3.errors import InvalidInputError

from .bounds import BoxBounds
from .box import Uniform
from .discrete import Categorical, MultiCategorical
from .distribution import ActionDistribution


def uniform_distribution(space: spaces.Space[Any], n: int) -> ActionDistribution:
    """Uniform distribution on `space` for n observations."""
    if isinstance(space, spaces.Discrete):
        return Categorical(np.full((n, int(space.n)), -np.log(float(space.n))), space)
    if isinstance(space, spaces.Box):
        return Uniform(BoxBounds(space), n)
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        sizes = [int(size) for size in space.nvec]
    elif isinstance(space, spaces.MultiBinary) and len(space.shape) == 1:
        sizes = [2] * int(space.shape[0])
    else:
        raise InvalidInputError(
            "`action_space` must be Discrete, MultiDiscrete or MultiBinary of one dimension, or a "
            f"bounded Box, got {space}."
        )
    log_p = np.concatenate([np.full((n, size), -np.log(float(size))) for size in sizes], axis=1)
    return MultiCategorical(log_p, sizes, space)


def n_actions(space: spaces.Space[Any]) -> float:
    """Number of actions in `space`; infinite for a Box."""
    if isinstance(space, spaces.Discrete):
        return float(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return float(np.prod(space.nvec, dtype=np.float64))
    if isinstance(space, spaces.MultiBinary):
        return float(2.0 ** np.prod(space.shape))
    return math.inf


def epsilon_greedy_range(epsilon: float, space: spaces.Space[Any]) -> tuple[float, float]:
    """Smallest and largest probability of any action of an epsilon-greedy policy on `space`."""
    smallest = epsilon / n_actions(space)
    return smallest, 1.0 - epsilon + smallest
