"""A 4x4 grid with slips and a goal."""

from __future__ import annotations

import numpy as np

from .mdp import FiniteMDP
from .problem import Tabular


def gridworld(
    horizon: int,
    *,
    step: float = -1.0,
    goal: float = 0.0,
    pit: float = 0.0,
    temperature: float = 0.3,
    alpha: float = 0.5,
    slip: float = 0.1,
    gamma: float = 1.0,
    name: str | None = None,
) -> Tabular:
    """4x4 grid with eight moves, slips and a goal; behavior alpha pi + (1 - alpha)/8."""
    size, n_states = 4, 16
    moves = [(-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]
    target = np.empty((n_states, 8), dtype=np.int64)
    for s in range(n_states):
        for a, (down, right) in enumerate(moves):
            row = min(max(s // size + down, 0), size - 1)
            target[s, a] = row * size + min(max(s % size + right, 0), size - 1)
    transition = np.zeros((n_states, 8, n_states))
    for s in range(n_states):
        for a in range(8):
            transition[s, a, target[s, a]] += 1 - slip
            np.add.at(transition[s, a], target[s], slip / 8)
    reward = np.full((n_states, 8, n_states), step)
    reward[:, :, -1] += goal
    reward[:, :, 5] += pit
    terminal = np.arange(n_states) == n_states - 1
    values = np.zeros((n_states, 8))
    for _ in range(200):
        best = np.where(terminal, 0.0, values.max(axis=1))
        values = np.einsum("sax,sax->sa", transition, reward + 0.95 * best)
    candidate = np.exp((values - values.max(axis=1, keepdims=True)) / temperature)
    candidate /= candidate.sum(axis=1, keepdims=True)
    return Tabular.of(
        name or f"grid_{horizon}",
        FiniteMDP(transition, reward, terminal, gamma, horizon),
        candidate,
        alpha * candidate + (1 - alpha) / 8,
    )
