"""A behavior is marked as adaptive if and only if it changes while it is logged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import ove_sb3 as ove
from tests.policies.toys import Toy, make_model, normal_noise, toys


def run(venv: Any, model: Any, n: int = 25) -> None:
    """Run n steps of a custom loop; episodes have ten steps."""
    observations = venv.reset()
    for _ in range(n):
        actions, _ = model.predict(observations)
        observations, _, _, _ = venv.step(actions)


def by_vector(model: Any) -> None:
    vector = model.policy.parameters_to_vector()
    model.policy.load_from_vector(vector + 0.1)


def by_data(model: Any) -> None:
    model.policy.action_net.bias.data.add_(0.1)


def by_new_data(model: Any) -> None:
    model.policy.action_net.bias.data = torch.ones(4)


def by_new_policy(model: Any) -> None:
    model.policy = make_model("PPO-discrete", seed=1).policy


def by_nothing(model: Any) -> None:
    model.policy.load_from_vector(model.policy.parameters_to_vector())
    model.policy.train()
    model.policy.optimizer.param_groups[0]["lr"] = 1.0


CHANGES = (by_vector, by_data, by_new_data, by_new_policy, by_nothing)


@pytest.mark.parametrize("change", CHANGES)
def test_weights_changed_between_episodes(change: Callable[[Any], None], tmp_path: Path) -> None:
    model = make_model("PPO-discrete")
    venv = ove.VecLogActionProbability(toys(2), model, tmp_path)
    run(venv, model)
    assert not venv.trajectories().metadata.adaptive
    assert venv.trajectories().metadata.fingerprint is not None
    change(model)
    run(venv, model)
    changed = change is not by_nothing
    data = venv.trajectories()
    assert data.metadata.adaptive == changed
    assert (data.metadata.fingerprint is None) == changed
    if change is by_new_policy:  # takes effect immediately
        late = data[len(data) // 2 :]
        expected = ove.log_prob(model, late.observations, late.actions)
        np.testing.assert_allclose(late.log_probs, expected, atol=1e-5)


@pytest.mark.parametrize("change", [None, "epsilon"])
def test_a_schedule_of_exploration(change: str | None) -> None:
    model = make_model("DQN-discrete")
    venv = ove.VecLogActionProbability(toys(1), model)
    run(venv, model)
    if change:
        model.exploration_rate = 0.2
    run(venv, model)
    assert venv.trajectories().metadata.adaptive == bool(change)


def test_weights_set_before_the_first_step() -> None:
    model = make_model("PPO-discrete")
    venv = ove.VecLogActionProbability(toys(1), model)
    by_vector(model)
    run(venv, model)
    data = venv.trajectories()
    assert not data.metadata.adaptive
    assert (ove.log_prob(model, data) == data.log_probs).all()


@pytest.mark.parametrize("training", [True, False])
def test_running_statistics(training: bool) -> None:
    inner = VecNormalize(toys(2))
    model = PPO("MlpPolicy", inner, n_steps=16, batch_size=16, device="cpu", seed=0)
    run(inner, model)
    inner.training = training
    venv = ove.VecLogActionProbability(inner, model)
    run(venv, model)
    assert venv.trajectories().metadata.adaptive == training


def test_another_model_named_later() -> None:
    first, second = make_model("PPO-discrete"), make_model("PPO-discrete", seed=1)
    venv = ove.VecLogActionProbability(toys(1), first)
    venv.set_model(second)
    venv.set_model(first)  # no policy has acted yet
    run(venv, first)
    assert not venv.trajectories().metadata.adaptive
    venv.set_model(first)
    run(venv, first)
    venv.set_model(make_model("PPO-discrete"))  # the same distribution
    run(venv, first)
    assert not venv.trajectories().metadata.adaptive
    venv.set_model(second)
    run(venv, second)
    assert venv.trajectories().metadata.adaptive
    assert venv.trajectories().metadata.fingerprint is None
    venv.set_model(second)
    run(venv, second)
    venv.set_model(first)
    run(venv, first)
    assert venv._logger.recorder.metadata.adaptive


def test_a_model_renamed_after_learning_stays_marked() -> None:
    venv = ove.VecLogActionProbability(toys(1))
    model = PPO("MlpPolicy", venv, n_steps=20, batch_size=20, device="cpu", seed=0)
    venv.set_model(model)
    model.learn(20)
    venv.set_model(model)
    run(venv, model)
    assert venv._logger.recorder.metadata.adaptive
    other = ove.VecLogActionProbability(toys(1), ove.UniformPolicy(Toy().action_space))
    run(other, ove.UniformPolicy(Toy().action_space))
    other.set_model(make_model("A2C-discrete"))
    run(other, make_model("A2C-discrete"))
    assert other.trajectories().metadata.adaptive
    assert other.trajectories().metadata.behavior is None  # neither name holds for all


def single_wrappers(n: int, model: Any = None, path: Path | None = None) -> tuple[Any, list[Any]]:
    envs = [ove.LogActionProbability(Toy(), model, path) for _ in range(n)]
    return DummyVecEnv([lambda env=env: env for env in envs]), envs  # type: ignore[misc]


@pytest.mark.parametrize("on_disk", [True, False])
def test_single_wrappers_side_by_side(on_disk: bool, tmp_path: Path) -> None:
    """Episodes of a learner that overlap cannot be put in order; those of a fixed policy can."""
    path = tmp_path if on_disk else None
    fixed = make_model("PPO-discrete")
    venv, envs = single_wrappers(3, fixed, path)
    run(venv, fixed)
    assert not envs[0].trajectories().metadata.adaptive
    remedy = "Use VecLogActionProbability"
    by_data(fixed)
    with pytest.raises(ove.InvalidInputError, match=remedy):
        run(venv, fixed)
    venv, envs = single_wrappers(3)
    model = PPO("MlpPolicy", venv, n_steps=20, batch_size=20, device="cpu", seed=0)
    for env in envs:
        env.set_model(model)
    with pytest.raises(ove.InvalidInputError, match=f"got 3 in parallel.*{remedy}"):
        model.learn(60)


def test_a_single_wrapper_beside_a_learner_in_many() -> None:
    """Episodes logged between rounds of training elsewhere are in order, and marked as adaptive."""
    model = PPO("MlpPolicy", toys(3), n_steps=20, batch_size=20, device="cpu", seed=0)
    env = ove.LogActionProbability(Toy(), model)
    venv = DummyVecEnv([lambda: env])
    for _ in range(2):
        run(venv, model)
        model.learn(60)
    run(venv, model)
    assert env.trajectories().metadata.adaptive


def test_td3_noise_replaced() -> None:
    model = make_model("TD3-box")
    policy = ove.MixturePolicy([model], [1.0])
    before = policy.state_digest()
    model.action_noise = normal_noise()
    assert policy.state_digest() == before
    model.action_noise._sigma = np.array([0.1, 0.1])
    assert policy.state_digest() != before
