"""A SubprocVecEnv whose worker dies: our error, and complete episodes are kept."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

import ove_sb3 as ove
from tests.policies.toys import ACTIONS, Toy


class Quitting(Toy):
    """Ends its own process, or raises, after 35 steps."""

    steps = 0

    def step(self, action: Any) -> Any:
        Quitting.steps += 1
        if Quitting.steps == 35:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


class Disconnected(Toy):
    def step(self, action: Any) -> Any:
        raise ConnectionResetError("the simulator does not answer")


def make(*kinds: type[Toy]) -> SubprocVecEnv:
    # Not by fork: the other workers would hold the pipe of the dead one open.
    return SubprocVecEnv(list(kinds), start_method="forkserver")


def check(path: Path, error: ove.WorkerError) -> None:
    assert "exit code -9" in str(error)
    data = ove.Trajectories.load(path)
    assert len(data) == 6  # three of each environment
    assert set(data.lengths) == {10}
    assert 0 < data.metadata.incomplete_fraction < 1


def test_a_worker_that_dies_in_learn(tmp_path: Path) -> None:
    inner = make(Toy, Quitting)
    venv = ove.VecLogActionProbability(inner, path=tmp_path)
    model = PPO("MlpPolicy", venv, n_steps=8, batch_size=16, n_epochs=1, device="cpu")
    venv.set_model(model)
    with pytest.raises(ove.WorkerError, match="continue with a new environment") as caught:
        model.learn(1000)
    check(tmp_path, caught.value)
    # Writing continues with another environment.
    with ove.EpisodeWriter(tmp_path, ove.Metadata()) as writer:
        writer.add(ove.Trajectories.load(tmp_path)[:2])
    assert len(ove.open_log(tmp_path)) == 8
    for process in inner.processes:
        process.kill()
        process.join()


class KillWorker(BaseCallback):
    """Kills a worker from outside, between steps: the pipe breaks when something is sent."""

    def _on_step(self) -> bool:
        if self.n_calls == 35:
            venv: Any = self.training_env.unwrapped
            process = venv.processes[0]
            process.kill()
            process.join()
        return True


@pytest.mark.slow
def test_a_worker_that_is_killed(tmp_path: Path) -> None:
    venv = ove.VecLogActionProbability(make(Toy, Toy), path=tmp_path)
    model = PPO("MlpPolicy", venv, n_steps=64, batch_size=16, n_epochs=1, device="cpu")
    venv.set_model(model)
    with pytest.raises(ove.WorkerError) as caught:
        model.learn(1000, callback=KillWorker())
    check(tmp_path, caught.value)
    with pytest.raises(ove.WorkerError):
        venv.reset()


@pytest.mark.slow
def test_a_worker_that_dies_in_collect(tmp_path: Path) -> None:
    policy = ove.UniformPolicy(ACTIONS["discrete"])
    with pytest.raises(ove.WorkerError) as caught:
        ove.collect(policy, make(Toy, Quitting), 20, seed=0, path=tmp_path)
    check(tmp_path, caught.value)
    data = ove.collect(policy, DummyVecEnv([Toy, Toy]), 20, seed=0, path=tmp_path)
    assert len(data) == 20


def test_errors_of_the_environment_stay_what_they_are(tmp_path: Path) -> None:
    venv = DummyVecEnv([Disconnected])
    with pytest.raises(ConnectionResetError, match="does not answer"):
        ove.collect(ove.UniformPolicy(ACTIONS["discrete"]), venv, 5, path=tmp_path)
