"""Training is bit for bit the same with and without the callback, for every algorithm."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import sb3_contrib
import torch
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove
from ove_sb3.policies.sb3.isolation import untouched
from tests.policies.toys import CASES, HORIZON, make_model, toys
from tests.problems.three_states import ThreeStates, small_ppo

from .test_callback import log, make_callback, same, weights_of

N_STEPS = 96
# sb3-contrib's RecurrentPPO itself cannot learn with MultiBinary actions.
LEARNING = [case for case in CASES if case != "RecurrentPPO-multibinary"]


def trained(case: str, callback: Any) -> dict[str, torch.Tensor]:
    algorithm, _, _, options = CASES[case]
    off_policy = algorithm in ("DQN", "QRDQN", "SAC", "TQC", "CrossQ", "TD3", "DDPG")
    extra: dict[str, Any] = {"learning_starts": 20, "batch_size": 16} if off_policy else {}
    if options.get("use_sde"):
        extra["sde_sample_freq"] = 1
    model = make_model(case, seed=3, **extra)
    model.learn(N_STEPS, callback=callback)
    return weights_of(model)


@pytest.mark.parametrize("case", LEARNING)
def test_weights_are_the_same_with_and_without(case: str) -> None:
    _, space, observations, _ = CASES[case]
    behavior = make_model(case, seed=1)
    venv = toys(1, actions=space, observations=observations)
    data = ove.collect(behavior, venv, 20, seed=0)
    callback = make_callback(data, reward_range=(-5, 5), horizon=HORIZON, eval_freq=40)
    with_callback = trained(case, callback)
    assert callback.evaluations_timesteps == [40, 80, N_STEPS]
    assert all(callback.evaluations["guaranteed"])
    before = make_model(case, seed=3)
    assert not same(with_callback, weights_of(before)), "a test without power: nothing was learned"
    assert same(with_callback, trained(case, None))


def small_ars() -> sb3_contrib.ARS:
    venv = DummyVecEnv([ThreeStates])
    return sb3_contrib.ARS("LinearPolicy", venv, n_delta=2, seed=0, device="cpu")


def test_ars_is_evaluated_as_well() -> None:
    callback = make_callback(log(200), gamma=1.0, eval_freq=40)
    evaluated = small_ars().learn(200, callback=callback)
    assert callback.n_evaluations > 1
    assert same(weights_of(evaluated), weights_of(small_ars().learn(200)))


def test_ars_has_no_discount_factor_of_its_own() -> None:
    with pytest.raises(ove.InvalidInputError, match="`gamma` must be given for ARS"):
        small_ars().learn(200, callback=make_callback())


def test_data_functions_may_draw_random_numbers() -> None:
    def draw_everywhere(model: Any) -> ove.Trajectories:
        random.random()
        np.random.random(7)  # noqa: NPY002
        torch.rand(5)
        model.action_space.sample()
        model.get_env().action_space.sample()
        model.policy.set_training_mode(not model.policy.training)
        return log(50)

    final = []
    for evaluated in (True, False):
        model = small_ppo()
        callback = make_callback(lambda: draw_everywhere(model)) if evaluated else None  # noqa: B023
        model.learn(96, callback=callback)
        final.append(weights_of(model))
    assert same(*final)


def test_everything_is_restored_even_after_an_error() -> None:
    model = make_model("SAC-box")
    model.action_space.seed(0)
    model.policy.set_training_mode(True)

    def state() -> tuple[Any, ...]:
        return (
            random.getstate(),
            np.random.get_state()[1].tolist(),  # type: ignore[index]  # noqa: NPY002
            torch.get_rng_state().tolist(),
            model.action_space.np_random.bit_generator.state,
            [module.training for module in model.policy.modules()],
        )

    def disturb() -> None:
        with untouched(model):
            random.random()
            np.random.random()  # noqa: NPY002
            torch.rand(1)
            model.action_space.sample()
            model.policy.set_training_mode(False)
            raise ZeroDivisionError

    before = state()
    with pytest.raises(ZeroDivisionError):
        disturb()
    assert state() == before
