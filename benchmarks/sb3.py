"""Cost of collecting, logging and scoring, relative to the bare operation.

The two sides of a ratio are measured alternately; the median ratio is printed.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

import ove_sb3 as ove

from .promises import record
from .tables import median_ratio, print_table

REPEATS = 15


def main() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = []
        for n_envs in (1, 8):
            ratio = collect_ratio(n_envs)
            record("collect", ratio)
            rows.append([f"collect / loop of predict and step, {n_envs} environments", ratio])
        for n_envs in (1, 8):
            ratio = learn_ratio(n_envs)
            record("learn", ratio)
            rows.append([f"logged learn / learn, {n_envs} environments", ratio])
        rows.append(["log_prob / forward passes of the actor", log_prob_ratio()])
        print_table("CPU time", ["", "ratio"], rows, name="sb3")
    finally:
        torch.set_num_threads(threads)


def model_on(venv: Any, **options: Any) -> PPO:
    return PPO("MlpPolicy", venv, device="cpu", seed=0, **options)


def cart_poles(n_envs: int) -> DummyVecEnv:
    venv = make_vec_env("CartPole-v1", n_envs=n_envs, seed=0)
    assert isinstance(venv, DummyVecEnv)
    return venv


def alternating_ratio(first: Callable[[], float], second: Callable[[], float]) -> float:
    """Median ratio of CPU times; the two alternate, so a busy machine slows both."""
    first(), second()
    return median_ratio(np.array([[second(), first()] for _ in range(REPEATS)]))


def collect_ratio(n_envs: int) -> float:
    """CPU time per step of `collect`, divided by that of a loop of `predict` and `step`."""
    venv = cart_poles(n_envs)
    model = model_on(venv)

    def collecting() -> float:
        start = time.process_time()
        data = ove.collect(model, venv, 150, seed=0)
        return (time.process_time() - start) / data.n_steps

    return alternating_ratio(collecting, lambda: predict_loop(model, venv, 3000))


def predict_loop(model: PPO, venv: VecEnv, n_steps: int) -> float:
    observations: Any = venv.reset()
    start = time.process_time()
    for _ in range(n_steps // venv.num_envs):
        actions, _ = model.predict(observations, deterministic=False)
        observations, _, _, _ = venv.step(actions)
    return (time.process_time() - start) / (n_steps // venv.num_envs * venv.num_envs)


def learn_ratio(n_envs: int) -> float:
    """CPU time of `learn` with the wrapper, divided by that without."""

    def learning(logged: bool) -> float:
        path = tempfile.mkdtemp()
        venv: Any = cart_poles(n_envs)
        if logged:
            venv = ove.VecLogActionProbability(venv, path=path)
        model = model_on(venv, n_steps=2048 // n_envs)
        if logged:
            venv.set_model(model)
        start = time.process_time()
        model.learn(4096)
        venv.close()
        spent = time.process_time() - start
        shutil.rmtree(path)
        return spent

    return alternating_ratio(lambda: learning(True), lambda: learning(False))


def log_prob_ratio() -> float:
    """CPU time of `log_prob`, divided by that of the actor's forward passes alone."""
    model = model_on(cart_poles(1))
    n = 200_000
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(n, 4)).astype(np.float32)
    actions = rng.integers(0, 2, n)

    def ours() -> float:
        start = time.process_time()
        ove.log_prob(model, observations, actions)
        return time.process_time() - start

    def bare() -> float:
        policy = model.policy
        start = time.process_time()
        with torch.no_grad():
            for at in range(0, n, 4096):
                batch = torch.as_tensor(observations[at : at + 4096])
                policy.action_net(policy.mlp_extractor.forward_actor(batch))
        return time.process_time() - start

    return alternating_ratio(ours, bare)


if __name__ == "__main__":
    main()
