"""A ten-step environment with any spaces, and models of every algorithm on it."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import sb3_contrib
import stable_baselines3
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove

HORIZON = 10
ACTIONS: dict[str, spaces.Space[Any]] = {
    "discrete": spaces.Discrete(4),
    "multidiscrete": spaces.MultiDiscrete([3, 2]),
    "multibinary": spaces.MultiBinary(3),
    "box": spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 3.0], np.float32)),
    "box1": spaces.Box(-2.0, 2.0, (1,), np.float32),
}
OBSERVATIONS: dict[str, spaces.Space[Any]] = {
    "vector": spaces.Box(-np.inf, np.inf, (3,), np.float32),
    "dict": spaces.Dict(
        {"a": spaces.Box(-np.inf, np.inf, (2,), np.float32), "b": spaces.Discrete(3)}
    ),
    "image": spaces.Box(0, 255, (36, 36, 1), np.uint8),
}


class Toy(gym.Env[Any, Any]):
    """Random observations that remember the last action a little; ten steps, or `early` ends."""

    def __init__(
        self, actions: str = "discrete", observations: str = "vector", early: float = 0.0
    ) -> None:
        self.action_space = ACTIONS[actions]
        self.observation_space = OBSERVATIONS[observations]
        self.early = early
        self.time = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self._observe(0.0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.time += 1
        size = float(np.sum(action))
        ended = bool(self.np_random.random() < self.early)
        return self._observe(0.1 * size), size, ended, self.time >= HORIZON, {}

    def _observe(self, shift: float) -> Any:
        x = self.np_random.normal(size=3).astype(np.float32)
        x[0] += shift
        if isinstance(self.observation_space, spaces.Dict):
            return {"a": x[:2], "b": np.int64(self.np_random.integers(3))}
        if self.observation_space.dtype == np.uint8:
            return self.np_random.integers(0, 256, (36, 36, 1)).astype(np.uint8)
        return x

    def action_masks(self) -> NDArray[np.bool_]:
        n = {"Discrete": 4, "MultiDiscrete": 5, "MultiBinary": 6}[type(self.action_space).__name__]
        mask = (np.arange(n) + self.time) % 2 == 0
        return mask if n == 4 else np.ones(n, bool) if self.time % 2 else _first_choices(n)


def _first_choices(n: int) -> NDArray[np.bool_]:
    return np.array([True, True, False, True, False] if n == 5 else [True, False] * 3)


def toys(n: int = 1, **kwargs: Any) -> DummyVecEnv:
    return DummyVecEnv([lambda: Toy(**kwargs) for _ in range(n)])


# name -> (algorithm, action space, observation space, options)
CASES: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    **{
        f"{algorithm}-{space}": (algorithm, space, "vector", {})
        for algorithm in ("PPO", "A2C", "TRPO", "RecurrentPPO")
        for space in ("discrete", "multidiscrete", "multibinary", "box")
    },
    **{
        f"MaskablePPO-{space}": ("MaskablePPO", space, "vector", {})
        for space in ("discrete", "multidiscrete", "multibinary")
    },
    **{f"{name}-discrete": (name, "discrete", "vector", {}) for name in ("DQN", "QRDQN")},
    **{f"{name}-box": (name, "box", "vector", {}) for name in ("SAC", "TQC", "CrossQ")},
    **{f"{name}-box": (name, "box", "vector", {"noise": "normal"}) for name in ("TD3", "DDPG")},
    "PPO-box1": ("PPO", "box1", "vector", {}),
    "PPO-dict": ("PPO", "discrete", "dict", {}),
    "PPO-image": ("PPO", "discrete", "image", {}),
    "DQN-dict": ("DQN", "discrete", "dict", {}),
    "SAC-dict": ("SAC", "box", "dict", {}),
    **{
        f"{name}-gsde": (name, "box", "vector", {"use_sde": True})
        for name in ("PPO", "A2C", "TRPO", "RecurrentPPO", "SAC", "TQC", "CrossQ")
    },
    "PPO-gsde-squashed": ("PPO", "box", "vector", {"use_sde": True, "squash": True}),
}


def make_model(case: str, seed: int = 0, n_envs: int = 1, venv: Any = None, **extra: Any) -> Any:
    """A model of this case with weights far from their initial values."""
    algorithm, space, observations, options = CASES[case]
    cls = getattr(stable_baselines3, algorithm, None) or getattr(sb3_contrib, algorithm)
    venv = toys(n_envs, actions=space, observations=observations) if venv is None else venv
    arguments: dict[str, Any] = {"device": "cpu", "seed": seed, **extra}
    network: dict[str, Any] = {"net_arch": [16]}
    if options.get("noise") == "normal":
        arguments.setdefault("action_noise", normal_noise())
    if algorithm in ("PPO", "A2C", "TRPO", "RecurrentPPO", "MaskablePPO"):
        arguments.setdefault("n_steps", 32)
        if algorithm != "A2C":
            arguments.setdefault("batch_size", 32)
    else:
        arguments.setdefault("buffer_size", 1000)
    if options.get("use_sde"):
        arguments["use_sde"] = True
        network["log_std_init"] = -1.0
    if options.get("squash"):
        network["squash_output"] = True
    if algorithm == "RecurrentPPO":
        network["lstm_hidden_size"] = 8
    if algorithm == "QRDQN":
        network["n_quantiles"] = 10
    arguments["policy_kwargs"] = {**network, **arguments.get("policy_kwargs", {})}
    kind = {"vector": "MlpPolicy", "dict": "MultiInputPolicy", "image": "CnnPolicy"}[observations]
    if algorithm == "RecurrentPPO":
        kind = kind.replace("Policy", "LstmPolicy")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module="stable_baselines3")
        model = cls(kind, venv, **arguments)
    if algorithm in ("DQN", "QRDQN"):
        model.exploration_rate = 0.3
    nudge(model, 0.4, seed)
    return model


def nudge(model: Any, scale: float, seed: int) -> Any:
    """Move all weights a little, in place."""
    generator = torch.Generator().manual_seed(seed + 1000)
    with torch.no_grad():
        for name, parameter in sorted(model.policy.named_parameters()):
            # Weights of images have thousands of inputs: their sum must stay of order one.
            fan = 1.0 if parameter.ndim < 2 else max(1.0, parameter[0].numel() / 4) ** 0.5
            step = 0.2 * scale if "log_std" in name and parameter.ndim < 3 else scale
            noise = torch.randn(parameter.shape, generator=generator)
            parameter += step * noise / fan
    return model


def near(model: Any, case: str, scale: float = 0.1) -> Any:
    """Another model close to `model`, so that weights over ten steps have a small variance."""
    other = make_model(case)
    other.policy.load_state_dict(copy.deepcopy(model.policy.state_dict()))
    nudge(other, 0.03 if case.startswith("CrossQ") else scale, 7)
    if CASES[case][0] in ("DQN", "QRDQN"):
        other.policy.load_state_dict(copy.deepcopy(model.policy.state_dict()))
        nudge(other, 0.01, 7)
        other.exploration_rate = 0.4
    return other


def normal_noise() -> NormalActionNoise:
    return NormalActionNoise(np.array([0.1, -0.1]), np.array([0.5, 0.8]))


def ou_noise() -> OrnsteinUhlenbeckActionNoise:
    return OrnsteinUhlenbeckActionNoise(
        np.array([0.1, -0.1]),
        np.array([0.8, 1.2]),
        theta=2.0,
        dt=0.3,
        initial_noise=np.array([0.2, 0.0]),
    )


def one_observation(case_or_space: str) -> Any:
    space = OBSERVATIONS[CASES[case_or_space][2]]
    space.seed(5)
    return space.sample()


def repeat(observation: Any, n: int) -> Any:
    if isinstance(observation, dict):
        return {key: repeat(value, n) for key, value in observation.items()}
    return np.repeat(np.asarray(observation)[None], n, axis=0)


def check_mean_weight(data: ove.Trajectories, log_probs: NDArray[np.float64]) -> None:
    """The mean of the products of ratios is 1 within four standard errors."""
    weights = np.exp(np.add.reduceat(log_probs - data.log_probs, data.starts))
    error = weights.std(ddof=1) / np.sqrt(len(weights))
    assert 0.15 < weights.std() < 6.0, f"a test without power: spread {weights.std()}"
    assert abs(weights.mean() - 1.0) < 4.0 * error, f"{weights.mean()} +- {error}"
