"""A `vec_normalize` that would be ignored is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.vec_env import VecNormalize

import ove_sb3 as ove
from ove_sb3.policies.deterministic import Deterministic
from ove_sb3.policies.dispatch import as_policy

from .toys import HORIZON, Toy, make_model, toys

OPTIONS: dict[str, Any] = {
    "gamma": 0.9,
    "reward_range": (0, 3),
    "horizon": HORIZON,
    "quantities": ["variance"],
    "approximate": None,
}


class Holder:
    """A registered class that holds a model."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.observation_space = model.observation_space
        self.action_space = model.action_space


def of_held(model: Any, observations: Any, **_: Any) -> Any:
    return ove.action_distribution(model.model, observations)


ove.register_policy(Holder, of_held)


def uniform() -> Any:
    return ove.UniformPolicy(Toy().action_space, Toy().observation_space)


class OwnUniform(ove.UniformPolicy):
    """A subclass of a user, which may act in another way."""


WAYS: dict[str, Callable[[Any], Any]] = {
    "mixture": lambda model: ove.MixturePolicy([model, uniform()], [0.9, 0.1]),
    "per episode": lambda model: ove.MixturePolicy([model, uniform()], [0.9, 0.1], per="episode"),
    "greedy": lambda model: ove.EpsilonGreedyPolicy(model, 0.1),
    "deterministic": Deterministic,
    "registered": Holder,
    "subclass": lambda _: OwnUniform(Toy().action_space, Toy().observation_space),
}


@pytest.fixture(scope="module")
def data() -> ove.Trajectories:
    return ove.collect(uniform(), toys(2), 20, seed=0)


def normalizer() -> VecNormalize:
    venv = VecNormalize(toys(1), norm_reward=False, training=False)
    statistics: Any = venv.obs_rms
    statistics.mean = statistics.mean + 1.0
    return venv


@pytest.mark.parametrize("way", WAYS)
def test_refused_where_it_would_be_ignored(way: str, data: ove.Trajectories) -> None:
    candidate, venv = WAYS[way](make_model("PPO-discrete")), normalizer()
    name = type(candidate).__name__
    calls: list[Callable[[], Any]] = [
        lambda: ove.evaluate(data, candidate, vec_normalize=venv, **OPTIONS),
        lambda: ove.compare(data, {"a": candidate}, vec_normalize=venv, **OPTIONS),
        lambda: ove.log_prob(candidate, data, vec_normalize=venv),
        lambda: ove.action_distribution(candidate, data.observations, vec_normalize=venv),
    ]
    remedy = "registered function" if way == "registered" else r"model\.set_env"
    rule = rf"`vec_normalize` must be None for {name}, .* got a VecNormalize\. .*{remedy}"
    for call in calls:
        with pytest.raises(ove.InvalidInputError, match=rule):
            call()


def test_the_remedy_helps(data: ove.Trajectories) -> None:
    venv = normalizer()
    model, seen = make_model("PPO-discrete"), venv.normalize_obs(np.asarray(data.observations))
    expected = 0.9 * np.exp(ove.log_prob(model, seen, data.actions)) + 0.1 / 4
    plain = np.exp(ove.log_prob(WAYS["mixture"](model), data))
    model.set_env(venv)
    log_probs = ove.log_prob(WAYS["mixture"](model), data)
    np.testing.assert_allclose(np.exp(log_probs), expected, rtol=1e-5)
    assert np.abs(plain - expected).max() > 0.01


def test_accepted_where_it_is_used_or_nothing_is_normalized(data: ove.Trajectories) -> None:
    venv, model = normalizer(), make_model("PPO-discrete")
    used = ove.log_prob(model, data, vec_normalize=venv)
    assert np.abs(used - ove.log_prob(model, data)).max() > 0.01
    adapter = as_policy(model, vec_normalize=venv)
    np.testing.assert_array_equal(ove.log_prob(adapter, data, vec_normalize=venv), used)
    with pytest.raises(ove.InvalidInputError, match=r"`vec_normalize` must be None for Actor"):
        ove.log_prob(adapter, data, vec_normalize=normalizer())
    np.testing.assert_allclose(ove.log_prob(uniform(), data, vec_normalize=venv), np.log(0.25))
    both = ove.compare(data, {"a": model, "b": uniform()}, vec_normalize=venv, **OPTIONS)
    assert set(both.evaluations) == {"a", "b"}
    named = {"a": model, "b": WAYS["mixture"](model)}
    both = ove.compare(data, named, vec_normalize={"a": venv}, **OPTIONS)
    assert set(both.evaluations) == {"a", "b"}


@pytest.mark.parametrize("way", ["mixture", "registered"])
def test_collecting_under_a_normalizer_still_works(way: str) -> None:
    policy = WAYS[way](make_model("PPO-discrete"))
    data = ove.collect(policy, normalizer(), 4, seed=0)
    np.testing.assert_allclose(ove.log_prob(policy, data), data.log_probs, atol=1e-5)
