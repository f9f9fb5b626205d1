"""BindLogger, and wrappers that are not bound."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

import ove_sb3 as ove


def make(n_envs: int = 2) -> VecEnv:
    return make_vec_env("CartPole-v1", n_envs=n_envs, seed=0)


def ppo(venv: VecEnv) -> PPO:
    return PPO("MlpPolicy", venv, n_steps=64, batch_size=64, device="cpu", seed=0)


def test_it_binds_the_training_environment_only(tmp_path: Path) -> None:
    venv = ove.VecLogActionProbability(make(), path=tmp_path / "log")
    unbound = ove.VecLogActionProbability(make(1), path=tmp_path / "eval")
    evaluate = EvalCallback(unbound, n_eval_episodes=2, eval_freq=64, verbose=0)
    model = ppo(venv)
    model.learn(256, callback=[ove.BindLogger(), evaluate])
    model.learn(128, callback=ove.BindLogger(), reset_num_timesteps=False)
    expected = ove.VecLogActionProbability(make())
    other = ppo(expected)
    expected.set_model(other)
    other.learn(256)
    other.learn(128, reset_num_timesteps=False)
    venv.close()
    venv.close()
    data, same = ove.Trajectories.load(tmp_path / "log"), expected.trajectories()
    np.testing.assert_array_equal(data.log_probs, same.log_probs)
    np.testing.assert_array_equal(data.actions, same.actions)
    assert data.metadata.adaptive
    unbound.close()
    assert not (tmp_path / "eval").exists()
    with pytest.raises(ove.InvalidInputError, match="`model` must be set"):
        unbound.trajectories()


def test_every_run_has_a_directory_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lengths = []
    for verbose in (0, 1, 0):
        venv = ove.VecLogActionProbability(make(), path=tmp_path / "run")
        model = ppo(venv)
        model.learn(256, callback=ove.BindLogger(verbose=verbose))
        model.learn(128, callback=ove.BindLogger(), reset_num_timesteps=False)
        lengths.append(len(venv.trajectories()))
        venv.close()
    names = ["run", "run_2", "run_3"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert [len(ove.open_log(tmp_path / name)) for name in names] == lengths
    printed = capsys.readouterr().out
    assert f"Logging to {tmp_path / 'run_2'}" in printed
    assert printed.count("Logging to") == 1


def test_a_wrapper_that_is_bound_stays_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "run"
    for _ in range(2):
        venv = ove.VecLogActionProbability(make(), path=path)
        model = ppo(venv)
        venv.set_model(model)
        model.learn(128, callback=ove.BindLogger())
        venv.close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_below_a_normalizer_the_original_observations_are_logged() -> None:
    logger = ove.VecLogActionProbability(make())
    model = ppo(VecNormalize(logger))
    model.learn(256, callback=ove.BindLogger())
    data = logger.trajectories()
    assert np.abs(data.rewards - 1.0).max() == 0.0
    assert data.metadata.adaptive
    # Each step was logged with the probability at that time: ratios to the last model vary.
    assert np.isfinite(ove.log_prob(model, data)).all()


def test_without_a_wrapper_it_says_so() -> None:
    with pytest.raises(ove.InvalidInputError, match="`BindLogger` must be used with"):
        ppo(make()).learn(64, callback=ove.BindLogger())


def test_a_model_cannot_be_set_in_the_middle_of_an_episode() -> None:
    env = ove.LogActionProbability(gym.make("CartPole-v1"))
    env.reset(seed=0)
    env.step(0)
    policy = ove.UniformPolicy(env.action_space, env.observation_space, rng=0)
    with pytest.raises(ove.InvalidInputError, match="1 steps were taken without it"):
        env.set_model(policy)
    env.reset()
    env.set_model(policy)
    ended = False
    while not ended:
        _, _, ended, _, _ = env.step(int(policy.predict(env.observation_space.sample())[0]))
    assert len(env.trajectories()) == 1
