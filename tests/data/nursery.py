"""A process with all imports done, which forks children that log, to be killed at any moment.

``python nursery.py`` reads lines ``TASK DIRECTORY SEED``. Each forks a child, which prints its
process id and then a line for every number of acknowledged episodes.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove

FLUSH_EVERY = 3


class Counting(gym.Env[Any, Any]):
    """Observations name the environment, the episode and the step; lengths follow from them."""

    observation_space = spaces.Box(0.0, 1e9, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, name: int) -> None:
        self.name, self.episode, self.time = name, -1, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode, self.time = self.episode + 1, 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        del action
        self.time += 1
        ended = self.time == length(self.name, self.episode)
        return self._observe(), float(self.episode), ended, False, {}

    def _observe(self) -> Any:
        return np.array([self.name, self.episode, self.time], np.float32)


def length(name: int, episode: int) -> int:
    return 1 + (7 * name + 3 * episode) % 9


def acknowledge(n: int) -> None:
    os.write(1, f"{n}\n".encode())


def loop(path: str, seed: int) -> None:
    """A custom loop, with the wrapper of a single environment."""
    model = ove.UniformPolicy(Counting.action_space, rng=seed)
    env = ove.LogActionProbability(Counting(seed), model, path, flush_every=FLUSH_EVERY)
    writer = env._logger.recorder._writer
    assert writer is not None
    while True:
        observation, _ = env.reset()
        ended = False
        while not ended:
            action, _ = model.predict(observation)
            observation, _, ended, _, _ = env.step(action)
        acknowledge(writer.n_written)


def learn(path: str, seed: int) -> None:
    """Training, with two environments."""

    class Report(ove.VecLogActionProbability):
        def step_wait(self) -> Any:
            result = super().step_wait()
            acknowledge(self._logger.recorder._writer.n_written)  # type: ignore[union-attr]
            return result

    makers = [lambda k=k: Counting(2 * seed + k) for k in range(2)]
    venv = Report(DummyVecEnv(makers), path=path, flush_every=FLUSH_EVERY)  # type: ignore[arg-type]
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=16, n_epochs=1, seed=0, device="cpu")
    venv.set_model(model)
    model.learn(10**9)


def close(path: str, seed: int) -> None:
    """Wrappers that are closed and opened again without pause."""
    model = ove.UniformPolicy(Counting.action_space, rng=seed)
    inner, n = Counting(seed), 0
    while True:
        env = ove.LogActionProbability(inner, model, path, flush_every=2)
        for _ in range(3):
            observation, _ = env.reset()
            ended = False
            while not ended:
                action, _ = model.predict(observation)
                observation, _, ended, _, _ = env.step(action)
        env._logger.recorder.close()
        n += 3
        acknowledge(n)


TASKS = {"loop": loop, "learn": learn, "close": close}


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        task, path, seed = line.split("\t")
        child = os.fork()
        if child == 0:
            os.write(1, f"child {os.getpid()}\n".encode())
            try:
                TASKS[task](path, int(seed))
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        _, status = os.waitpid(child, 0)
        os.write(1, f"ended {status}\n".encode())


if __name__ == "__main__":
    main()
