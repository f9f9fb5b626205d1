"""Bundled Gymnasium environments; installed as ``ove_sb3.envs``.

Importing this package registers ``ove_sb3/Gridworld-v0``, ``ove_sb3/Recommender-v0`` and
``ove_sb3/Diabetes-v0``. The ``VecEnv`` classes load on first use, because they require
stable-baselines3, which imports torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from .common.episodes import Episodes, Moments
from .common.policies import GaussianPolicy, Policy
from .diabetes import PUBLIC_CODE, DiabetesEnv
from .gridworld import GridworldEnv
from .recommender import RecommenderEnv

if TYPE_CHECKING:
    from .diabetes.vec_env import DiabetesVecEnv
    from .gridworld.vec_env import GridworldVecEnv
    from .recommender.vec_env import RecommenderVecEnv

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
    "DiabetesVecEnv": "diabetes.vec_env",
    "GridworldVecEnv": "gridworld.vec_env",
    "RecommenderVecEnv": "recommender.vec_env",
}

gym.register(
    id="ove_sb3/Gridworld-v0",
    entry_point="ove_sb3.envs.gridworld:make_gridworld",  # sets the time limit
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
