from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kstest, norm

from ove_sb3.envs import RecommenderEnv
from ove_sb3.envs.recommender.moments import clipped_normal_moments
from tests.problems.moment_checks import assert_moments_match


def test_default_is_the_published_setting() -> None:
    env = RecommenderEnv()
    means = 10 * np.random.RandomState(1).rand(5)
    sds = 0.1 * np.random.RandomState(0).rand(5)
    np.testing.assert_allclose(env.market.means[0], means, rtol=1e-15)
    np.testing.assert_allclose(env.market.sds[0], sds, rtol=1e-15)
    assert env.reward_range == (0.0, 10.0)
    assert env.horizon == 1


@pytest.mark.parametrize(
    ("mean", "sd"), [(5.0, 0.1), (0.0, 1.0), (-3.0, 2.0), (9.9, 5.0), (30.0, 4.0), (5.0, 100.0)]
)
def test_clipped_normal_moments_equal_quadrature(mean: float, sd: float) -> None:
    low, high = 0.0, 10.0
    normal = norm(mean, sd)

    def moment(f: Any) -> float:
        inside, _ = quad(lambda x: f(x) * normal.pdf(x), low, high, points=[min(max(mean, 0), 10)])
        return float(inside + f(low) * normal.cdf(low) + f(high) * normal.sf(high))

    actual_mean, actual_variance = clipped_normal_moments(np.array(mean), np.array(sd), low, high)
    expected = moment(lambda x: x)
    assert actual_mean == pytest.approx(expected, abs=1e-7)
    assert actual_variance == pytest.approx(moment(lambda x: (x - expected) ** 2), abs=1e-7)


def test_clipped_moments_without_noise() -> None:
    mean, variance = clipped_normal_moments(np.array([-1.0, 4.0, 12.0]), np.zeros(3), 0.0, 10.0)
    np.testing.assert_array_equal(mean, [0.0, 4.0, 10.0])
    np.testing.assert_array_equal(variance, 0.0)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_items": 4, "n_contexts": 3, "noise_sd": 4.0, "context_probabilities": [0.2, 0.5, 0.3]},
        {"n_items": 2, "mean_rewards": [[-1.0, 2.0]], "noise_sd": 2.0, "reward_range": (-1, 1)},
    ],
)
def test_exact_moments_match_a_million_episodes(options: dict[str, Any]) -> None:
    env = RecommenderEnv(**options)
    shape = env.market.means.shape
    policy = np.random.default_rng(1).dirichlet(np.ones(shape[1]), size=shape[0])
    exact = env.exact_moments(policy)
    assert_moments_match(env.simulate(policy, 1_000_000, rng=7).rewards, exact)


def test_single_environment_has_the_stated_distribution() -> None:
    env = RecommenderEnv(n_items=1, mean_rewards=5.0, noise_sd=1.0)
    env.reset(seed=0)
    rewards = []
    for _ in range(3_000):
        env.reset()
        rewards.append(env.step(np.int64(0))[1])
    assert kstest(rewards, norm(5.0, 1.0).cdf).pvalue > 1e-3


def test_batched_episodes_equal_the_single_environment() -> None:
    env = RecommenderEnv(n_items=4, n_contexts=3, noise_sd=3.0)
    episodes = env.simulate(np.full(4, 0.25), 200, rng=42)
    for i in range(200):
        observation, _ = env.reset(seed=42 if i == 0 else None)
        assert observation == episodes.observations[i]
        assert env.step(episodes.actions[i])[1] == episodes.rewards[i]
    assert (episodes.lengths == 1).all()
    assert set(episodes.observations) == {0, 1, 2}


def test_function_and_fixed_actions() -> None:
    env = RecommenderEnv(n_contexts=2)
    policy = np.random.default_rng(3).dirichlet(np.ones(5), size=2)
    table = env.simulate(policy, 500, rng=1)
    fixed = env.simulate(table.actions, 500, rng=1)
    function = env.simulate(lambda c, rng: (table.actions, table.log_probs), 500, rng=1)
    np.testing.assert_array_equal(fixed.rewards, table.rewards)
    np.testing.assert_array_equal(function.rewards, table.rewards)
    np.testing.assert_array_equal(function.log_probs, table.log_probs)
    assert (fixed.log_probs == 0.0).all()
    expected = np.log(policy[table.observations, table.actions])
    np.testing.assert_allclose(table.log_probs, expected, rtol=1e-12)


def test_items_are_drawn_with_their_probabilities_in_each_context() -> None:
    env = RecommenderEnv(n_contexts=2, n_items=3)
    policy = np.array([[0.0, 0.3, 0.7], [0.6, 0.4, 0.0]])
    n = 200_000
    episodes = env.simulate(policy, n, rng=0)
    for context in (0, 1):
        items = episodes.actions[episodes.observations == context]
        shares = np.bincount(items, minlength=3) / items.size
        tolerance = 4 * np.sqrt(policy[context] * (1 - policy[context]) / items.size)
        assert (abs(shares - policy[context]) <= tolerance).all()


def test_text() -> None:
    env = RecommenderEnv(n_items=2, mean_rewards=[[2.0, 10.0]], noise_sd=0.0, render_mode="ansi")
    env.reset(seed=0)
    env.step(np.int64(1))
    lines = str(env.render()).splitlines()
    assert lines[0] == "context 0"
    assert lines[1] == f"item  0 |{'#' * 6:<30}|   2.000"
    assert lines[2] == f"item  1 |{'#' * 30}|  10.000  <- reward 10.000"


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_items": 0}, "n_items"),
        ({"n_contexts": 1.5}, "n_contexts"),
        ({"mean_rewards": [1.0, 2.0]}, "mean_rewards"),
        ({"mean_rewards": float("nan")}, "mean_rewards"),
        ({"noise_sd": -1.0}, "noise_sd"),
        ({"reward_range": (1.0, 1.0)}, "reward_range"),
        ({"reward_range": 3.0}, "reward_range"),
        ({"context_probabilities": [0.5, 0.5]}, "context_probabilities"),
        ({"n_contexts": 2, "context_probabilities": [0.5, 0.6]}, "context_probabilities"),
    ],
)
def test_bad_arguments(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        RecommenderEnv(**options)


@pytest.mark.parametrize("action", [5, -1, 0.5, float("nan"), [0, 1]])
def test_bad_action(action: Any) -> None:
    env = RecommenderEnv()
    env.reset(seed=0)
    with pytest.raises(gym.error.InvalidAction, match="action"):
        env.step(action)


def test_bad_policy() -> None:
    env = RecommenderEnv()
    for policy in (np.ones(5), np.full(4, 0.25), np.full((2, 5), 0.2)):
        with pytest.raises(ValueError, match="policy"):
            env.simulate(policy, 3)
