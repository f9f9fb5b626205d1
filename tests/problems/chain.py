"""Three states in a ring."""

from __future__ import annotations

import numpy as np

from .mdp import FiniteMDP
from .problem import Tabular


def chain(horizon: int = 8, *, offset: float = 0.0, gamma: float = 0.95) -> Tabular:
    """Three states in a ring, two actions, rewards of both signs (plus `offset`)."""
    transition = np.zeros((3, 2, 3))
    for s in range(3):
        transition[s, 0, [(s + 1) % 3, s]] = 0.8, 0.2
        transition[s, 1, [(s + 2) % 3, s]] = 0.7, 0.3
    reward = np.tile(np.array([1.0, -1.0, 0.5]) + offset, (3, 2, 1))
    candidate = np.array([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7]])
    return Tabular.of(
        f"chain_{horizon}" + (f"_{offset:+g}" if offset else ""),
        FiniteMDP(transition, reward, np.zeros(3, dtype=bool), gamma, horizon),
        candidate,
        np.full((3, 2), 0.5),
    )
