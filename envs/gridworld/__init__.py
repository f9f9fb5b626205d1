"""Gridworld with slippery moves."""

from .env import GridworldEnv, make_gridworld
from .model import MOVES

__all__ = ["MOVES", "GridworldEnv", "make_gridworld"]
