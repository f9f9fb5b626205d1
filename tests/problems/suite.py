"""Problems on which estimators are compared."""

from __future__ import annotations

from .bandits import binary_bandit, continuous_bandit, recommender
from .chain import chain
from .gridworld import gridworld
from .problem import Problem


def estimator_problems() -> list[Problem]:
    """Bandits, grids and chains, from light to heavy weights."""
    heavy = {"step": -0.1, "goal": 1.0, "pit": -1.0, "alpha": 0.1, "temperature": 0.1}
    return [
        continuous_bandit(),
        binary_bandit(),
        recommender(),
        gridworld(6),
        gridworld(15),
        gridworld(25),
        gridworld(6, **heavy, name="grid_heavy_6"),
        gridworld(10, **heavy, name="grid_heavy_10"),
        gridworld(15, temperature=1.0, name="grid_soft_15"),
        gridworld(15, step=0.0, goal=1.0, temperature=0.1, gamma=0.95, name="grid_sparse_15"),
        chain(8),
        chain(20),
    ]
