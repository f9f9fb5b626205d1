"""A seed that is used more than once: its episodes share random numbers, and the label says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from scipy.stats import binomtest
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove

DELTA = 0.05
REASON = "from the same seed more than once"
RNGS = count(1000)  # of actions
N_ACTIONS = 100  # so many that the same coins do not give the same episodes


class Coin(gym.Env[Any, Any]):
    """One step, whose reward is nearly decided by a coin in `reset`: its mean is 1/2."""

    observation_space = spaces.Discrete(1)
    action_space = spaces.Discrete(N_ACTIONS)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.coin = self.np_random.random() < 0.5
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        reward = 0.9 * self.coin + 0.1 * action / (N_ACTIONS - 1)
        return 0, float(reward), True, False, {}


def uniform() -> ove.UniformPolicy:
    return ove.UniformPolicy(Coin.action_space, Coin.observation_space, rng=next(RNGS))


def venv(n_envs: int = 1) -> DummyVecEnv:
    return DummyVecEnv([Coin] * n_envs)


def loop(seeds: Sequence[int | None], path: Path | None = None) -> ove.Trajectories:
    """One episode for every seed."""
    policy = uniform()
    env = ove.LogActionProbability(Coin(), policy, path, total_timesteps=len(seeds))
    for seed in seeds:
        observation, _ = env.reset(seed=seed)
        env.step(policy.predict(observation)[0])
    data = env.trajectories()
    env.close()
    return data


def vec_loop(
    seeds: Sequence[int | None], n_envs: int = 2, n_steps: int = 1, path: Path | None = None
) -> ove.Trajectories:
    """Some steps of every environment for every seed."""
    total = n_envs * n_steps * len(seeds)
    policy = uniform()
    env = ove.VecLogActionProbability(venv(n_envs), policy, path, total_timesteps=total)
    for seed in seeds:
        if seed is not None:
            env.seed(seed)
        observations: Any = env.reset()
        for _ in range(n_steps):
            observations, _, _, _ = env.step(policy.predict(observations)[0])
    data = env.trajectories()
    env.close()
    return data


def collected(
    seed: int | None, slope: float = 0.0, n: int = 16, n_envs: int = 8, path: Path | None = None
) -> ove.Trajectories:
    policy = ove.TabularPolicy([np.linspace(1 - slope, 1 + slope, N_ACTIONS) / N_ACTIONS])
    return ove.collect(policy, venv(n_envs), n, seed=seed, path=path)


def several(seed: int) -> ove.Trajectories:
    """Logs of several behaviors, all with the same seed."""
    return ove.Trajectories.concat([collected(seed, slope) for slope in np.linspace(0, 0.2, 12)])


def reset_seeds(data: ove.Trajectories) -> list[tuple[int, int]]:
    return [(first, last) for _, kind, first, last in data.metadata.seeds if kind == "reset"]


def interval_of(data: ove.Trajectories | Path) -> ove.Interval:
    result = ove.evaluate(
        data,
        uniform(),
        gamma=1.0,
        reward_range=(0, 1),
        horizon=1,
        delta=DELTA,
        quantities=["mean"],
        approximate=None,
        method=ove.Betting(n_shuffles=1),
    )
    return result["mean"].interval


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: loop([seed] * 30),
        lambda seed: vec_loop([seed] * 40, n_envs=1, n_steps=10),
        several,
    ],
    ids=["reset(seed)", "venv.seed(seed)", "collect(seed)"],
)
def test_no_wrong_number_is_called_guaranteed(make: Callable[[int], ove.Trajectories]) -> None:
    n_seeds, wrong, missed = 20, 0, 0
    for seed in range(n_seeds):
        interval = interval_of(make(seed))
        miss = not interval.lower <= 0.5 <= interval.upper
        missed += miss
        wrong += miss and interval.guaranteed
    excess = binomtest(missed, n_seeds, DELTA, alternative="greater").pvalue
    assert excess < 1e-3, f"a test without power: {missed} of {n_seeds} missed"
    assert binomtest(wrong, n_seeds, DELTA, alternative="greater").pvalue > 1e-3, f"{wrong} wrong"


@pytest.mark.parametrize(
    "make",
    [
        lambda path: loop([0, *[None] * 49], path),
        lambda path: loop(list(range(50)), path),
        lambda path: vec_loop([0, *[None] * 24], path=path),
        lambda path: vec_loop(list(range(0, 50, 2)), path=path),
        lambda path: collected(0, n=50, path=path),
    ],
    ids=["first reset", "a seed for each", "first venv.seed", "seeds that are apart", "collect"],
)
@pytest.mark.parametrize("on_disk", [False, True])
def test_correct_use_is_guaranteed(
    make: Callable[[Path | None], ove.Trajectories], on_disk: bool, tmp_path: Path
) -> None:
    data = make(tmp_path / "log" if on_disk else None)
    assert data.metadata.seeds
    assert interval_of(data).guaranteed


def test_episodes_that_are_written_already_are_marked(tmp_path: Path) -> None:
    policy = uniform()
    env = ove.LogActionProbability(Coin(), policy, tmp_path, flush_every=1)
    for seed in (0, None, 1, None):
        observation, _ = env.reset(seed=seed)
        env.step(policy.predict(observation)[0])
    assert not ove.Trajectories.load(tmp_path).metadata.repeated_seeds
    observation, _ = env.reset(seed=0)
    env.step(policy.predict(observation)[0])
    data = ove.Trajectories.load(tmp_path)  # as after a kill: the wrapper is not closed
    assert data.metadata.repeated_seeds
    log_id = env._logger.recorder.metadata.log_ids[0]
    assert set(data.metadata.seeds) > {(log_id, "reset", 0, 1)}
    assert reset_seeds(data) == [(0, 1)]
    assert data[:2].metadata.repeated_seeds
    reasons = interval_of(tmp_path).reasons
    assert any(REASON in reason for reason in reasons)
    env.close()


def test_neighboring_seeds_of_a_vec_env_overlap() -> None:
    assert vec_loop([0, 1], n_envs=2).metadata.repeated_seeds
    assert not vec_loop([0, 2], n_envs=2).metadata.repeated_seeds


def test_a_model_with_a_seed_in_seeded_environments_learns() -> None:
    env = ove.VecLogActionProbability(make_vec_env(Coin, n_envs=2, seed=0))
    env.reset()
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=16, seed=0, device="cpu")
    env.set_model(model)
    model.learn(32)
    metadata = env.trajectories().metadata
    assert reset_seeds(env.trajectories()) == [(0, 1)]
    assert not metadata.repeated_seeds
    env.set_model(PPO("MlpPolicy", env, n_steps=8, batch_size=16, seed=0, device="cpu"))
    env.model.learn(32)  # the second model has seeded the environments again
    assert env.trajectories().metadata.repeated_seeds


def test_only_seeds_of_episodes_with_a_step_count() -> None:
    policy, env = uniform(), ove.LogActionProbability(Coin())
    for _ in range(2):  # before there is a model
        env.reset(seed=0)
        env.step(0)
    env.reset(seed=0)
    env.set_model(policy)
    env.reset(seed=1)
    env.reset(seed=0)
    env.reset()  # goes on with the random numbers of seed 0
    env.step(policy.predict(0)[0])
    assert reset_seeds(env.trajectories()) == [(0, 0)]
    assert not env.trajectories().metadata.repeated_seeds
    env.reset(seed=1)
    env.step(policy.predict(0)[0])
    assert not env.trajectories().metadata.repeated_seeds


class OwnSeeds(DummyVecEnv):
    """Seeds its environments itself, and does not tell how."""

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        for i, env in enumerate(self.envs):
            env.reset(seed=None if seed is None else seed + i)
        return [None] * self.num_envs


def test_environments_that_keep_their_seeds_to_themselves() -> None:
    policy = uniform()
    env = ove.VecLogActionProbability(OwnSeeds([Coin] * 2), policy)
    for seed, repeated in [(0, False), (2, False), (3, True)]:
        env.seed(seed)
        env.step(policy.predict(env.reset())[0])
        assert env.trajectories().metadata.repeated_seeds == repeated
