"""Several wrappers around single environments, and a model that explores in all of them at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.wrappers import TimeLimit
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

import ove_sb3 as ove
from tests.problems.three_states import ThreeStates

from .test_repeated_draws import noisy
from .test_shared_exploration import REASON, dqn, evaluated

N_STEPS = 16

Wrappers = list[ove.LogActionProbability]


def logged(model: Any, n_envs: int, n_steps: int = N_STEPS) -> Wrappers:
    return [
        ove.LogActionProbability(TimeLimit(ThreeStates(), 4), model, total_timesteps=n_steps)
        for _ in range(n_envs)
    ]


def play(model: Any, envs: Wrappers, seed: int, n_steps: int = N_STEPS) -> None:
    """All environments in step, with one call of `predict` for all of them."""
    observations = [env.reset(seed=seed + i)[0] for i, env in enumerate(envs)]
    for _ in range(n_steps):
        actions, _ = model.predict(np.array(observations))
        for i, env in enumerate(envs):
            observations[i], _, terminated, truncated, _ = env.step(actions[i])
            if terminated or truncated:
                observations[i], _ = env.reset()


def joined(envs: Wrappers) -> ove.Trajectories:
    return ove.Trajectories.concat([env.trajectories() for env in envs])


def prefers_one(seed: int) -> DQN:
    """Action 1 with probability 3/4, whatever is observed."""
    model = DQN("MlpPolicy", noisy(), policy_kwargs={"net_arch": [4]}, seed=seed, buffer_size=10)
    model.exploration_rate = 0.5
    network: Any = model.q_net
    with torch.no_grad():
        network.q_net[-1].weight.zero_()
        network.q_net[-1].bias.copy_(torch.tensor([0.0, 1.0]))
    return model


@pytest.mark.filterwarnings("ignore::ove_sb3.errors.DependenceWarning")
def test_no_wrong_number_is_called_guaranteed() -> None:
    truth, missed, wrong = 0.9 * 0.75 + 0.1 * 0.5, 0, 0
    options: Any = {"quantities": ["mean"], "approximate": None, "reward_range": (0, 1)}
    for seed in range(4):
        model = prefers_one(seed)
        envs = [ove.LogActionProbability(noisy(), model, total_timesteps=1) for _ in range(40)]
        play(model, envs, 1000 * seed, n_steps=1)
        interval = ove.evaluate(
            joined(envs), model, gamma=1.0, method=ove.Betting(n_shuffles=1), **options
        )["mean"].interval
        outside = not interval.lower <= truth <= interval.upper
        missed += outside
        wrong += outside and interval.guaranteed
        assert any(REASON in reason for reason in interval.reasons)
    assert wrong == 0
    assert missed  # the numbers themselves are useless


def test_an_environment_that_joins_later_is_noticed(tmp_path: Path) -> None:
    model = dqn(0, DummyVecEnv([ThreeStates]))
    first, second, third = logged(model, 3, n_steps=60)
    play(model, [first], seed=0, n_steps=20)
    assert not first.trajectories().metadata.shared_exploration
    with pytest.warns(ove.DependenceWarning, match="once for several environments whether"):
        play(model, [first, second], seed=10, n_steps=20)
    with pytest.warns(ove.DependenceWarning, match="once for several environments whether"):
        play(model, [first, second, third], seed=20, n_steps=20)
    for k, env in enumerate((first, second, third)):
        env.trajectories().save(tmp_path / str(k))
        assert ove.Trajectories.load(tmp_path / str(k))[1:].metadata.shared_exploration


def test_environments_that_are_decided_on_one_by_one_are_guaranteed() -> None:
    model = dqn(0, DummyVecEnv([ThreeStates]))
    envs = logged(model, 3)
    for seed, env in enumerate(envs):
        play(model, [env], 10 * seed)
    observations = [env.reset()[0] for env in envs]
    for _ in range(2):
        for i, env in enumerate(envs):
            action, _ = model.predict(observations[i])
            observations[i], _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                observations[i], _ = env.reset()
    data = joined(envs)
    assert not data.metadata.shared_exploration
    assert evaluated(data, model).guaranteed


def test_actions_of_a_batch_that_are_drawn_one_by_one_are_guaranteed() -> None:
    model = dqn(0, DummyVecEnv([ThreeStates]))
    envs = logged(model, 2)
    observations = [env.reset(seed=i)[0] for i, env in enumerate(envs)]
    for _ in range(N_STEPS):
        actions = ove.action_distribution(model, np.array(observations)).sample()
        for i, env in enumerate(envs):
            observations[i], _, terminated, truncated, _ = env.step(actions[i])
            if terminated or truncated:
                observations[i], _ = env.reset()
    assert not joined(envs).metadata.shared_exploration


@pytest.mark.parametrize("n_matrices", [1, 2])
def test_one_noise_matrix_for_several_environments(n_matrices: int) -> None:
    options: Any = {"n_steps": 8, "batch_size": 8, "device": "cpu"}
    model = PPO("MlpPolicy", noisy(box=True), use_sde=True, seed=0, **options)
    envs = [ove.LogActionProbability(noisy(box=True), model) for _ in range(2)]
    observations = np.stack([env.reset(seed=i)[0] for i, env in enumerate(envs)])
    model.policy.reset_noise(n_matrices)
    actions, _ = model.predict(observations)
    if n_matrices == 1:
        envs[0].step(actions[0])
        with pytest.warns(ove.DependenceWarning, match="how to explore"):
            envs[1].step(actions[1])
    else:
        for env, action in zip(envs, actions, strict=True):
            env.step(action)
    assert joined(envs).metadata.shared_exploration == (n_matrices == 1)


class Worker(gym.Wrapper[Any, Any, Any, Any]):
    """Asked from outside of its process whether its log is marked."""

    def marked(self) -> bool:
        metadata: Any = self.get_wrapper_attr("trajectories")().metadata
        return bool(metadata.shared_exploration)


@pytest.mark.filterwarnings("ignore::ove_sb3.errors.DependenceWarning")
def test_environments_in_other_processes() -> None:
    model = dqn(0, DummyVecEnv([ThreeStates]))
    venv = SubprocVecEnv(
        [lambda: Worker(ove.LogActionProbability(ThreeStates(), model))] * 2, start_method="fork"
    )
    observations: Any = venv.reset()
    for _ in range(N_STEPS):
        observations, _, _, _ = venv.step(model.predict(observations)[0])
    assert venv.env_method("marked") == [True, True]
    venv.close()
