"""Mixtures drawn once per episode: exact probabilities, bounded weights, deterministic policies."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from scipy.stats import chisquare
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove
from ove_sb3.policies.episode_mixture import component_log_ratios

OLD = ove.TabularPolicy([[0.7, 0.3], [0.4, 0.6]])
NEW = ove.TabularPolicy([[0.1, 0.9], [0.5, 0.5]])
ALPHA = np.array([0.8, 0.2])


class Walk(gym.Env[Any, Any]):
    """Three steps; the state is the last action, the reward the action times the step."""

    observation_space = spaces.Discrete(2)
    action_space = spaces.Discrete(2)

    def __init__(self, length: int = 3) -> None:
        self.length = length

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = self.state = 0
        return self.state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.time += 1
        self.state = int(action)
        reward = float(action) * self.time
        return self.state, reward, self.time == self.length, False, {"cost": 2.0 * action}


def mixture(**options: Any) -> ove.MixturePolicy:
    return ove.MixturePolicy([OLD, NEW], ALPHA, per="episode", **options)


def likelihood(policy: ove.TabularPolicy, actions: tuple[int, ...]) -> float:
    """Probability of a sequence of actions in `Walk`."""
    p = np.exp(policy.log_p)
    return float(np.prod([p[s, a] for s, a in zip((0, *actions), actions, strict=False)]))


PATHS = list(itertools.product((0, 1), repeat=3))
PROBABILITY = {
    path: ALPHA[0] * likelihood(OLD, path) + ALPHA[1] * likelihood(NEW, path) for path in PATHS
}


def logged_by_wrapper(n: int) -> ove.Trajectories:
    env = ove.LogActionProbability(Walk(), policy := mixture(rng=1))
    for episode in range(n):
        observation, _ = env.reset(seed=episode)
        state, ended = None, False
        while not ended:
            action, state = policy.predict(
                np.array([observation]), state, np.array([state is None])
            )
            observation, _, ended, _, _ = env.step(int(action[0]))
    return env.trajectories()


def logged_by_vec_wrapper(n: int) -> ove.Trajectories:
    venv = DummyVecEnv([lambda k=k: Walk(3) for k in range(4)])  # type: ignore[misc]
    logger = ove.VecLogActionProbability(venv, policy := mixture(rng=1))
    observations, state, start = logger.reset(), None, np.ones(4, bool)
    for _ in range(3 * n // 4):
        actions, state = policy.predict(observations, state, start)
        observations, _, start, _ = logger.step(actions)
    return logger.trajectories()


LOGS = {
    "collect": lambda n: ove.collect(mixture(), Walk(), n, seed=0),
    "wrapper": logged_by_wrapper,
    "vec wrapper": logged_by_vec_wrapper,
}


@pytest.mark.parametrize("kind", LOGS)
def test_draws_follow_the_logged_probabilities(kind: str) -> None:
    data = LOGS[kind](2_000)
    actions = data.actions.reshape(-1, 3)
    logged = np.exp(data.log_probs.reshape(-1, 3).sum(axis=1))
    expected = np.array([PROBABILITY[tuple(map(int, path))] for path in actions])
    np.testing.assert_allclose(logged, expected, rtol=1e-12)
    counts = [int((actions == path).all(axis=1).sum()) for path in PATHS]
    assert chisquare(counts, len(data) * np.array(list(PROBABILITY.values()))).pvalue > 1e-4


@pytest.mark.parametrize("kind", LOGS)
def test_weights_are_bounded_and_exact(kind: str) -> None:
    data = LOGS[kind](400)
    for index, policy in enumerate((OLD, NEW)):
        result = ove.evaluate(
            data, policy, gamma=1.0, horizon=3, reward_range=(0, 3), quantities=["variance"]
        )
        assert result.stats is not None
        paths = [tuple(map(int, path)) for path in data.actions.reshape(-1, 3)]
        expected = [likelihood(policy, path) / PROBABILITY[path] for path in paths]
        np.testing.assert_allclose(result.stats.weights, expected, rtol=1e-12)
        assert result.stats.weights.max() <= 1 / ALPHA[index] * (1 + 1e-14)
        assert f"exceeds {1 / ALPHA[index]:g}" in str(result["variance"].interval.assumptions)
    assert data.metadata.components[1]["weight"] == 0.2


def test_a_canary_narrows_the_interval_of_long_episodes() -> None:
    log, plain = (
        ove.collect(policy, DummyVecEnv([lambda: Walk(60)] * 20), 300, seed=3)
        for policy in (mixture(), OLD)
    )
    settings: dict[str, Any] = {
        "gamma": 1.0,
        "reward_range": (0, 60),
        "horizon": 60,
        "quantities": ["mean"],
    }
    canary = ove.evaluate(log, NEW, **settings)
    assert canary.diagnostics.effective_sample_size > 48
    assert canary["mean"].interval.guaranteed
    before = ove.evaluate(plain, NEW, **settings)
    assert canary["mean"].interval.width < 0.5 * before["mean"].interval.width
    other = ove.TabularPolicy([[0.6, 0.4], [0.4, 0.6]])
    assert ove.evaluate(log, other, **settings)["mean"].interval.guaranteed  # no component


def test_partial_products_never_exceed_the_bound() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 400, 50)
    log_probs = rng.normal(-1.0, 2.0, (int(lengths.sum()), 2))
    log_probs[rng.random(len(log_probs)) < 0.001, 1] = -np.inf
    for alpha in (0.5, 0.1, 1e-3):
        log_weights = np.log([1 - alpha, alpha])
        ratios = component_log_ratios(log_probs, log_weights, lengths, 1)
        starts = np.cumsum(lengths) - lengths
        for start, length in zip(starts, lengths, strict=True):
            sums = np.cumsum(ratios[start : start + length])
            assert (sums <= -np.log(alpha) + 1e-12).all()
            total = log_probs[start : start + length].sum(axis=0)
            expected = total[1] - np.logaddexp.reduce(total + log_weights)
            np.testing.assert_allclose(sums[-1], expected, atol=1e-9)


def test_recomputed_probabilities_are_the_logged_ones(tmp_path: Path) -> None:
    data = ove.collect(mixture(), Walk(), 50, seed=0, columns=["cost"])
    again = ove.log_prob(mixture(), data.observations, data.actions, lengths=data.lengths)
    np.testing.assert_allclose(again, data.log_probs, rtol=1e-12)
    np.testing.assert_array_equal(data.columns["cost"], 2.0 * data.actions)
    data.save(tmp_path / "log")
    loaded = ove.Trajectories.load(tmp_path / "log")
    assert loaded.metadata.components == data.metadata.components
    settings: dict[str, Any] = {"gamma": 1.0, "horizon": 3, "reward_range": (0, 3)}
    on_disk = ove.evaluate(tmp_path / "log", NEW, **settings)
    assert on_disk["variance"].interval == ove.evaluate(data, NEW, **settings)["variance"].interval
    costs = ove.evaluate(data, NEW, reward="cost", gamma=1.0, horizon=3, reward_range=(0, 2))
    assert costs["mean"].interval.guaranteed


def test_the_state_is_required() -> None:
    policy = mixture()
    with pytest.raises(ove.InvalidInputError, match="`state` must be that of the previous call"):
        policy.predict(np.array([0]))
    action, state = policy.predict(np.array([0]), episode_start=np.array([True]))
    policy.predict(action, state)
    with pytest.raises(ove.InvalidInputError, match="`per` must be one of"):
        ove.MixturePolicy([OLD, NEW], ALPHA, per="day")


class Push(gym.Env[Any, Any]):
    """Twenty steps of a Box; the return measures how far actions are from 0.3."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self._observation(), {}

    def _observation(self) -> Any:
        return self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        reward = -abs(float(action[0]) - 0.3) / 20
        return self._observation(), reward, self.time == 20, False, {}


@pytest.mark.parametrize("algorithm", [PPO, SAC])
def test_a_deterministic_policy_in_a_box(algorithm: Any) -> None:
    model = algorithm("MlpPolicy", Push(), seed=0, device="cpu")
    canary = ove.Deterministic(model)
    behavior = ove.MixturePolicy([model, canary], [0.7, 0.3], per="episode")
    data = ove.collect(behavior, DummyVecEnv([Push] * 16), 400, seed=0)
    settings: dict[str, Any] = {
        "gamma": 1.0,
        "reward_range": (-0.07, 0),
        "horizon": 20,
        "quantities": ["mean"],
    }
    result = ove.evaluate(data, canary, **settings)
    assert result.stats is not None
    weights = result.stats.weights
    ran = weights > 0.0
    np.testing.assert_allclose(weights[ran], 1 / 0.3, rtol=1e-6)  # canary episodes alone
    assert 80 < ran.sum() < 160
    same = ove.evaluate(data, model, deterministic=True, **settings)
    assert same["mean"].interval == result["mean"].interval
    env, returns = Push(), []
    for seed in range(200):
        observation, _ = env.reset(seed=seed)
        total, ended = 0.0, False
        while not ended:
            action, _ = model.predict(observation, deterministic=True)
            observation, reward, ended, _, _ = env.step(action)
            total += reward
        returns.append(total)
    interval = result["mean"].interval
    assert interval.guaranteed
    assert interval.lower <= np.mean(returns) <= interval.upper


def test_refused_components() -> None:
    with pytest.raises(ove.InvalidInputError, match="`weights` must be positive"):
        ove.MixturePolicy([OLD, NEW], [1.0, 0.0], per="episode")
