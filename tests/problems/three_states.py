"""Three states, two actions, at most four steps; as an environment and as a table."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove
from ove_sb3.data.metadata import Metadata, describe_space

from .mdp import FiniteMDP

FloatArray = NDArray[np.float64]
HORIZON = 4
GAMMA = 0.9
REWARD_RANGE = (-1.0, 1.0)
END = 3  # terminal state
# probability of every next state, by state and action
NEXT = np.array(
    [
        [[0.1, 0.6, 0.2, 0.1], [0.5, 0.0, 0.5, 0.0]],
        [[0.3, 0.3, 0.3, 0.1], [0.0, 0.2, 0.4, 0.4]],
        [[0.6, 0.2, 0.2, 0.0], [0.1, 0.1, 0.5, 0.3]],
    ]
)
REWARDS = np.array([[0.1, -0.3], [-1.0, 1.0], [0.4, -0.6]])
UNIFORM = np.full((3, 2), 0.5)


class ThreeStates(gym.Env[np.int64, np.int64]):
    """Three states, two actions, at most four steps."""

    def __init__(self) -> None:
        self.observation_space = spaces.Discrete(3)
        self.action_space = spaces.Discrete(2)
        self.state = self.time = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = self.time = 0
        return np.int64(self.state), {}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        reward = float(REWARDS[self.state, action])
        self.state = int(self.np_random.choice(4, p=NEXT[self.state, action]))
        self.time += 1
        ended = self.state == END
        seen = np.int64(0 if ended else self.state)
        return seen, reward, ended, self.time >= HORIZON and not ended, {}


MDP = FiniteMDP(
    transition=np.concatenate([NEXT, np.zeros((1, 2, 4))]),
    reward=np.broadcast_to(np.append(REWARDS, [[0.0, 0.0]], axis=0)[:, :, None], (4, 2, 4)),
    terminal=np.arange(4) == END,
    gamma=GAMMA,
    horizon=HORIZON,
)


def table(policy: FloatArray) -> FloatArray:
    """Policy with a row for the end, (4, 2), from one without, (3, 2)."""
    return np.append(policy, [[0.5, 0.5]], axis=0)


def exact(policy: FloatArray, gamma: float = GAMMA) -> tuple[float, float]:
    """Mean and variance of the return of `policy`, (3, 2)."""
    return MDP.moments(table(policy), gamma)


def simulate(policy: FloatArray, n: int, rng: np.random.Generator) -> ove.Trajectories:
    """Log of n episodes of `policy`, from the process and not from the environment."""
    episodes = MDP.sample(table(policy), n, rng)
    metadata = Metadata(
        horizon=HORIZON,
        reward_range=REWARD_RANGE,
        observation_space=describe_space(spaces.Discrete(3)),
        action_space=describe_space(spaces.Discrete(2)),
    )
    return ove.Trajectories.from_arrays(
        observations=episodes.states,
        actions=episodes.actions,
        log_probs=np.log(policy[episodes.states, episodes.actions]),
        rewards=episodes.rewards,
        lengths=episodes.lengths,
        metadata=metadata,
    )


def probabilities(model: Any) -> FloatArray:
    """The action probabilities of a PPO, (3, 2), as SB3 itself gives them."""
    with torch.no_grad():
        observations, _ = model.policy.obs_to_tensor(np.arange(3))
        distribution = model.policy.get_distribution(observations).distribution
    return np.asarray(distribution.probs, dtype=np.float64)


def small_ppo(seed: int = 0, venv: Any = None, **options: Any) -> PPO:
    """A PPO that learns in big steps, so that every evaluation sees another policy."""
    arguments: dict[str, Any] = {
        "n_steps": 32,
        "batch_size": 32,
        "n_epochs": 4,
        "learning_rate": 0.02,
        "gamma": GAMMA,
        "policy_kwargs": {"net_arch": [8]},
        "device": "cpu",
        "seed": seed,
        **options,
    }
    return PPO("MlpPolicy", DummyVecEnv([ThreeStates]) if venv is None else venv, **arguments)
