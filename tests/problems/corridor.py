"""A corridor of five cells: small enough for the exact distribution of any policy's return."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3 import PPO

import ove_sb3 as ove
from ove_sb3.core.stopping import LoggingRecord, begin_key

from .mdp import FiniteMDP

N_CELLS, HORIZON, GAMMA = 5, 6, 0.9
REWARDS = (-1.0, 0.0, 0.5, 1.0, 2.0)  # on entering a cell; the last one ends the episode
SUCCESS = 0.8  # otherwise a step goes the other way
REWARD_RANGE = (-1.0, 2.0)


class Corridor(gym.Env[Any, Any]):
    """Action 1 steps forward, 0 backward; the observation is the cell, one-hot."""

    observation_space = spaces.Box(0.0, 1.0, (N_CELLS,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.cell = 1
        return one_hot(self.cell), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        forward = bool(action) == (self.np_random.random() < SUCCESS)
        self.cell = move(self.cell, forward)
        return one_hot(self.cell), REWARDS[self.cell], self.cell == N_CELLS - 1, False, {}


ENV_ID = "Corridor-v0"
if ENV_ID not in gym.registry:
    gym.register(
        ENV_ID, lambda **_: Corridor(), max_episode_steps=HORIZON, disable_env_checker=True
    )


def make_env() -> gym.Env[Any, Any]:
    return gym.make(ENV_ID)


def make_model(seed: int, spread: float = 0.6) -> PPO:
    """PPO with randomly perturbed weights, so that its choice differs from cell to cell."""
    model = PPO(
        "MlpPolicy",
        make_env(),
        seed=seed,
        n_steps=64,
        batch_size=64,
        device="cpu",
        policy_kwargs={"net_arch": [8]},
    )
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.policy.parameters():
            parameter.add_(spread * torch.randn(parameter.shape, generator=generator))
    return model


def one_hot(cell: int) -> NDArray[np.float32]:
    return np.asarray(np.eye(N_CELLS)[cell], dtype=np.float32)


def move(cell: int, forward: bool) -> int:
    return min(cell + 1, N_CELLS - 1) if forward else max(cell - 1, 0)


def _process() -> FiniteMDP:
    transition = np.zeros((N_CELLS, 2, N_CELLS))
    for cell in range(N_CELLS):
        for action, ahead in ((1, SUCCESS), (0, 1 - SUCCESS)):
            transition[cell, action, move(cell, True)] += ahead
            transition[cell, action, move(cell, False)] += 1 - ahead
    reward = np.broadcast_to(REWARDS, transition.shape)
    return FiniteMDP(transition, reward, np.arange(N_CELLS) == N_CELLS - 1, GAMMA, HORIZON, start=1)


MDP = _process()


def choices(model: PPO) -> NDArray[np.float64]:
    """Probability of action 1 in every cell, as stable-baselines3 itself computes it."""
    cells = torch.eye(N_CELLS)
    with torch.no_grad():
        distribution = model.policy.get_distribution(cells).distribution
    return np.asarray(distribution.probs[:, 1].double().numpy())  # type: ignore[union-attr]


def table(forward: NDArray[np.float64]) -> NDArray[np.float64]:
    """Policy from its probability of action 1 in every cell."""
    return np.stack([1 - forward, forward], axis=1)


def simulate(forward: NDArray[np.float64], n: int, seed: int) -> ove.Trajectories:
    """Log of n episodes, from the process and not from the environment."""
    policy = table(forward)
    episodes = MDP.sample(policy, n, np.random.default_rng(seed))
    return ove.Trajectories.from_arrays(
        observations=np.eye(N_CELLS, dtype=np.float32)[episodes.states],
        actions=episodes.actions,
        log_probs=np.log(policy[episodes.states, episodes.actions]),
        rewards=episodes.rewards,
        lengths=episodes.lengths,
        terminated=episodes.terminated,
        metadata={"horizon": HORIZON, "reward_range": REWARD_RANGE},
    )


def exact_moments(forward: NDArray[np.float64], gamma: float = GAMMA) -> tuple[float, float]:
    """Mean and variance of the return."""
    return MDP.moments(table(forward), gamma)


def with_unfinished(data: ove.Trajectories, n_missing: int) -> ove.Trajectories:
    """The log of one environment that stopped with `n_missing` further episodes unfinished."""
    begins = begin_key(7, 0) + np.arange(len(data))
    record = LoggingRecord(len(data) + n_missing, len(data), n_steps=data.n_steps)
    metadata = replace(data.metadata, begun={"7": record})
    return replace(data, begins=begins, metadata=metadata)
