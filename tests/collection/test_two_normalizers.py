"""Two VecNormalize around each other: a model must be evaluated on what it saw, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

import ove_sb3 as ove
from tests.policies.toys import toys

ONE = "use one VecNormalize, with norm_obs and norm_reward"


def nested(inner: str, outer: str, venv: Any = None) -> Any:
    venv = toys(2) if venv is None else venv
    for normalized in (inner, outer):
        venv = VecNormalize(
            venv, norm_obs="obs" in normalized, norm_reward="reward" in normalized, clip_obs=1.0
        )
    return venv


def trained(venv: Any) -> PPO:
    model = PPO("MlpPolicy", venv, n_steps=20, batch_size=40, device="cpu", seed=0)
    return model.learn(80)


@pytest.mark.parametrize(("inner", "outer"), [("reward", "obs"), ("obs", "reward"), ("obs", "obs")])
def test_logging_around_two_normalizers_is_refused(inner: str, outer: str) -> None:
    venv = nested(inner, outer)
    model = trained(venv)
    with pytest.raises(ove.InvalidInputError, match=ONE):
        ove.VecLogActionProbability(venv, model)
    with pytest.raises(ove.InvalidInputError, match=ONE):
        ove.VecLogActionProbability(venv)  # the model follows later
    with pytest.raises(ove.InvalidInputError, match=ONE):
        ove.collect(model, venv, 2, seed=0)


@pytest.mark.parametrize("inner", ["obs", "obs, reward"])
@pytest.mark.parametrize("outer", ["reward", "obs"])
def test_candidates_with_two_normalizers_are_refused(inner: str, outer: str) -> None:
    venv = nested(inner, outer)
    model = trained(venv)
    data = ove.collect(ove.UniformPolicy(venv.action_space), toys(2), 4, seed=0)
    for given in (None, venv):
        with pytest.raises(ove.InvalidInputError, match=ONE):
            ove.evaluate(data, model, gamma=0.9, reward_range=(0, 1), vec_normalize=given)
        with pytest.raises(ove.InvalidInputError, match=ONE):
            ove.log_prob(model, data, vec_normalize=given)


def test_a_second_normalizer_of_rewards_does_not_matter_to_a_candidate() -> None:
    venv = nested("reward", "obs")
    model = trained(venv)
    data = ove.collect(ove.UniformPolicy(venv.action_space), toys(2), 4, seed=0)
    seen = venv.normalize_obs(np.asarray(data.observations))
    by_hand = ove.log_prob(model.policy, seen, data.actions)
    np.testing.assert_allclose(ove.log_prob(model, data), by_hand, atol=1e-6)


def test_logging_below_two_normalizers() -> None:
    log = ove.VecLogActionProbability(toys(2))
    venv = nested("reward", "obs", log)
    model = PPO("MlpPolicy", venv, n_steps=20, batch_size=40, device="cpu", seed=0)
    log.set_model(model)
    model.learn(80)
    assert (log.trajectories().rewards == log.trajectories().actions).all()
    log = ove.VecLogActionProbability(toys(2))
    model = PPO("MlpPolicy", nested("obs", "reward", log), n_steps=20, batch_size=40, device="cpu")
    with pytest.raises(ove.InvalidInputError, match=ONE):
        log.set_model(model)
