"""Classic control: checkpoints of one training run evaluated from each other's logs."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.env_util import make_vec_env

import ove_sb3 as ove

from .results import Content, evaluation_summary, load, number, save

GAMMA = 0.99
CANARY = 0.1
PAIRS = ((0, 1), (1, 2), (0, 2))
"""Checkpoint that logs, and checkpoint that is evaluated."""
MOMENTS = ("mean", "variance")
QUANTITIES = (*MOMENTS, "cvar:0.1")


@dataclass(frozen=True)
class Task:
    """An environment and how the checkpoints are trained.

    Attributes
    ----------
    env_id, algorithm
        Gymnasium id and class of stable-baselines3.
    checkpoints
        Steps of training after which the model is kept.
    reward_range
        Smallest and largest reward the environment can give; None if there is no such bound.
    needs
        Modules that the environment needs in addition to gymnasium.
    truth_episodes
        On-policy episodes of each checkpoint that give its true values.
    """

    env_id: str
    algorithm: str
    checkpoints: tuple[int, int, int]
    reward_range: tuple[float, float] | None
    needs: tuple[str, ...] = ()
    truth_episodes: int = 20_000

    @property
    def installed(self) -> bool:
        """Whether the environment can be made here."""
        return all(importlib.util.find_spec(name) is not None for name in self.needs)


PENDULUM_COST = np.pi**2 + 0.1 * 8.0**2 + 0.001 * 2.0**2  # largest angle, speed and torque
TASKS = (
    Task("CartPole-v1", "PPO", (8_192, 16_384, 32_768), (0.0, 1.0)),
    Task("Acrobot-v1", "PPO", (16_384, 32_768, 65_536), (-1.0, 0.0)),
    Task("Pendulum-v1", "SAC", (2_000, 3_000, 4_000), (-PENDULUM_COST, 0.0)),
    Task(
        "LunarLander-v3",
        "PPO",
        (8_192, 16_384, 32_768),  # later ones hover: 1,000 steps, at 700 steps per second
        None,
        needs=("Box2D", "pygame"),
        truth_episodes=2_000,
    ),
)


@dataclass(frozen=True)
class Settings:
    """Size of the study; `shorter` divides the training steps, its square the truth episodes."""

    n_episodes: int = 1_000
    delta: float = 0.05
    tasks: tuple[str, ...] = tuple(task.env_id for task in TASKS)
    shorter: int = 1


QUICK = Settings(n_episodes=200, tasks=("CartPole-v1",), shorter=4)


def run(settings: Settings, path: Path) -> Content:
    """Run the study, or continue it: results are stored after every log."""
    torch.set_num_threads(1)
    content = load(path, asdict(settings) | {"tasks": list(settings.tasks)})
    for task in TASKS:
        if task.env_id not in settings.tasks or not task.installed:
            continue
        tasks = content.setdefault("tasks", {})
        checkpoints = [steps // settings.shorter for steps in task.checkpoints]
        if tasks.get(task.env_id, {}).get("checkpoints") != checkpoints:
            tasks[task.env_id] = {"checkpoints": checkpoints, "pairs": {}}
        entry = tasks[task.env_id]
        models = _checkpoints(task, checkpoints, path.parent / "checkpoints")
        for pair in PAIRS:
            name = "-".join(map(str, pair))
            if name not in entry["pairs"]:
                entry["pairs"][name] = _compare(task, [models[k] for k in pair], settings)
                save(path, content)
                print(f"{task.env_id}: checkpoint {pair[1]} from {pair[0]}", flush=True)
        truths = entry.setdefault("truth", {})
        for k in sorted({new for _, new in PAIRS} - set(map(int, truths))):
            n = task.truth_episodes // settings.shorter**2
            truths[str(k)] = _truth(task, models[k], n)
            save(path, content)
            print(f"{task.env_id}: truth of checkpoint {k}", flush=True)
    return content


def _checkpoints(task: Task, steps: Sequence[int], folder: Path) -> list[Any]:
    """Models of the checkpoints, trained in one run unless the folder contains them."""
    algorithm: Any = {"PPO": PPO, "SAC": SAC}[task.algorithm]
    paths = [folder / f"{task.env_id}_{number}.zip" for number in steps]
    if not all(path.exists() for path in paths):
        folder.mkdir(parents=True, exist_ok=True)
        env = make_vec_env(task.env_id, n_envs=8 if task.algorithm == "PPO" else 1, seed=0)
        options = {"n_steps": 256, "batch_size": 256} if task.algorithm == "PPO" else {}
        model = algorithm("MlpPolicy", env, seed=0, device="cpu", gamma=GAMMA, **options)
        done = 0
        for path, total in zip(paths, steps, strict=True):
            model.learn(total - done, reset_num_timesteps=False)
            model.save(path)
            done = total
    return [algorithm.load(path, device="cpu") for path in paths]


def _env(task: Task) -> Any:
    """Vectorized environment; that of CartPole steps all copies in one array operation.

    Environments that their author vectorized are experimental before gymnasium 1.0.
    """
    if task.env_id == "CartPole-v1" and not gym.__version__.startswith("0."):
        return gym.make_vec(task.env_id, 250, vectorization_mode="vector_entry_point")
    return make_vec_env(task.env_id, n_envs=50)


def _log(task: Task, behavior: Any, n: int, seed: int) -> ove.Trajectories:
    return ove.collect(
        behavior, _env(task), n, seed=seed, reward_range=task.reward_range, progress=False
    )


def _truth(task: Task, model: Any, n: int) -> Content:
    """Moments of the return from episodes of the model itself, with standard errors."""
    returns = _log(task, model, n, seed=1).returns(GAMMA)
    mean, centered = float(returns.mean()), (returns - returns.mean()) ** 2
    worst = np.sort(returns)[: max(n // 10, 1)]
    return {
        "n": n,
        "mean": mean,
        "mean_error": float(returns.std() / np.sqrt(n)),
        "variance": float(centered.mean()),
        "variance_error": float(centered.std() / np.sqrt(n)),
        "cvar:0.1": float(worst.mean()),
    }


def _compare(task: Task, models: Sequence[Any], settings: Settings) -> Content:
    """The second model evaluated from a log of the first, and from a canary log of both."""
    old, new = models
    canary = ove.MixturePolicy([old, new], [1 - CANARY, CANARY], per="episode")
    options: dict[str, Any] = {
        "gamma": GAMMA,
        "delta": settings.delta,
        "quantities": QUANTITIES,
        "reward_range": task.reward_range or "from_data",
    }
    plain = _log(task, old, settings.n_episodes, seed=2)
    mixed = _log(task, canary, settings.n_episodes, seed=3)
    return {
        "steps": number(plain.n_steps / settings.n_episodes),
        "plain": evaluation_summary(ove.evaluate(plain, new, **options)),
        "known": evaluation_summary(ove.evaluate(plain, new, behavior=old, **options)),
        "canary": evaluation_summary(ove.evaluate(mixed, new, **options)),
    }
