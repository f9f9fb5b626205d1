"""Whether a policy has changed: everything that decides on its actions is compared."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from torch import nn

import ove_sb3 as ove
from ove_sb3.policies.discrete import Categorical
from ove_sb3.policies.dispatch import as_policy

from .test_custom_networks import DoublingFlatten
from .toys import Toy, make_model, toys

SHARPNESS = 1.0


@dataclass
class Settings:
    p: float = 0.5


class Slots:
    __slots__ = ("p",)

    def __init__(self) -> None:
        self.p = 0.5


class Own:
    """A policy of a user, with attributes of all kinds."""

    observation_space, action_space = Toy().observation_space, Toy().action_space
    shared = 0.5

    def __init__(self) -> None:
        self.p = 0.5
        self._hidden = 0.5
        self.table = np.full((2, 4), 0.25)
        self.by_name = {"a": {"b": [0.5]}}
        self.settings, self.slots = Settings(), Slots()
        self.tensor, self.net = torch.ones(2), nn.Linear(4, 4)
        self.recent = deque([0.5])
        offset = 0.5
        self.rule = lambda x: x + offset
        self.itself = self
        self.generators = [np.random.default_rng(0), np.random.RandomState(0), random.Random(0)]
        self.torch_generator = torch.Generator()
        self.lock = threading.Lock()
        self.model = PPO("MlpPolicy", toys(1), n_steps=16, batch_size=16, device="cpu", seed=0)
        self.mixture = ove.MixturePolicy([self.model], [1.0])


def uniform(model: Any, observations: Any, **_: Any) -> Any:
    return Categorical(
        np.full((len(observations), 4), SHARPNESS * np.log(0.25)), model.action_space
    )


ove.register_policy(Own, uniform)


def set_entry(entries: Any, key: Any) -> None:
    entries[key] = 0.6


def other_rule(own: Own) -> None:
    offset = 0.6
    own.rule = lambda x: x + offset


CHANGES: dict[str, Callable[[Any], None]] = {
    "number": lambda own: setattr(own, "p", 0.6),
    "hidden": lambda own: setattr(own, "_hidden", 0.6),
    "new": lambda own: setattr(own, "q", None),
    "array": lambda own: set_entry(own.table, (0, 0)),
    "nested": lambda own: set_entry(own.by_name["a"]["b"], 0),
    "dataclass": lambda own: setattr(own.settings, "p", 0.6),
    "slots": lambda own: setattr(own.slots, "p", 0.6),
    "tensor": lambda own: set_entry(own.tensor, 0),
    "network": lambda own: own.net.bias.data.add_(1.0),
    "deque": lambda own: own.recent.append(0.6),
    "closure": other_rule,
    "model": lambda own: own.model.policy.action_net.bias.data.add_(1.0),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_every_change_of_a_registered_policy(kind: str) -> None:
    own = Own()
    policy = as_policy(own)
    before = policy.state_digest()
    assert policy.state_digest() == before
    CHANGES[kind](own)
    assert policy.state_digest() != before
    assert policy.fingerprint() is None


def test_attributes_of_the_class_and_global_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = as_policy(Own())
    before = policy.state_digest()
    monkeypatch.setattr(Own, "shared", 0.6)
    changed = policy.state_digest()
    assert changed != before
    monkeypatch.setattr(f"{__name__}.SHARPNESS", 2.0)
    assert policy.state_digest() not in (before, changed)


def test_what_does_not_decide_on_actions() -> None:
    own: Any = Own()
    policy = as_policy(own)
    before = policy.state_digest()
    for generator in own.generators:
        generator.random() if hasattr(generator, "random") else generator.random_sample()
    torch.rand(2, generator=own.torch_generator)
    own.action_space.sample()
    own.lock.acquire()
    own.net.train(not own.net.training)
    own.model.predict(own.observation_space.sample())
    own.mixture.predict(own.observation_space.sample())
    own.model.env.reset()
    own.ove_log_ids = own.model.policy.ove_log_ids = ["a"]
    assert policy.state_digest() == before


class Cached:
    observation_space, action_space = Toy().observation_space, Toy().action_space

    def __init__(self) -> None:
        self.p, self.cache = 0.5, 0.0

    def __getstate__(self) -> dict[str, Any]:
        return {"p": self.p}


class Connected(Cached):
    def __getstate__(self) -> dict[str, Any]:
        return vars(self)

    def __init__(self) -> None:
        super().__init__()
        self.stream: Iterator[float] = (x for x in (0.5, 0.6))


def test_the_class_may_leave_a_cache_out_and_the_unknown_counts_as_a_change() -> None:
    ove.register_policy(Cached, uniform)
    cached = Cached()
    policy = as_policy(cached)
    before = policy.state_digest()
    cached.cache = 1.0
    assert policy.state_digest() == before
    cached.p = 0.6
    assert policy.state_digest() != before
    unknown = as_policy(Connected())
    assert unknown.state_digest() != unknown.state_digest()


class Scaled(DoublingFlatten):
    scale = 1.0


def by_slope(model: Any) -> None:
    model.policy.mlp_extractor.policy_net[1].negative_slope = 0.3


def by_activation(model: Any) -> None:
    model.policy.mlp_extractor.policy_net[1] = nn.ReLU()


def by_own_attribute(model: Any) -> None:
    model.policy.features_extractor.scale = {"all": 2.0}


def by_hook(model: Any) -> None:
    model.policy.action_net.register_forward_hook(lambda *_: None)


def by_own_forward(model: Any) -> None:
    model.policy.action_net.forward = lambda x: x


def by_images(model: Any) -> None:
    model.policy.normalize_images = False


@pytest.mark.parametrize(
    "change", [by_slope, by_activation, by_own_attribute, by_hook, by_own_forward, by_images]
)
def test_settings_of_networks(change: Callable[[Any], None]) -> None:
    kwargs = {"features_extractor_class": Scaled}
    model = make_model("PPO-discrete", policy_kwargs=kwargs)
    model.policy.mlp_extractor.policy_net[1] = nn.LeakyReLU(0.1)
    policy = as_policy(model)
    before = policy.state_digest()
    model.predict(model.observation_space.sample())
    model.policy.train()
    assert policy.state_digest() == before
    change(model)
    assert policy.state_digest() != before


def test_expln_of_gsde() -> None:
    model = make_model("PPO-gsde")
    policy = as_policy(model)
    before = policy.state_digest()
    model.predict(model.observation_space.sample())
    assert policy.state_digest() == before
    model.policy.action_dist.use_expln = True
    assert policy.state_digest() != before


def test_settings_of_built_in_policies() -> None:
    table = np.array([[0.5, 0.5]])
    values = np.zeros((1, 2))
    dqn = make_model("DQN-discrete")
    greedy = ove.EpsilonGreedyPolicy(dqn, 0.1)
    tabular, softmax = ove.TabularPolicy(table), ove.SoftmaxPolicy(values)
    soft_values, uniform_policy = ove.SoftmaxPolicy(dqn), ove.UniformPolicy(spaces.Discrete(2))
    changes: list[tuple[Any, Callable[[], Any]]] = [
        (greedy, lambda: setattr(greedy, "epsilon", 0.2)),
        (greedy, lambda: setattr(greedy, "base", as_policy(make_model("PPO-discrete")))),
        (tabular, lambda: set_entry(tabular.log_p, (0, 0))),
        (tabular, lambda: setattr(tabular, "action_space", spaces.Discrete(2, start=1))),
        (softmax, lambda: setattr(softmax, "temperature", 2.0)),
        (softmax, lambda: set_entry(values, (0, 0))),
        (soft_values, lambda: dqn.policy.q_net.q_net[0].bias.data.add_(1.0)),
        (uniform_policy, lambda: setattr(uniform_policy, "action_space", spaces.Discrete(3))),
    ]
    for policy, change in changes:
        around = ove.MixturePolicy([policy], [1.0])
        before = policy.state_digest(), around.state_digest()
        assert (policy.state_digest(), around.state_digest()) == before
        change()
        assert policy.state_digest() != before[0]
        assert around.state_digest() != before[1]


def test_weights_of_a_mixture_stay_as_they_are() -> None:
    given = np.array([0.5, 0.5])
    policies = [ove.TabularPolicy([[p, 1 - p]]) for p in (0.2, 0.8)]
    for per in ("step", "episode"):
        mixture = ove.MixturePolicy(policies, given, per=per)
        before = mixture.state_digest()
        given[:] = 0.1, 0.9
        np.testing.assert_array_equal(mixture.weights, 0.5)
        given[:] = 0.5
        with pytest.raises(ove.InvalidInputError, match=r"Make a new MixturePolicy.*set_model"):
            mixture.weights = np.array([0.1, 0.9])
        with pytest.raises(ValueError, match="read-only"):
            mixture.weights[0] = 0.1
        with pytest.raises(TypeError):
            mixture.components[0] = policies[1]  # type: ignore[index]
        mixture._weights = np.array([0.1, 0.9])
        assert mixture.state_digest() != before


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_compiled_network() -> None:
    own: Any = Cached()
    own.p = net = torch.jit.script(nn.Linear(2, 2))
    ove.register_policy(Cached, uniform)
    policy = as_policy(own)
    before = policy.state_digest()
    net(torch.ones(1, 2))
    assert policy.state_digest() == before
    with torch.no_grad():
        net.bias.add_(1.0)
    assert policy.state_digest() != before
