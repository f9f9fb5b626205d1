"""The fast path for plain networks gives their own outputs, and is used only where valid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from stable_baselines3.common.torch_layers import MlpExtractor

import ove_sb3 as ove
from ove_sb3.policies.sb3.networks import PlainMlp

from .toys import make_model


def observations(n: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=(n, 3)).astype(np.float32)


def by_sb3(model: Any, x: NDArray[np.float32]) -> NDArray[np.float64]:
    """Log-probabilities of all choices, as SB3 computes them."""
    with torch.no_grad():
        distribution = model.policy.get_distribution(torch.as_tensor(x)).distribution
    return np.asarray(distribution.logits, dtype=np.float64)


def by_distribution(model: Any, x: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.asarray(ove.action_distribution(model, x).log_p)  # type: ignore[attr-defined]


@pytest.mark.parametrize("activation", [torch.nn.Tanh, torch.nn.ReLU])
@pytest.mark.parametrize("n", [1, 32, 33, 4096])
def test_outputs_are_those_of_the_modules(activation: Any, n: int) -> None:
    model = make_model("PPO-discrete", policy_kwargs={"activation_fn": activation})
    policy = model.policy
    mlp = PlainMlp.of(policy.mlp_extractor.policy_net, policy.action_net)
    assert mlp is not None
    x = observations(n)
    x.flags.writeable = False
    before = x.copy()
    with torch.no_grad():
        expected = policy.action_net(
            policy.mlp_extractor.forward_actor(torch.as_tensor(before.copy()))
        ).numpy()
    # The matrix products and the tanh of numpy round differently.
    exact = n > PlainMlp.small_batch and activation is torch.nn.ReLU
    np.testing.assert_allclose(mlp(x), expected, rtol=0, atol=0 if exact else 1e-5)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("n", [3, 100])
def test_updates_are_seen_at_once(n: int) -> None:
    model = make_model("PPO-discrete")
    x = observations(n)
    first = by_distribution(model, x)
    with torch.no_grad():
        model.policy.action_net.weight.mul_(-2.0)
    assert np.abs(by_distribution(model, x) - first).max() > 0.1
    np.testing.assert_allclose(by_distribution(model, x), by_sb3(model, x), atol=1e-5)


class Negated(MlpExtractor):
    """An extractor of a user's own, with the attributes of SB3's."""

    def forward_actor(self, features: torch.Tensor) -> torch.Tensor:
        return -super().forward_actor(features)


@pytest.mark.parametrize("n", [3, 100])
def test_networks_of_ones_own_are_asked_themselves(n: int) -> None:
    x = observations(n)
    model = make_model("PPO-discrete")
    plain = by_sb3(model, x)
    model.policy.mlp_extractor.__class__ = Negated
    assert np.abs(by_sb3(model, x) - plain).max() > 0.1
    np.testing.assert_allclose(by_distribution(model, x), by_sb3(model, x), atol=1e-5)
    hooked = make_model("PPO-discrete")
    hooked.policy.action_net.register_forward_hook(lambda module, args, output: 0.5 * output)
    assert np.abs(by_sb3(hooked, x) - plain).max() > 0.1
    np.testing.assert_allclose(by_distribution(hooked, x), by_sb3(hooked, x), atol=1e-5)
