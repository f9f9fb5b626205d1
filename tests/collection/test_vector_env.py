"""`collect` in environments of `gymnasium.vector`, and in several at a time."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from scipy.stats import binomtest
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove
from ove_sb3.collection.collect import collect
from ove_sb3.policies.policy import NO_CONTEXT, PolicyContext
from tests.policies.toys import Toy, make_model

MODES = list(getattr(gym.vector, "AutoresetMode", [None]))  # not before gymnasium 1.1

EXPERIMENTAL = gym.__version__.startswith("0.")  # environments that their author vectorized
CUSTOM: Any = "custom" if EXPERIMENTAL else "vector_entry_point"


class Scheduled(gym.Env[Any, Any]):
    """Episodes of known lengths; observations are (environment, episode, step)."""

    observation_space = spaces.Box(0, 1_000, (3,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self, number: int = 0) -> None:
        self.number, self.episode, self.time = number, -1, 0

    @property
    def length(self) -> int:
        return 1 + (3 * self.number + 5 * self.episode) % 4

    def observe(self) -> Any:
        return np.array([self.number, self.episode, self.time], np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episode, self.time = self.episode + 1, 0
        return self.observe(), {"reset": True}

    def step(self, action: Any) -> Any:
        reward, info = 100.0 * self.episode + self.time, {"cost": float(10 * self.time + action)}
        self.time += 1
        ended = self.time == self.length
        truncated = ended and self.episode % 2 == 1
        return self.observe(), reward, ended and not truncated, truncated, info

    def action_masks(self) -> Any:
        return np.array([True, self.time % 2 == 0]) & (self.time < self.length)


def vector(makers: Any, mode: Any, kind: Any = SyncVectorEnv) -> Any:
    return kind(makers) if mode is None else kind(makers, autoreset_mode=mode)


class Noting(ove.UniformPolicy):
    """Records the observations that were marked as the first of an episode."""

    starts: dict[tuple[int, int], bool]

    def distribution(self, observations: Any, context: PolicyContext = NO_CONTEXT) -> Any:
        assert context.episode_start is not None
        for row, start in zip(observations, context.episode_start, strict=True):
            self.starts[tuple(int(x) for x in row)] = bool(start)  # type: ignore[index]
        return super().distribution(observations, context)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_every_step_of_every_episode_is_logged_once(mode: Any, kind: Any) -> None:
    policy = Noting(Scheduled.action_space)
    policy.starts = {}
    env = vector([lambda i=i: Scheduled(i) for i in range(3)], mode, kind)
    try:
        data = collect(policy, env, 14, seed=0, columns=["cost"])
    finally:
        env.close()
    assert data.metadata.n_envs == 3
    at = 0
    for k, episode in enumerate(data):
        number, index = k % 3, k // 3
        if k >= 12:  # the last environments have one more
            number, index = k - 11, 4
        length = 1 + (3 * number + 5 * index) % 4
        steps = np.arange(length)
        assert episode.lengths[0] == length
        np.testing.assert_array_equal(
            episode.observations,
            np.stack([np.full(length, number), np.full(length, index), steps], 1),
        )
        np.testing.assert_array_equal(episode.rewards, 100 * index + steps)
        np.testing.assert_array_equal(episode.columns["cost"], 10 * steps + episode.actions)
        np.testing.assert_array_equal(episode.final_observations, [[number, index, length]])
        assert bool(episode.truncated[0]) == (index % 2 == 1) != bool(episode.terminated[0])
        for time in steps:
            assert policy.starts[number, index, int(time)] == (time == 0)  # type: ignore[index]
        at += length
    assert at == data.n_steps


@pytest.mark.parametrize("mode", MODES)
def test_the_same_environments_as_a_vec_env_give_the_same_log(mode: Any) -> None:
    model = make_model("RecurrentPPO-discrete")
    theirs = collect(model, vector([Toy] * 3, mode), 3, seed=4, reward_range=(0, 9))
    ours = collect(model, DummyVecEnv([Toy] * 3), 3, seed=4, reward_range=(0, 9))
    np.testing.assert_array_equal(theirs.observations, ours.observations)
    np.testing.assert_array_equal(theirs.actions, ours.actions)
    np.testing.assert_array_equal(theirs.log_probs, ours.log_probs)
    assert theirs.metadata == ours.metadata


@pytest.mark.parametrize("mode", MODES)
def test_masks_are_those_of_the_step(mode: Any) -> None:
    class Masked(Toy):
        def action_masks(self) -> Any:
            if self.time >= 10:
                return np.zeros(4, np.bool_)
            return np.arange(4) <= self.time % 4

    model = make_model("MaskablePPO-discrete")
    data = collect(model, vector([Masked] * 2, mode), 4, seed=0)
    assert data.action_masks is not None
    expected = np.arange(4)[None, :] <= (np.arange(40) % 10 % 4)[:, None]
    np.testing.assert_array_equal(data.action_masks, expected)


def test_an_environment_vectorized_by_its_author() -> None:
    env = gym.make_vec("CartPole-v1", 4, vectorization_mode=CUSTOM)
    policy = ove.UniformPolicy(spaces.Discrete(2))
    if EXPERIMENTAL:  # with a base class of their own, and without final observations
        with pytest.raises(ove.InvalidInputError, match="got CartPoleVectorEnv"):
            collect(policy, env, 40, seed=0, reward_range=(0, 1))
        return
    data = collect(policy, env, 40, seed=0, reward_range=(0, 1))
    assert (len(data), data.metadata.env_id, data.metadata.horizon) == (40, "CartPole-v1", 500)
    assert data.terminated.all()
    assert (data.rewards == 1).all()
    # CartPole-v1 begins within 0.05 of the upright position, and ends beyond 0.2095 rad or 2.4.
    begins = np.cumsum(data.lengths) - data.lengths
    assert np.abs(np.asarray(data.observations)[begins]).max() <= 0.05
    final = np.abs(np.asarray(data.final_observations))
    assert ((final[:, 2] > 0.2095) | (final[:, 0] > 2.4)).all()


def test_a_mode_that_is_not_known_is_refused() -> None:
    env = SyncVectorEnv([Scheduled] * 2)
    env.metadata = {**env.metadata, "autoreset_mode": "sometimes"}
    with pytest.raises(ove.InvalidInputError, match=r"when it resets itself.*'sometimes'"):
        collect(ove.UniformPolicy(Scheduled.action_space), env, 4)


class ShortOrLong(gym.Env[Any, Any]):
    """Episodes of 1 or 30 steps with probability 1/2 each."""

    observation_space = spaces.Discrete(1)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.left = 30 if self.np_random.random() < 0.5 else 1
        return 0, {}

    def step(self, action: Any) -> Any:
        self.left -= 1
        return 0, 0.0, self.left == 0, False, {}


def test_short_episodes_do_not_come_first() -> None:
    policy = ove.UniformPolicy(ShortOrLong.action_space)
    data = collect(policy, DummyVecEnv([ShortOrLong] * 100), 400, seed=0)
    first = data.lengths[:60] == 30
    assert binomtest(int(first.sum()), 60, 0.5).pvalue > 1e-3
    assert binomtest(int((data.lengths == 30).sum()), 400, 0.5).pvalue > 1e-3


def test_an_id_runs_in_eight_environments() -> None:
    policy = ove.UniformPolicy(spaces.Discrete(2))
    data = collect(policy, "CartPole-v1", 20, seed=0)
    assert data.metadata.n_envs == 8
    same = collect(policy, "CartPole-v1", 20, seed=0, n_envs=8)
    np.testing.assert_array_equal(data.observations, same.observations)
    assert collect(policy, "CartPole-v1", 3, seed=0).metadata.n_envs == 3
    assert collect(policy, gym.make("CartPole-v1"), 3, seed=0).metadata.n_envs == 1


def test_each_environment_of_a_dqn_tosses_its_own_coin() -> None:
    model = make_model("DQN-discrete")
    model.exploration_rate = 0.5
    data = collect(model, SyncVectorEnv([Toy] * 2), 400, seed=0)
    greedy = (np.exp(data.log_probs) > 0.5).reshape(200, 2, 10)  # 1 - 0.5 + 0.5 / 4, or 0.5 / 4
    both = int((greedy[:, 0] & greedy[:, 1]).sum())
    share = 0.625**2  # of steps in which both are greedy, if their coins are independent
    assert binomtest(both, 2_000, share).pvalue > 1e-3
    assert not data.metadata.shared_exploration
