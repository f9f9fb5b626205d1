"""SB3's own draws follow the claimed distribution, for every algorithm and space."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import ove_sb3 as ove

from .distribution_checks import check_distribution
from .toys import (
    CASES,
    check_mean_weight,
    make_model,
    near,
    one_observation,
    repeat,
    toys,
)

N_DRAWS = 20_000


def masks_for(case: str, n: int) -> NDArray[np.bool_] | None:
    if not case.startswith("MaskablePPO"):
        return None
    mask = {
        "discrete": [True, False, True, True],
        "multidiscrete": [True, True, False, False, True],
        "multibinary": [True, False, True, True, True, True],
    }[CASES[case][1]]
    return np.repeat(np.array(mask)[None], n, axis=0)


def sb3_draws(model: Any, case: str) -> NDArray[Any]:
    """Actions that SB3 itself executes for one observation."""
    algorithm, _, _, options = CASES[case]
    observation = one_observation(case)
    if algorithm in ("DQN", "QRDQN"):  # one coin for a whole batch: one observation a call
        return np.array([model.predict(repeat(observation, 1))[0][0] for _ in range(4000)])
    batch = repeat(observation, N_DRAWS)
    if algorithm in ("TD3", "DDPG"):
        model._last_obs = batch
        noise = [model.action_noise() for _ in range(N_DRAWS)]
        return np.asarray(model._sample_action(0, lambda: np.stack(noise), N_DRAWS)[0])
    if options.get("use_sde"):
        (model.actor if hasattr(model, "actor") else model.policy).reset_noise(N_DRAWS)
    if algorithm == "MaskablePPO":
        return np.asarray(model.predict(batch, action_masks=masks_for(case, N_DRAWS))[0])
    return np.asarray(model.predict(batch)[0])


@pytest.mark.parametrize("case", CASES)
def test_sb3_draws_follow_the_claimed_distribution(case: str) -> None:
    model = make_model(case)
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002 (SB3 draws its noise and epsilon from the global state)
    model.action_space.seed(1)
    draws = sb3_draws(model, case)
    n = len(draws)
    batch = repeat(one_observation(case), n)
    check_distribution(
        ove.action_distribution(model, batch, action_masks=masks_for(case, n)), draws
    )


@pytest.mark.parametrize("case", CASES)
def test_own_draws_follow_the_claimed_distribution(case: str) -> None:
    model = make_model(case)
    batch = repeat(one_observation(case), N_DRAWS)
    distribution = ove.action_distribution(model, batch, action_masks=masks_for(case, N_DRAWS))
    draws = distribution.sample(3)
    assert all(model.action_space.contains(action) for action in draws[:100])
    check_distribution(distribution, draws)


@pytest.mark.parametrize("case", CASES)
def test_mean_weight_over_ten_steps_is_one(case: str) -> None:
    _, space, observations, _ = CASES[case]
    model = make_model(case)
    n = 400 if observations == "image" else 2500
    data = ove.collect(model, toys(50, actions=space, observations=observations), n, seed=1)
    assert (data.lengths == 10).all()
    candidate = near(model, case)
    log_probs = ove.log_prob(candidate, data)
    check_mean_weight(data, log_probs)


@pytest.mark.parametrize("case", CASES)
def test_the_behavior_itself_has_log_ratio_zero(case: str) -> None:
    _, space, observations, _ = CASES[case]
    model = make_model(case)
    data = ove.collect(model, toys(4, actions=space, observations=observations), 8, seed=2)
    assert (ove.log_prob(model, data) == data.log_probs).all()
    assert (ove.log_prob(model, data[[5, 1]]) == data[[5, 1]].log_probs).all()
    # Recomputed, it is the same up to rounding in single precision.
    again = ove.log_prob(
        model,
        data.observations,
        data.actions,
        lengths=data.lengths,
        action_masks=data.action_masks,
    )
    np.testing.assert_allclose(again, data.log_probs, rtol=0, atol=2e-4)


@pytest.mark.parametrize("case", CASES)
def test_several_actions_at_once(case: str) -> None:
    """No bit differs from one action after the other, at the bounds of a Box too."""
    model, n = make_model(case), 50
    batch = repeat(one_observation(case), n)
    distribution = ove.action_distribution(model, batch, action_masks=masks_for(case, n))
    actions = [distribution.sample(seed) for seed in range(3)]
    if hasattr(model.action_space, "low"):
        inside = np.nextafter(model.action_space.high, -np.inf, dtype=np.float32)
        for k, edge in enumerate((model.action_space.low, model.action_space.high, inside)):
            actions[k][0] = edge
    together = distribution.log_probs(actions)
    np.testing.assert_array_equal(together, [distribution.log_prob(part) for part in actions])
