"""Biased coins: one step, many contexts, two actions; easy to fit by chance, with exact truth."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

N_CONTEXTS = 64
HEADS = 0.5 + 0.1 * np.where(np.arange(N_CONTEXTS)[:, None] % 2 == np.arange(2), 1.0, -1.0)
REWARD_RANGE = (0.0, 1.0)


class Coins(gym.Env[Any, Any]):
    """A context is drawn, the action chooses one of its two coins, and heads pay 1."""

    observation_space = spaces.Discrete(N_CONTEXTS)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.context = int(self.np_random.integers(N_CONTEXTS))
        return self.context, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        heads = self.np_random.random() < HEADS[self.context, int(action)]
        return self.context, float(heads), True, False, {}


def ppo(seed: int, venv: Any = None, **options: Any) -> PPO:
    """A PPO that overfits: it learns from chance outcomes as well."""
    arguments: dict[str, Any] = {
        "n_steps": 128,
        "batch_size": 128,
        "n_epochs": 30,
        "learning_rate": 0.1,
        "clip_range": 10.0,
        "policy_kwargs": {"net_arch": []},
        "device": "cpu",
        "seed": seed,
        **options,
    }
    return PPO("MlpPolicy", DummyVecEnv([Coins]) if venv is None else venv, **arguments)


def exact(model: PPO) -> dict[str, float]:
    """Mean and variance of the return of a PPO, from SB3's own probabilities."""
    with torch.no_grad():
        observations, _ = model.policy.obs_to_tensor(np.arange(N_CONTEXTS))
        distribution: Any = model.policy.get_distribution(observations).distribution
    policy: NDArray[np.float64] = distribution.probs.double().numpy()
    mean = float((policy * HEADS).sum(axis=1).mean())
    return {"mean": mean, "variance": mean * (1.0 - mean)}
