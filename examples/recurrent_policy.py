"""Recurrent policies: RecurrentPPO must recall at the end of an episode a sign shown at its start.

The probability of an action depends on the whole episode before it. `evaluate` runs the candidate's
own LSTM over every logged episode; the hidden states of the behavior are not needed.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from sb3_contrib import RecurrentPPO
from stable_baselines3.common.env_util import make_vec_env

import ove_sb3 as ove

N_ENVS = 16  # environments side by side
LENGTH = 3


class Recall(gym.Env[Any, Any]):
    """A sign, +1 or -1, is shown once; the reward is 1 if the last action matches it."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.sign = self.time = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Show the sign."""
        super().reset(seed=seed)
        self.sign, self.time = int(self.np_random.choice([-1, 1])), 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step; only the time is observed."""
        self.time += 1
        ended = self.time == LENGTH
        matches = 2 * int(action) - 1 == self.sign
        return self._observe(), float(ended and matches), ended, False, {}

    def _observe(self) -> Any:
        return np.array([self.sign if self.time == 0 else 0, self.time / LENGTH], np.float32)


def make_model(seed: int) -> RecurrentPPO:
    """Small RecurrentPPO model."""
    return RecurrentPPO(
        "MlpLstmPolicy",
        Recall(),
        n_steps=128,
        batch_size=64,
        learning_rate=0.003,
        policy_kwargs={"lstm_hidden_size": 16, "net_arch": [16]},
        seed=seed,
        device="cpu",
    )


def main() -> None:
    """Log an untrained policy, evaluate a trained one."""
    behavior, candidate = make_model(0), make_model(1).learn(2_000)
    data = ove.collect(behavior, make_vec_env(Recall, N_ENVS), n_episodes=1_000, seed=2)
    print(data)
    result = ove.evaluate(
        data, candidate, gamma=1.0, reward_range=(0, 1), return_range=(0, 1), horizon=LENGTH
    )
    print(result)

    # For comparison: run the candidate itself.
    returns = ove.collect(candidate, make_vec_env(Recall, N_ENVS), 1_000, seed=3).returns()
    print(f"on-policy: mean {returns.mean():.3g}, variance {returns.var():.3g}")


if __name__ == "__main__":
    main()
