"""A tiny tabular environment whose mean and variance of the return are known exactly."""

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

FloatArray = NDArray[np.float64]
HORIZON = 4
GAMMA = 0.9
REWARD_RANGE = (-1.0, 1.0)
END = 3  # the state after which nothing comes
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


class Tabular(gym.Env[np.int64, np.int64]):
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


def exact(policy: FloatArray, gamma: float = GAMMA) -> tuple[float, float]:
    """Mean and variance of the return of `policy`, (3, 2), by dynamic programming."""
    first, second = np.zeros(4), np.zeros(4)  # moments of the return from every state
    for _ in range(HORIZON):
        m1 = REWARDS + gamma * NEXT @ first
        m2 = REWARDS**2 + 2 * gamma * REWARDS * (NEXT @ first) + gamma**2 * NEXT @ second
        first = np.append((policy * m1).sum(axis=1), 0.0)
        second = np.append((policy * m2).sum(axis=1), 0.0)
    return float(first[0]), float(second[0] - first[0] ** 2)


def simulate(policy: FloatArray, n: int, rng: np.random.Generator) -> ove.Trajectories:
    """Log of `n` episodes of `policy`, drawn all at once."""
    state, alive = np.zeros(n, dtype=int), np.ones(n, dtype=bool)
    columns: list[tuple[NDArray[Any], ...]] = []
    for time in range(HORIZON):
        action = (rng.random(n) >= policy[state, 0]).astype(int)
        cumulated = NEXT[state, action].cumsum(axis=1)
        after = (rng.random(n)[:, None] >= cumulated).sum(axis=1)
        row = (np.arange(n), np.full(n, time), state, action, REWARDS[state, action])
        columns.append(tuple(column[alive] for column in row))
        alive = alive & (after < END)
        state = np.where(alive, after, 0)
    episode, step, states, actions, rewards = map(np.concatenate, zip(*columns, strict=True))
    order = np.lexsort((step, episode))
    states, actions = states[order], actions[order]
    metadata = Metadata(
        horizon=HORIZON,
        reward_range=REWARD_RANGE,
        observation_space=describe_space(spaces.Discrete(3)),
        action_space=describe_space(spaces.Discrete(2)),
    )
    return ove.Trajectories.from_arrays(
        observations=states,
        actions=actions,
        log_probs=np.log(policy[states, actions]),
        rewards=rewards[order],
        lengths=np.bincount(episode, minlength=n),
        metadata=metadata,
    )


def probabilities(model: Any) -> FloatArray:
    """The action probabilities of a PPO, (3, 2), as SB3 itself gives them."""
    with torch.no_grad():
        observations, _ = model.policy.obs_to_tensor(np.arange(3))
        distribution = model.policy.get_distribution(observations).distribution
    return np.asarray(distribution.probs, dtype=np.float64)


def small_ppo(seed: int = 0, venv: Any = None, **options: Any) -> PPO:
    """A PPO that learns in big steps, so that every look sees another policy."""
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
    return PPO("MlpPolicy", DummyVecEnv([Tabular]) if venv is None else venv, **arguments)
