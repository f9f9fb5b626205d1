"""Policies that share a fingerprint act alike; a policy that cannot be described has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize
from torch import nn

import ove_sb3 as ove
from ove_sb3.policies.dispatch import as_policy

from .test_custom_networks import DoublingFlatten, Residual, policy_with
from .toys import CASES, make_model, normal_noise, toys


def fingerprint(model: Any) -> str | None:
    return as_policy(model).fingerprint()


def same_weights(model: Any, like: Any) -> Any:
    model.policy.load_state_dict(like.policy.state_dict())
    return model


@pytest.mark.parametrize("case", CASES)
def test_equal_models_share_it(case: str) -> None:
    assert fingerprint(make_model(case)) == fingerprint(make_model(case)) is not None
    model = make_model(case)
    before = fingerprint(model)
    next(iter(model.policy.parameters())).data.add_(1.0)
    if hasattr(model.policy, "actor"):
        next(iter(model.policy.actor.parameters())).data.add_(1.0)
    assert fingerprint(model) != before


def test_structure_and_settings_tell_apart() -> None:
    base = make_model("PPO-discrete")
    for options in ({"activation_fn": nn.ReLU}, {"activation_fn": nn.ELU}):
        other = same_weights(make_model("PPO-discrete", policy_kwargs=options), base)
        assert fingerprint(other) not in (None, fingerprint(base))
    image = make_model("PPO-image")
    other = make_model("PPO-image")
    other.policy.normalize_images = False
    assert fingerprint(image) != fingerprint(other)
    slopes = []
    for slope in (0.1, 0.2):
        leaky = make_model("PPO-discrete")
        leaky.policy.mlp_extractor.policy_net[1] = nn.LeakyReLU(slope)
        slopes.append(fingerprint(leaky))
    assert None not in slopes
    assert len(set(slopes)) == 2
    gsde, squashed = make_model("PPO-gsde"), make_model("PPO-gsde-squashed")
    assert fingerprint(same_weights(squashed, gsde)) != fingerprint(gsde)
    expln = make_model("PPO-gsde", policy_kwargs={"use_expln": True})
    assert fingerprint(same_weights(expln, gsde)) != fingerprint(gsde)


def test_exploration_bounds_and_statistics_tell_apart() -> None:
    dqn, other = make_model("DQN-discrete"), make_model("DQN-discrete")
    other.exploration_rate = 0.4
    assert fingerprint(dqn) != fingerprint(other)
    td3, other = make_model("TD3-box"), make_model("TD3-box")
    other.action_noise = normal_noise()
    assert fingerprint(td3) == fingerprint(other)
    other.action_noise._sigma = other.action_noise._sigma / 2
    assert fingerprint(td3) != fingerprint(other)
    sac, other = make_model("SAC-box"), make_model("SAC-box")
    other.policy.action_space = spaces.Box(-2.0, 2.0, (2,), np.float32)
    assert fingerprint(sac) != fingerprint(other)
    many = spaces.Box(np.arange(2000.0), np.arange(2000.0) + 2.0, dtype=np.float64)
    more = spaces.Box(many.low, many.high + (np.arange(2000) == 1000), dtype=np.float64)
    assert fingerprint(ove.UniformPolicy(many)) != fingerprint(ove.UniformPolicy(more))
    prints = set()
    for clip, shift in ((10.0, 0.0), (5.0, 0.0), (10.0, 1.0)):
        venv = VecNormalize(toys(), clip_obs=clip)
        statistics: Any = venv.obs_rms
        statistics.mean = statistics.mean + shift
        prints.add(as_policy(make_model("PPO-discrete"), vec_normalize=venv).fingerprint())
    assert len(prints) == 3


def test_what_cannot_be_told_has_none() -> None:
    own: Any = PPO(policy_with(Residual), toys(), device="cpu", seed=0)
    assert fingerprint(own) is None
    extractor = {"features_extractor_class": DoublingFlatten}
    assert fingerprint(make_model("PPO-discrete", policy_kwargs=extractor)) is None
    hooked = make_model("PPO-discrete")
    hooked.policy.action_net.register_forward_hook(lambda *_: None)
    assert fingerprint(hooked) is None
    replaced = make_model("PPO-discrete")
    replaced.policy.action_net.forward = lambda x: x
    assert fingerprint(replaced) is None
    assert fingerprint(ove.MixturePolicy([own], [1.0])) is None
    # A change is still detected.
    policy = as_policy(own)
    before = policy.state_digest()
    assert policy.state_digest() == before
    with torch.no_grad():
        own.policy.action_net.bias.add_(1.0)
    assert policy.state_digest() != before


def test_no_shortcut_for_another_activation() -> None:
    base = make_model("PPO-discrete")
    other = make_model("PPO-discrete", policy_kwargs={"activation_fn": nn.ReLU})
    data = ove.collect(base, toys(2), 20, seed=0)
    assert (ove.log_prob(base, data) == data.log_probs).all()
    log_probs = ove.log_prob(same_weights(other, base), data)
    expected = ove.log_prob(other, data.observations, data.actions)
    np.testing.assert_array_equal(log_probs, expected)
    assert np.abs(log_probs - data.log_probs).max() > 0.01


def test_a_mixture_whose_component_has_changed() -> None:
    candidate = make_model("PPO-discrete")
    mixture = ove.MixturePolicy([candidate, ove.UniformPolicy(spaces.Discrete(4))], [0.8, 0.2])
    candidate.learn(32)  # before it acts: the mixture uses the current weights
    assert mixture.max_ratio(candidate) == pytest.approx(1.25)
    data = ove.collect(mixture, toys(1), 20, seed=0)
    assert mixture.max_ratio(candidate) == pytest.approx(1.25)
    ratios = np.exp(ove.log_prob(candidate, data) - data.log_probs)
    assert ratios.max() <= 1.25 + 1e-6
    candidate.policy.load_from_vector(candidate.policy.parameters_to_vector() + 0.5)
    with pytest.raises(ove.InvalidInputError, match=r"as it was when the mixture first acted"):
        mixture.max_ratio(candidate)
    twice = ove.MixturePolicy([candidate, candidate], [0.5, 0.5])
    assert twice.max_ratio(candidate) == pytest.approx(1.0)
