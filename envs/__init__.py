"""Bundled Gymnasium environments; installed as ``ove_sb3.envs``.

Importing this package registers ``ove_sb3/Gridworld-v0``, ``ove_sb3/Recommender-v0`` and
``ove_sb3/Diabetes-v0``. The ``VecEnv`` classes load on first use, because they need
stable-baselines3 and so torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from .diabetes import PUBLIC_CODE, DiabetesEnv
from .episodes import Episodes, Moments, Policy
from .gaussian import GaussianPolicy
from .gridworld import GridworldEnv
from .recommender import RecommenderEnv

if TYPE_CHECKING:
    from .diabetes_vec import DiabetesVecEnv
    from .gridworld_vec import GridworldVecEnv
    from .recommender_vec import RecommenderVecEnv

__all__ = [
    "PUBLIC_CODE",
    "DiabetesEnv",
    "DiabetesVecEnv",
    "Episodes",
    "GaussianPolicy",
    "GridworldEnv",
    "GridworldVecEnv",
    "Moments",
    "Policy",
    "RecommenderEnv",
    "RecommenderVecEnv",
]

_HOME = {
    "DiabetesVecEnv": "diabetes_vec",
    "GridworldVecEnv": "gridworld_vec",
    "RecommenderVecEnv": "recommender_vec",
}

gym.register(
    id="ove_sb3/Gridworld-v0",
    entry_point="ove_sb3.envs.gridworld:make_gridworld",  # which sets the time limit
)
gym.register(
    id="ove_sb3/Recommender-v0",
    entry_point="ove_sb3.envs.recommender:RecommenderEnv",
    max_episode_steps=1,
)
gym.register(
    id="ove_sb3/Diabetes-v0",
    entry_point="ove_sb3.envs.diabetes:DiabetesEnv",
    max_episode_steps=1,
)


def __getattr__(name: str) -> Any:
    """Load a ``VecEnv`` class on first use."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
