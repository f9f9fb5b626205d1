"""Action masks: MaskablePPO keeps a shelf stocked, never beyond its capacity.

The masks decide which actions are possible, so they are part of the log. `collect` gets them from
the environment, and `evaluate` applies them to the candidate.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from sb3_contrib import MaskablePPO
from stable_baselines3.common.env_util import make_vec_env

import ove_sb3 as ove

N_ENVS = 16  # environments side by side
CAPACITY = 3
DAYS = 7


class Shelf(gym.Env[Any, Any]):
    """Order up to three items a day, as many as fit; sell some, and pay for the unsold ones."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(0.0, CAPACITY, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(CAPACITY + 1)
        self.stock = self.day = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Start with an empty shelf."""
        super().reset(seed=seed)
        self.stock = self.day = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Order, then sell: the reward lies in [-0.75, 2]."""
        self.stock += int(action)
        sold = min(self.stock, int(self.np_random.integers(0, 3)))
        self.stock -= sold
        self.day += 1
        return self._observe(), sold - 0.25 * self.stock, False, self.day >= DAYS, {}

    def action_masks(self) -> Any:
        """Whether 0, 1, 2, 3 more items fit."""
        return np.arange(CAPACITY + 1) <= CAPACITY - self.stock

    def _observe(self) -> Any:
        return np.array([self.stock], np.float32)


def main() -> None:
    """Log one policy, evaluate another."""
    behavior = MaskablePPO("MlpPolicy", Shelf(), n_steps=128, batch_size=64, seed=0, device="cpu")
    behavior.learn(1_000)
    candidate = MaskablePPO("MlpPolicy", Shelf(), n_steps=128, batch_size=64, seed=1, device="cpu")
    candidate.learn(2_000)

    data = ove.collect(behavior, make_vec_env(Shelf, N_ENVS), n_episodes=1_000, seed=2)
    assert data.action_masks is not None
    print(f"{data}, on average {data.action_masks.sum(axis=1).mean():.2f} choices a day")
    print(ove.evaluate(data, candidate, gamma=1.0, reward_range=(-0.75, 2), horizon=DAYS))

    # For comparison: run the candidate itself.
    returns = ove.collect(candidate, make_vec_env(Shelf, N_ENVS), 1_000, seed=3).returns()
    print(f"on-policy: mean {returns.mean():.3g}, variance {returns.var():.3g}")


if __name__ == "__main__":
    main()
