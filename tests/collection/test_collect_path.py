"""``collect(path=...)`` keeps finished episodes, and continues the same log."""

from __future__ import annotations

import contextlib
import os
import signal
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
from tests.policies.toys import Toy, make_model


class Walk(gym.Env[Any, Any]):
    """A random walk that raises after a total number of steps over all its instances."""

    observation_space = spaces.Box(-9.0, 9.0, (1,), np.float64)
    action_space = spaces.Discrete(2)
    left = -1
    error: type[BaseException] = RuntimeError

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at = float(self.np_random.normal())
        return np.array([self.at]), {}

    def step(self, action: Any) -> Any:
        Walk.left -= 1
        if Walk.left == 0:
            raise Walk.error("the simulator has died")
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
    assert data.metadata.interrupted
    assert not whole.metadata.interrupted
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


class Robot(gym.Env[Any, Any]):
    """Falls at random, whatever the seed, which raises an error; episodes have one step."""

    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)
    world = np.random.default_rng(7)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        luck = Robot.world.random()
        if luck < 0.1:
            raise RuntimeError("the robot fell")
        return np.zeros(1, np.float32), float(luck < 0.55), True, False, {}


def test_episodes_that_raise_are_not_forgotten(tmp_path: Path) -> None:
    policy = ove.UniformPolicy(Robot.action_space)
    errors = 0
    while True:
        try:
            data = ove.collect(policy, Robot(), 30, seed=0, reward_range=(0, 1), path=tmp_path)
        except RuntimeError:
            errors += 1
        else:
            break
    assert errors > 1
    for log in (data, data[:10], ove.open_log(tmp_path)):
        result = ove.evaluate(log, policy, gamma=1.0, horizon=1, quantities=["mean"])
        assert not result["mean"].interval.guaranteed
        assert any("raised an error" in reason for reason in result["mean"].interval.reasons)


def test_what_was_logged_before_the_error_stays_as_it_is(tmp_path: Path) -> None:
    policy = ove.UniformPolicy(Walk.action_space)
    Walk.left = 60
    with pytest.raises(RuntimeError, match="died"):
        ove.collect(policy, make(1), 30, seed=0, path=tmp_path)
    Walk.left = -1
    assert not ove.open_log(tmp_path).metadata.interrupted  # nothing was run again


def test_an_error_is_known_after_the_process_has_died(tmp_path: Path) -> None:
    policy = ove.UniformPolicy(Walk.action_space)
    process = os.fork()
    if process == 0:
        Walk.left = 60
        with contextlib.suppress(RuntimeError):
            ove.collect(policy, make(1), 30, seed=0, path=tmp_path)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(process, 0)
    data = ove.collect(policy, make(1), 30, seed=0, path=tmp_path)
    assert data.metadata.interrupted
    data.save(tmp_path / "copy")
    assert ove.Trajectories.load(tmp_path / "copy").metadata.interrupted


def test_an_interrupt_or_a_wrong_setting_is_not_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = ove.UniformPolicy(Walk.action_space)
    monkeypatch.setattr(Walk, "error", KeyboardInterrupt)
    monkeypatch.setattr(Walk, "left", 60)
    with pytest.raises(KeyboardInterrupt):
        ove.collect(policy, make(1), 30, seed=0, path=tmp_path / "interrupted")
    monkeypatch.setattr(Walk, "left", -1)
    data = ove.collect(policy, make(1), 30, seed=0, path=tmp_path / "interrupted")
    assert not data.metadata.interrupted
    masked = make_model("MaskablePPO-discrete")
    with pytest.raises(ove.InvalidInputError, match="action_masks"):
        ove.collect(masked, Unmasked(), 3, seed=0, path=tmp_path / "masked")
    data = ove.collect(masked, Toy(), 3, seed=0, path=tmp_path / "masked")
    assert not data.metadata.interrupted


class Unmasked(Toy):
    action_masks: Any = property()


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
