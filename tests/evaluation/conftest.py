"""One thread for torch; a log and models on a problem whose truth is known."""

from __future__ import annotations

import pytest
import torch
from stable_baselines3 import PPO

import ove_sb3 as ove

from .corridor import make_env, make_model

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def behavior() -> PPO:
    return make_model(0)


@pytest.fixture(scope="session")
def candidate() -> PPO:
    return make_model(2)


@pytest.fixture(scope="session")
def data(behavior: PPO) -> ove.Trajectories:
    return ove.collect(behavior, make_env(), 600, seed=0, reward_range=(-1.0, 2.0))
