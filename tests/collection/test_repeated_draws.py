"""Actors that draw the same random numbers again: their logs are dependent when they are joined."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove

from .test_seeds import REASON

TRUTH = 0.5
SEEDS = count(10_000)  # of environments


class Noisy(gym.Env[Any, Any]):
    """One step, whose reward is nearly the action; its mean is 1/2 if that is uniform."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.np_random.random(1, dtype=np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = 0.9 * float(np.mean(action)) + 0.1 * self.np_random.random()
        return np.zeros(1, np.float32), reward, True, False, {}


class NoisyBox(Noisy):
    action_space = spaces.Box(0, 1, (1,), np.float32)


def noisy(box: bool = False) -> gym.Env[Any, Any]:
    return TimeLimit(NoisyBox() if box else Noisy(), 1)


def uniform(rng: int | None = None) -> ove.UniformPolicy:
    return ove.UniformPolicy(Noisy.action_space, Noisy.observation_space, rng=rng)


def day(model: Any, k: int, n: int = 5, path: Path | None = None) -> ove.Trajectories:
    """Log of an actor that was started anew, with another seed of the environment."""
    env = ove.LogActionProbability(noisy(), model, path, reward_range=(0, 1), total_timesteps=n)
    for i in range(n):
        observation, _ = env.reset(seed=k if i == 0 else None)
        env.step(model.predict(observation)[0])
    data = env.trajectories()
    env.close()
    return data


def learned(model: Any, box: bool = False) -> ove.Trajectories:
    env = ove.LogActionProbability(noisy(box), reward_range=(0, 1))
    model.set_env(env)
    env.set_model(model)
    model.learn(12)
    return env.trajectories()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models that were saved with a seed."""
    path = tmp_path_factory.mktemp("models")
    PPO("MlpPolicy", noisy(), seed=0, n_steps=8, batch_size=8, device="cpu").save(path / "ppo")
    dqn = DQN("MlpPolicy", noisy(), seed=0, buffer_size=10, learning_starts=0, device="cpu")
    dqn.exploration_rate = 0.9
    dqn.save(path / "dqn")
    options: Any = {"seed": 0, "buffer_size": 10, "device": "cpu"}
    SAC("MlpPolicy", noisy(box=True), learning_starts=5, **options).save(path / "sac")
    noise = NormalActionNoise(np.zeros(1), np.ones(1))
    options = {**options, "learning_starts": 0, "action_noise": noise}
    TD3("MlpPolicy", noisy(box=True), **options).save(path / "td3")
    return path


RESTARTED: dict[str, Callable[[Path], ove.Trajectories]] = {
    "built-in": lambda _: day(uniform(0), next(SEEDS)),
    "PPO": lambda path: day(PPO.load(path / "ppo"), next(SEEDS)),
    "DQN": lambda path: day(DQN.load(path / "dqn"), next(SEEDS)),
    "learn": lambda path: learned(PPO.load(path / "ppo")),
    "DQN in learn": lambda path: learned(DQN.load(path / "dqn")),
    "warm-up": lambda path: learned(SAC.load(path / "sac"), box=True),
    "action noise": lambda path: learned(TD3.load(path / "td3"), box=True),
}


@pytest.mark.parametrize("name", RESTARTED)
def test_an_actor_that_is_restarted_is_dependent(name: str, folder: Path, tmp_path: Path) -> None:
    one, other = RESTARTED[name](folder), RESTARTED[name](folder)
    assert not one.metadata.repeated_seeds
    joined = ove.Trajectories.concat([one, other])
    assert joined.metadata.repeated_seeds
    joined.save(tmp_path / "joined")
    assert ove.Trajectories.load(tmp_path / "joined")[2:].metadata.repeated_seeds
    halves = one.split(0.5)
    assert not ove.Trajectories.concat(halves).metadata.repeated_seeds


def test_no_wrong_number_is_called_guaranteed() -> None:
    """Days with the same action: all of them together know little more than one."""
    wrong = missed = 0
    for rng in range(4):
        data = ove.Trajectories.concat([day(uniform(rng), next(SEEDS), n=1) for _ in range(30)])
        method = ove.Betting(n_shuffles=1)
        options: Any = {"quantities": ["mean"], "approximate": None, "method": method}
        interval = ove.evaluate(data, uniform(), gamma=1.0, **options)["mean"].interval
        outside = not interval.lower <= TRUTH <= interval.upper
        missed += outside
        wrong += outside and interval.guaranteed
        assert any(REASON in text for text in interval.reasons)
    assert wrong == 0
    assert missed == 4  # the numbers themselves are useless


def test_writers_of_one_directory(folder: Path, tmp_path: Path) -> None:
    for k in range(2):
        model = PPO.load(folder / "ppo")
        model.set_random_seed(k)
        data = day(model, k, path=tmp_path / "seeded")
        assert not data.metadata.repeated_seeds
        day(PPO.load(folder / "ppo"), k, path=tmp_path / "restarted")
    assert ove.Trajectories.load(tmp_path / "restarted").metadata.repeated_seeds


def test_a_model_that_is_loaded_again_in_one_log(folder: Path) -> None:
    env = ove.LogActionProbability(noisy(), reward_range=(0, 1))
    for k in range(2):
        model = PPO.load(folder / "ppo")
        env.set_model(model)
        observation, _ = env.reset(seed=k)
        env.step(model.predict(observation)[0])
        assert env.trajectories().metadata.repeated_seeds == (k == 1)


@pytest.mark.parametrize("name", ["PPO", "built-in"])
def test_logs_of_one_process_are_independent(name: str, folder: Path) -> None:
    models: dict[str, Any] = {
        "PPO": PPO.load(folder / "ppo"),
        "built-in": uniform(0),
    }
    logs = [day(models[name], k) for k in range(4)]
    assert not ove.Trajectories.concat(logs).metadata.repeated_seeds
    # Several wrappers that log the same batches of actions.
    model = models[name]
    envs = [ove.LogActionProbability(noisy(), model) for _ in range(3)]
    venv = DummyVecEnv([lambda env=env: env for env in envs])  # type: ignore[misc]
    observations: Any = venv.reset()
    for _ in range(3):
        observations, _, _, _ = venv.step(model.predict(observations)[0])
    logs = [env.trajectories() for env in envs]
    assert not ove.Trajectories.concat(logs).metadata.repeated_seeds


def test_generators_that_draw_no_actions_are_not_compared(folder: Path) -> None:
    logs = []
    for k in range(2):
        model = PPO.load(folder / "ppo")  # sets all seeds
        torch.manual_seed(k)
        logs.append(day(model, k))
    assert not ove.Trajectories.concat(logs).metadata.repeated_seeds
    logs = []
    for k in range(2):
        model = PPO.load(folder / "ppo")
        env = ove.LogActionProbability(noisy(), model)
        observation, _ = env.reset(seed=k)
        env.step(ove.action_distribution(model, observation).sample()[0])
        logs.append(env.trajectories())
        assert [kind for _, kind, *_ in logs[-1].metadata.seeds] == ["reset"]
    assert not ove.Trajectories.concat(logs).metadata.repeated_seeds
