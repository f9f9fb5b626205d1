"""Canary logs with memory, masks, episodes of different length, resets, crashes and changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from sb3_contrib import MaskablePPO, RecurrentPPO
from stable_baselines3 import DDPG, PPO, SAC
from stable_baselines3.common.noise import OrnsteinUhlenbeckActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove
from ove_sb3.policies.episode_mixture import COMPONENT_LOG_PROBS
from tests.data.test_storage import same

ALPHA = np.array([0.75, 0.25])


class Ragged(gym.Env[Any, Any]):
    """Episodes of 1 to 9 steps; two of three actions are valid at any time."""

    observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = spaces.Discrete(3)
    left = -1  # steps until all instances together fail

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.length = int(self.np_random.integers(1, 10))
        self.time = 0
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        Ragged.left -= 1
        if Ragged.left == 0:
            raise RuntimeError("the simulator has died")
        self.time += 1
        reward = float(action) / 2 * self.observation[0] ** 2
        return self._observe(), float(reward), self.time == self.length, False, {}

    def _observe(self) -> Any:
        self.observation = self.np_random.uniform(-1.0, 1.0, 3).astype(np.float32)
        return self.observation

    def action_masks(self) -> Any:
        return np.arange(3) != int(10 * abs(self.observation[1])) % 3


def make_models(algorithm: Any) -> list[Any]:
    policy = "MlpLstmPolicy" if algorithm is RecurrentPPO else "MlpPolicy"
    kwargs = {"net_arch": [8]} | ({"lstm_hidden_size": 8} if algorithm is RecurrentPPO else {})
    models = [
        algorithm(
            policy, Ragged(), n_steps=64, seed=seed, device="cpu", policy_kwargs=kwargs
        ).learn(64)
        for seed in (0, 1)
    ]
    for model in models:  # sharper, so that the episodes tell the two apart
        for parameter in model.policy.action_net.parameters():
            parameter.data *= 40.0
    return models


def whole_probabilities(data: ove.Trajectories, models: list[Any]) -> Any:
    """Log-probability of the actions of every episode under every model, (K, n)."""
    return np.array([np.add.reduceat(ove.log_prob(m, data), data.starts) for m in models])


@pytest.mark.parametrize("algorithm", [PPO, RecurrentPPO, MaskablePPO])
@pytest.mark.parametrize("n_envs", [1, 5])
def test_episodes_side_by_side(algorithm: Any, n_envs: int) -> None:
    models = make_models(algorithm)
    canary = ove.MixturePolicy(models, ALPHA, per="episode")
    data = ove.collect(canary, DummyVecEnv([Ragged] * n_envs), 150, seed=0)
    assert len(np.unique(data.lengths)) == 9
    assert (data.action_masks is not None) == (algorithm is MaskablePPO)
    likelihoods = whole_probabilities(data, models)
    expected = np.logaddexp.reduce(likelihoods + np.log(ALPHA)[:, None], axis=0)
    logged = np.add.reduceat(data.log_probs, data.starts)
    np.testing.assert_allclose(logged, expected, atol=1e-4)
    assert np.abs(likelihoods[0] - likelihoods[1]).max() > 1.0
    for index, model in enumerate(models):
        result = ove.evaluate(
            data, model, gamma=1.0, reward_range=(0, 1), horizon=9, quantities=["mean"]
        )
        assert result.stats is not None
        weights = result.stats.weights
        np.testing.assert_allclose(weights, np.exp(likelihoods[index] - expected), rtol=1e-3)
        assert weights.max() <= 1 / ALPHA[index] * (1 + 1e-14)
        assert result.stats.max_log_weight <= -np.log(ALPHA[index]) + 1e-14
        assert abs(weights.mean() - 1.0) < 5 * weights.std() / len(weights) ** 0.5
        assert result["mean"].interval.guaranteed


def test_a_reset_begins_a_new_draw() -> None:
    models = make_models(RecurrentPPO)
    canary = ove.MixturePolicy(models, ALPHA, per="episode", rng=0)
    env = ove.LogActionProbability(Ragged(), canary)
    rng = np.random.default_rng(0)
    for _ in range(60):
        observation, _ = env.reset()
        state, ended = None, False
        cut = int(rng.integers(1, 12))  # some episodes are abandoned before their end
        for _ in range(cut):
            start = np.array([state is None])
            action, state = canary.predict(observation[None], state, start)
            observation, _, ended, _, _ = env.step(int(action[0]))
            if ended:
                break
    data = env.trajectories()
    assert 20 < len(data) < 60
    assert data.metadata.incomplete_fraction > 0.1
    likelihoods = whole_probabilities(data, models)
    expected = np.logaddexp.reduce(likelihoods + np.log(ALPHA)[:, None], axis=0)
    logged = np.add.reduceat(data.log_probs, data.starts)
    np.testing.assert_allclose(logged, expected, atol=1e-4)


def test_a_crash_changes_nothing(tmp_path: Path) -> None:
    canary = ove.MixturePolicy(make_models(PPO), ALPHA, per="episode")
    envs = DummyVecEnv([Ragged] * 3)
    whole = ove.collect(canary, envs, 60, seed=1, path=tmp_path / "whole")
    crashes = 0
    for attempt in range(20):
        Ragged.left = 150 if attempt < 2 else -1
        try:
            data = ove.collect(canary, DummyVecEnv([Ragged] * 3), 60, seed=1, path=tmp_path / "log")
        except RuntimeError:
            crashes += 1
        else:
            break
    Ragged.left = -1
    assert crashes == 2
    same(data, whole)
    assert data.metadata.components == whole.metadata.components
    loaded = ove.Trajectories.load(tmp_path / "log")
    np.testing.assert_array_equal(
        loaded.columns[COMPONENT_LOG_PROBS], whole.columns[COMPONENT_LOG_PROBS]
    )


def test_a_component_that_learns_is_no_component_of_the_log() -> None:
    models = make_models(PPO)
    canary = ove.MixturePolicy(models, ALPHA, per="episode", rng=0)
    env = ove.LogActionProbability(Ragged(), canary)
    before = make_models(PPO)[1]  # as it was
    for episode in range(80):
        if episode == 40:
            models[1].policy.action_net.weight.data *= -1.0
        observation, _ = env.reset(seed=episode)
        state, ended = None, False
        while not ended:
            start = np.array([state is None])
            action, state = canary.predict(observation[None], state, start)
            observation, _, ended, _, _ = env.step(int(action[0]))
    data = env.trajectories()
    assert data.metadata.adaptive
    assert data.metadata.components == ()
    options: dict[str, Any] = {"gamma": 1.0, "reward_range": (0, 1), "horizon": 9}
    for model in (before, models[1], models[0]):
        result = ove.evaluate(data, model, quantities=["mean"], **options)
        assert result.plan.assumptions.max_weight is None
        ratios = ove.log_prob(model, data) - data.log_probs
        assert result.stats is not None
        expected = np.exp(np.add.reduceat(ratios, data.starts))
        np.testing.assert_allclose(result.stats.weights, expected, rtol=1e-6)


class Push(gym.Env[Any, Any]):
    """One step in a Box."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), float(action[0]), True, False, {}


def test_noise_with_a_state_is_refused() -> None:
    noise = OrnsteinUhlenbeckActionNoise(np.zeros(1), 0.2 * np.ones(1))
    noisy = DDPG("MlpPolicy", Push(), action_noise=noise, device="cpu")
    plain = SAC("MlpPolicy", Push(), device="cpu")
    for per in ("step", "episode"):
        with pytest.raises(ove.UnsupportedPolicyError, match="Ornstein-Uhlenbeck"):
            ove.MixturePolicy([plain, noisy], ALPHA, per=per)


def test_noise_of_gsde_is_drawn_again_at_every_step() -> None:
    models = [
        SAC("MlpPolicy", Push(), use_sde=True, seed=seed, device="cpu", sde_sample_freq=-1)
        for seed in (0, 1)
    ]
    canary = ove.MixturePolicy(models, ALPHA, per="episode")
    data = ove.collect(canary, Push(), 60, seed=0)
    again = ove.log_prob(canary, data.observations, data.actions, lengths=data.lengths)
    np.testing.assert_allclose(again, data.log_probs, atol=1e-3)
    assert len(np.unique(data.actions)) == 60
