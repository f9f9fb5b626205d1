"""One-step recommender."""

from .env import RecommenderEnv

__all__ = ["RecommenderEnv"]
