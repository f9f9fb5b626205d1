"""Speed of the environments in CPU time; both sides of a ratio are measured in the same run.

Run alone with ``python -m benchmarks.envs``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import Any

import gymnasium as gym
import numpy as np

import ove_sb3.envs as envs
from ove_sb3.envs.common.streams import draw_keys
from ove_sb3.envs.diabetes.days import Days
from ove_sb3.envs.diabetes.meals import draw_meals
from ove_sb3.envs.diabetes.reference import ReferenceDays
from ove_sb3.envs.diabetes.sensor import draw_noise
from ove_sb3.envs.diabetes.units import MINUTES

from .tables import cpu_time

_FIRST_CALLS = """
import time
import numpy as np
import ove_sb3.envs as envs
start = time.process_time()
grid = envs.GridworldEnv()
grid.reset(seed=0)
grid.step(np.int64(0))
grid.simulate(np.full((16, 8), 1 / 8), 1, rng=0)
envs.RecommenderEnv().simulate(np.full(5, 0.2), 1, rng=0)
envs.DiabetesEnv().simulate(np.zeros((1, 2)), 1, rng=0)
print(time.process_time() - start)
"""


def single_step_seconds(env_id: str, n_steps: int) -> float:
    """CPU time per step of the environment from `gymnasium.make`, resets included."""
    env = gym.make(env_id)
    env.reset(seed=0)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(n_steps)]

    def run() -> None:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    return cpu_time(run) / n_steps


def batched_step_seconds(venv: Any, n_calls: int) -> float:
    """CPU time per step and environment of a batch."""
    venv.seed(0)
    venv.reset()
    rng = np.random.default_rng(0)
    actions = rng.integers(0, venv.action_space.n, (n_calls, venv.num_envs))

    def run() -> None:
        for row in actions:
            venv.step(row)

    return cpu_time(run) / actions.size


def simulated_step_seconds(env: Any, policy: Any, n: int) -> float:
    """CPU time per step of `simulate`."""
    n_steps = env.simulate(policy, n, rng=0).rewards.shape[0]
    return cpu_time(lambda: env.simulate(policy, n, rng=0), repeats=5) / int(n_steps)


def plain_simglucose_seconds() -> float:
    """CPU time of a day in simglucose as installed, with the same bolus calculator."""
    env = envs.DiabetesEnv()
    days: Days = env.days
    keys = draw_keys(np.random.default_rng(0), 1)
    meals, noise = draw_meals(keys), draw_noise(days.sensor, keys)
    reference = ReferenceDays(
        "adolescent#003", "Dexcom", "Insulet", days.rules, pandas_parameters=True
    )
    traces = np.empty(MINUTES + 1), np.empty(481), np.empty(480)
    return cpu_time(
        lambda: reference.run_day(meals.minutes[0], meals.grams[0], noise[0], 15.0, 30.0, *traces),
        repeats=1,
    )


def first_call_seconds() -> tuple[float, float]:
    """CPU time of the first calls of a process: with compilation, and with the cache."""
    with tempfile.TemporaryDirectory() as folder:
        variables = {**os.environ, "NUMBA_CACHE_DIR": folder}
        command = [sys.executable, "-c", _FIRST_CALLS]
        runs = [
            subprocess.run(command, env=variables, check=True, capture_output=True, text=True)
            for _ in range(2)
        ]
    compiling, loading = (float(run.stdout) for run in runs)
    return compiling, loading


def _report_steps(name: str, env_id: str, venv: Any, policy: Any, n: int) -> None:
    single = single_step_seconds(env_id, 20_000)
    batched = batched_step_seconds(venv, 100)
    simulated = simulated_step_seconds(venv.env, policy, n)
    for label, seconds in (("VecEnv", batched), ("simulate", simulated)):
        print(
            f"{name:12s} single {1e9 * single:8.0f} ns/step   {label:9s}"
            f"{1e9 * seconds:7.1f} ns/step   ratio {single / seconds:8.0f}"
        )


def main() -> None:
    compiling, loading = first_call_seconds()
    print(f"first calls  compiling {compiling:.1f} s, once; loading from the cache {loading:.1f} s")
    uniform = np.full((16, 8), 1 / 8)
    grid, shop = envs.GridworldVecEnv(4096), envs.RecommenderVecEnv(4096)
    _report_steps("gridworld", "ove_sb3/Gridworld-v0", grid, uniform, 20_000)
    _report_steps("recommender", "ove_sb3/Recommender-v0", shop, np.full(5, 0.2), 100_000)
    plain = plain_simglucose_seconds()
    env = envs.DiabetesEnv()
    policy = env.gaussian_policy(15.0, 30.0, mixed=0.5)
    fast = simulated_step_seconds(env, policy, 1_000)
    print(
        f"diabetes     plain simglucose {plain:.2f} s/day   fast {1e6 * fast:.0f} us/day"
        f"   ratio {plain / fast:8.0f}"
    )


if __name__ == "__main__":
    main()
