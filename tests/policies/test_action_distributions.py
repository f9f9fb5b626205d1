"""SB3's own draws follow the claimed distribution, for every algorithm and space."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from numpy.typing import NDArray

import ove_sb3 as ove
from ove_sb3.policies.bounds import BoxBounds
from ove_sb3.policies.box import ClippedNormal, SquashedNormal

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
    """No bit differs from one action and one model after the other, at the bounds of a Box too."""
    model, n = make_model(case), 50
    batch, masks = repeat(one_observation(case), n), masks_for(case, n)
    models = [model, make_model(case, seed=1)]
    if masks is None:
        models.append(ove.UniformPolicy(model.action_space))
    distribution, *others = (
        ove.action_distribution(one, batch, action_masks=masks) for one in models
    )
    actions = [distribution.sample(seed) for seed in range(3)]
    if hasattr(model.action_space, "low"):
        inside = np.nextafter(model.action_space.high, -np.inf, dtype=np.float32)
        for k, edge in enumerate((model.action_space.low, model.action_space.high, inside)):
            actions[k][0] = edge
    for other in others:
        together = distribution.log_probs(actions, other)
        for one, log_probs in zip((distribution, other), together, strict=True):
            np.testing.assert_array_equal(log_probs, [one.log_prob(part) for part in actions])


@pytest.mark.parametrize("kind", [ClippedNormal, SquashedNormal])
@pytest.mark.parametrize(("least", "most"), [(1e-6, 1e-3), (0.05, 2.0)])
def test_two_normals_at_once(kind: Any, least: float, most: float) -> None:
    """No bit differs where actions are rounded coarsely, for one of the two or for both."""
    rng, bounds = np.random.default_rng(0), BoxBounds(spaces.Box(-3.0, 3.0, (2,), np.float32))
    first, second = (
        kind(bounds, rng.normal(0.0, 3.0, (200, 2)), rng.uniform(least, most, (200, 2)))
        for _ in range(2)
    )
    actions = [*(first.sample(rng) for _ in range(3)), second.sample(rng)]
    for one, log_probs in zip((first, second), first.log_probs(actions, second), strict=True):
        np.testing.assert_array_equal(log_probs, [one.log_prob(part) for part in actions])
    elsewhere = kind(
        BoxBounds(spaces.Box(-3.0, np.float32(3.0000005), (2,), np.float32)), first.mean, first.std
    )
    other = first.log_probs(actions, elsewhere)[1]
    np.testing.assert_array_equal(other, [elsewhere.log_prob(part) for part in actions])
