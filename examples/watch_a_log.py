"""Decide as soon as a growing log allows it, with one evaluation per day.

The bounds hold simultaneously at every number of episodes, so repeated evaluation is safe.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import PPO

import ove_sb3 as ove

REQUIREMENTS = ["mean >= 7.5", "variance <= 5"]


def serve(new: PPO, path: Path, n_episodes: int, seed: int) -> None:
    """Run the service for a day, logging to `path`; every day needs other seeds."""
    old = ove.UniformPolicy(spaces.Discrete(2), new.observation_space)
    policy = ove.MixturePolicy([old, new], [0.5, 0.5], per="episode", rng=1000 + seed)
    env = ove.LogActionProbability(gym.make("CartPole-v1"), policy, path=path, reward_range=(0, 1))
    for k in range(n_episodes):
        observation, _ = env.reset(seed=seed if k == 0 else None)
        state, begins, over = None, True, False
        while not over:
            action, state = policy.predict(observation, state, np.array([begins]))
            observation, _, terminated, truncated, _ = env.step(action)
            begins, over = False, terminated or truncated
    env.close()


def main() -> None:
    """Serve and watch until there is a decision."""
    new = PPO("MlpPolicy", "CartPole-v1", seed=1, device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "service"
        for day in range(1, 15):
            serve(new, path, 100, seed=day)
            decision = ove.watch(path, new, REQUIREMENTS, gamma=0.9, timeout=0)
            print(f"day {day}: {decision.progress}")
            if decision.status != "undecided":
                break
    print(decision)

    # For comparison: run the candidate itself.
    returns = ove.collect(new, "CartPole-v1", 1_000, seed=2).returns(0.9)
    print(f"on-policy: mean {returns.mean():.4g}, variance {returns.var():.4g}")


if __name__ == "__main__":
    main()
