"""``collect(path=...)`` keeps finished episodes, and continues the same log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove
from tests.data.test_storage import same


class Walk(gym.Env[Any, Any]):
    """A random walk that raises after a total number of steps over all its instances."""

    observation_space = spaces.Box(-9.0, 9.0, (1,), np.float64)
    action_space = spaces.Discrete(2)
    left = -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at = float(self.np_random.normal())
        return np.array([self.at]), {}

    def step(self, action: Any) -> Any:
        Walk.left -= 1
        if Walk.left == 0:
            raise RuntimeError("the simulator has died")
        self.at += float(self.np_random.normal())
        ended = bool(self.np_random.random() < 0.3)
        return np.array([self.at]), self.at, ended, False, {}


def make(n: int) -> DummyVecEnv:
    return DummyVecEnv([Walk] * n)


@pytest.mark.parametrize("n_envs", [1, 3])
def test_an_interrupted_collection_goes_on(tmp_path: Path, n_envs: int) -> None:
    policy = ove.UniformPolicy(Walk.action_space)
    whole = ove.collect(policy, make(n_envs), 100, seed=1, path=tmp_path / "whole")
    assert len(whole) == 100
    partial = calls = 0
    while calls < 100:
        calls += 1
        Walk.left = 77 if n_envs == 1 else 280
        try:
            data = ove.collect(policy, make(n_envs), 100, seed=1, path=tmp_path / "log")
        except RuntimeError:
            log = ove.open_log(tmp_path / "log")
            assert len(log) > partial
            partial = len(log)
            assert 0 < log.metadata.incomplete_fraction < 1
        else:
            break
        finally:
            Walk.left = -1
    assert calls > 1
    same(data, whole)
    assert data.metadata.begun == {}
    assert data.metadata.seed == 1
    again = ove.collect(policy, make(n_envs), 100, seed=1, path=tmp_path / "log")
    same(again, whole)
    with pytest.raises(ove.InvalidInputError, match="n_episodes 100, not 101"):
        ove.collect(policy, make(n_envs), 101, seed=1, path=tmp_path / "log")
    with pytest.raises(ove.InvalidInputError, match="seed 1, not 2"):
        ove.collect(policy, make(n_envs), 100, seed=2, path=tmp_path / "log")


def test_without_a_seed_the_first_one_counts(tmp_path: Path) -> None:
    policy = ove.UniformPolicy(Walk.action_space)
    Walk.left = 20
    with pytest.raises(RuntimeError, match="died"):
        ove.collect(policy, make(1), 30, path=tmp_path)
    Walk.left = -1
    data = ove.collect(policy, make(1), 30, path=tmp_path)
    assert data.metadata.seed is not None
    other = ove.collect(policy, make(1), 30, seed=data.metadata.seed, path=tmp_path / "other")
    same(data, other)


def test_an_error_of_the_environment_keeps_finished_episodes(tmp_path: Path) -> None:
    venv = ove.VecLogActionProbability(make(2), path=tmp_path / "vec", flush_every=1000)
    model = PPO("MlpPolicy", venv, n_steps=32, batch_size=32, device="cpu")
    venv.set_model(model)
    Walk.left = 150
    with pytest.raises(RuntimeError, match="died"):
        model.learn(1000)
    assert len(ove.open_log(tmp_path / "vec")) > 5
    policy = ove.UniformPolicy(Walk.action_space)
    env = ove.LogActionProbability(Walk(), policy, tmp_path / "one", flush_every=1000)
    Walk.left = 50
    with pytest.raises(RuntimeError, match="died"):
        run_forever(env)
    Walk.left = -1
    assert len(ove.open_log(tmp_path / "one")) > 5


def run_forever(env: gym.Env[Any, Any]) -> None:
    while True:
        env.reset()
        done = False
        while not done:
            _, _, done, _, _ = env.step(env.action_space.sample())
