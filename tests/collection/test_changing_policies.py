"""Policies of users and mixtures that change while they are logged."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove
from ove_sb3.policies.discrete import Categorical

OLD, NEW = ove.TabularPolicy([[0.8, 0.2]]), ove.TabularPolicy([[0.2, 0.8]])
SETTINGS: dict[str, Any] = {"gamma": 1.0, "horizon": 1, "quantities": ["mean"], "approximate": None}


class Coin(gym.Env[Any, Any]):
    """One step; the reward is the action."""

    observation_space, action_space = spaces.Discrete(1), spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 0, float(action), True, False, {}


class Biased:
    """Takes the second action with probability p."""

    observation_space, action_space = Coin.observation_space, Coin.action_space

    def __init__(self, p: float) -> None:
        self.p, self.rng = p, np.random.default_rng(0)

    def predict(self, observation: Any) -> int:
        return int(self.rng.random() < self.p)


def probabilities(model: Any, observations: Any, **_: Any) -> Any:
    table = np.tile([1 - model.p, model.p], (len(observations), 1))
    return Categorical(np.log(table), model.action_space)


ove.register_policy(Biased, probabilities)


def log_of(model: Biased, *later: float) -> ove.Trajectories:
    env = ove.LogActionProbability(Coin(), model, reward_range=(0, 1))
    for p in (model.p, *later):
        model.p = p
        for _ in range(100):
            observation, _ = env.reset()
            env.step(model.predict(observation))
    return env.trajectories()


def test_a_registered_policy_that_changes() -> None:
    for later in ((0.7,), (0.7, 0.5)):
        model = Biased(0.5)
        data = log_of(model, *later)
        assert data.metadata.adaptive
        assert data.metadata.fingerprint is None
        result = ove.evaluate(data, Biased(0.6), **SETTINGS)
        assert result.guaranteed  # in the order of the log
        assert not ove.evaluate(data, model, **SETTINGS).guaranteed  # it may have learned from it


def test_a_registered_policy_that_does_not_change() -> None:
    model = Biased(0.5)
    data = log_of(model, 0.5)
    assert not data.metadata.adaptive
    for candidate in (model, Biased(0.6)):
        result = ove.evaluate(data, candidate, **SETTINGS)
        assert result.guaranteed
        assert result["mean"].behavior_interval is not None
    venv = ove.VecLogActionProbability(DummyVecEnv([Coin] * 2), model, reward_range=(0, 1))
    venv.reset()
    for _ in range(20):
        venv.step(np.array([model.predict(0), model.predict(0)]))
    assert not venv.trajectories().metadata.adaptive


def test_a_ramp_of_a_canary_takes_a_new_mixture() -> None:
    for per in ("step", "episode"):
        env = ove.LogActionProbability(Coin(), reward_range=(0, 1))
        for rng, share in enumerate((0.1, 0.5)):
            mixture = ove.MixturePolicy([OLD, NEW], [1 - share, share], per=per, rng=rng)
            env.set_model(mixture)
            for _ in range(200):
                observation, _ = env.reset()
                env.step(mixture.predict(observation, None, np.array([True]))[0])
        data = env.trajectories()
        assert data.metadata.adaptive
        assert data.metadata.fingerprint is None
        assert data.metadata.components == ()
        result = ove.evaluate(data, NEW, **SETTINGS)
        assert result.guaranteed
        assert 0.8 in result["mean"].interval
