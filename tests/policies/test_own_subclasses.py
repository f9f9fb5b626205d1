"""Subclasses of built-in policies, and policies with replaced methods, are taken as they act."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import MethodType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import ove_sb3 as ove
from ove_sb3.policies.deterministic import Deterministic
from ove_sb3.policies.known_behavior import score_known_behavior
from ove_sb3.policies.policy import Policy
from ove_sb3.policies.ratio_bounds import ratio_bound

HALF = np.full((2, 2), 0.5)
STATES = np.arange(2)
TWO = spaces.Discrete(2)
OPTIONS: dict[str, Any] = {
    "gamma": 1.0,
    "reward_range": (0, 1),
    "horizon": 1,
    "quantities": ["mean"],
    "approximate": None,
}
OFFSET = 0.0


class OneStep(gym.Env[Any, Any]):
    """The reward is the action."""

    observation_space, action_space = TWO, TWO

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return int(self.np_random.integers(2)), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return 0, float(action), True, False, {}


class Shifted(ove.TabularPolicy):
    """A table with `boost` moved from action 0 to action 1."""

    by_class = 0.0

    def __init__(self, boost: float, rng: int | None = None) -> None:
        super().__init__(HALF, rng=rng)
        self.boost = boost
        self.itself = self
        self.bound = self.distribution

    def distribution(self, observations: Any, *_: Any) -> Any:
        shift = (self.boost + self.by_class + OFFSET) * np.array([-1.0, 1.0])
        return ove.TabularPolicy(np.exp(self.log_p) + shift).distribution(observations)


class ShiftedMixture(ove.MixturePolicy):
    """A mixture that does not act as its components do."""

    def distribution(self, observations: Any, *_: Any) -> Any:
        return ove.TabularPolicy([[0.1, 0.9]] * 2).distribution(observations)

    def unroll(self, observations: Any, *_: Any) -> Any:
        return self.distribution(observations)


class ShiftedGreedy(ove.EpsilonGreedyPolicy):
    """An epsilon-greedy policy that does not act as one."""

    def distribution(self, observations: Any, *_: Any) -> Any:
        return ove.TabularPolicy([[0.1, 0.9]] * 2).distribution(observations)


def uniform(rng: int | None = None) -> Any:
    return ove.UniformPolicy(TWO, TWO, rng=rng)


def replaced(table: Any, kind: str = "function") -> Any:
    """A table of one half whose method was replaced on the instance."""
    policy = ove.TabularPolicy(HALF, rng=0)
    method: Any = ove.TabularPolicy(table).distribution
    if kind == "method":
        other = method
        method = MethodType(lambda _, observations, *__: other(observations), policy)
    policy.distribution = method  # type: ignore[method-assign]
    return policy


def same_name(p: float) -> Any:
    """A policy of a class that is called like all others that this function makes."""

    class Local(ove.UniformPolicy):
        def distribution(self, observations: Any, *_: Any) -> Any:
            return ove.TabularPolicy([[1 - p, p]] * 2).distribution(observations)

    return Local(TWO, TWO, rng=0)


def mixed(policy: Any, per: str = "step") -> Any:
    return ove.MixturePolicy([policy, uniform()], [0.9, 0.1], per=per, rng=0)


# Behavior, candidate, and the candidate's probability of action 1.
PAIRS: dict[str, Callable[[], tuple[Any, Any, float]]] = {
    "state": lambda: (Shifted(0.0, 0), Shifted(0.4), 0.9),
    "replaced": lambda: (ove.TabularPolicy(HALF, rng=0), replaced([[0.1, 0.9]] * 2), 0.9),
    "both replaced": lambda: (replaced(HALF), replaced([[0.1, 0.9]] * 2), 0.9),
    "bound": lambda: (replaced(HALF, "method"), replaced([[0.1, 0.9]] * 2, "method"), 0.9),
    "same name": lambda: (same_name(0.5), same_name(0.9), 0.9),
    "in a mixture": lambda: (mixed(Shifted(0.0)), mixed(Shifted(0.4)), 0.86),
    "in two mixtures": lambda: (mixed(mixed(Shifted(0.0))), mixed(mixed(Shifted(0.4))), 0.824),
    "greedy": lambda: (
        ove.EpsilonGreedyPolicy(Shifted(-0.1), 0.5, rng=0),
        ove.EpsilonGreedyPolicy(Shifted(0.4), 0.5),
        0.75,
    ),
    "component": lambda: (mixed(Shifted(0.0), "episode"), Shifted(0.4), 0.9),
    "component of a mixture": lambda: (
        mixed(mixed(Shifted(0.0)), "episode"),
        mixed(Shifted(0.4)),
        0.86,
    ),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_a_candidate_is_not_taken_for_the_behavior(pair: str) -> None:
    behavior, candidate, p = PAIRS[pair]()
    data = ove.collect(behavior, OneStep(), 1000, seed=0)
    expected = np.log(np.where(data.actions == 1, p, 1 - p))
    np.testing.assert_allclose(ove.log_prob(candidate, data), expected)
    interval = ove.evaluate(data, candidate, **OPTIONS)["mean"].interval
    assert interval.guaranteed
    assert interval.lower <= p <= interval.upper


@pytest.mark.parametrize("pair", ["state", "both replaced", "same name", "in a mixture", "greedy"])
def test_bounds_are_not_those_of_the_base_class(pair: str) -> None:
    behavior, candidate, p = PAIRS[pair]()
    data = ove.collect(behavior, OneStep(), 1000, seed=0)
    bound = ratio_bound(candidate, behavior)
    ratios = np.exp(candidate.distribution(STATES).log_prob([0, 1]))
    ratios /= np.exp(behavior.distribution(STATES).log_prob([0, 1]))
    assert bound is None or bound.value >= ratios.max()
    interval = ove.evaluate(data, candidate, behavior=behavior, **OPTIONS)["mean"].interval
    assert interval.lower <= p <= interval.upper


def test_subclasses_of_mixtures_imply_no_bounds() -> None:
    candidate = ove.TabularPolicy([[0.9, 0.1]] * 2)
    for per in ("step", "episode"):
        mixture = ShiftedMixture([candidate, uniform()], [0.9, 0.1], per=per, rng=0)
        assert ratio_bound(candidate, mixture) is None
        assert mixture.fingerprint() is None
        with pytest.raises(ove.InvalidInputError, match=r"`max_ratio` must be asked of a Mixture"):
            mixture.max_ratio(candidate)
    data = ove.collect(mixture, OneStep(), 1000, seed=0)
    assert not data.metadata.components
    interval = ove.evaluate(data, candidate, **OPTIONS)["mean"].interval
    assert interval.lower <= 0.1 <= interval.upper
    table = ove.TabularPolicy([[0.9, 0.1]] * 2)
    greedy = ove.EpsilonGreedyPolicy(table, 0.5)
    assert ratio_bound(greedy, ShiftedGreedy(table, 0.5)) is None
    # Its least probability is 0.25; at most 1 is all that is known of the candidate.
    bound = ratio_bound(ShiftedGreedy(table, 0.5), greedy)
    assert bound is not None
    assert bound.value == pytest.approx(4.0)


def test_policies_of_the_package_are_recognized() -> None:
    for make in (lambda: ove.TabularPolicy(HALF, rng=0), lambda: mixed(uniform()), uniform):
        data = ove.collect(make(), OneStep(), 20, seed=0)
        assert make().fingerprint() == data.metadata.fingerprint is not None
        assert Deterministic(make()).fingerprint() is not None
    assert Deterministic(Shifted(0.0)).fingerprint() is None
    assert Deterministic(replaced(HALF)).fingerprint() is None


def test_equal_fingerprints_do_not_replace_other_probabilities(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    behavior, candidate = uniform(0), ove.TabularPolicy([[0.1, 0.9]] * 2)
    data = ove.collect(behavior, OneStep(), 50, seed=0)
    same = score_known_behavior(uniform(), behavior, data).log_probs
    np.testing.assert_array_equal(same, data.log_probs)
    monkeypatch.setattr(Policy, "fingerprint", lambda self: data.metadata.fingerprint)
    log_probs = score_known_behavior(candidate, behavior, data).log_probs
    np.testing.assert_allclose(log_probs, np.log(np.where(data.actions == 1, 0.9, 0.1)))


def set_boost(_: Any, policy: Any) -> None:
    policy.boost = 0.1


def set_class(monkeypatch: Any, _: Any) -> None:
    monkeypatch.setattr(Shifted, "by_class", 0.1)


def set_global(monkeypatch: Any, _: Any) -> None:
    monkeypatch.setitem(globals(), "OFFSET", 0.1)


def set_method(_: Any, policy: Any) -> None:
    policy.distribution = uniform().distribution


def set_other_method(_: Any, policy: Any) -> None:
    policy.unroll = lambda *_: None


CHANGES = [set_boost, set_class, set_global, set_method, set_other_method]
WAYS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda policy: policy,
    "mixture": mixed,
    "per episode": lambda policy: mixed(policy, "episode"),
    "greedy": lambda policy: ove.EpsilonGreedyPolicy(policy, 0.5, rng=0),
    "own mixture": lambda policy: ShiftedMixture([policy], [1.0], rng=0),
    "deterministic": Deterministic,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_seen(
    change: Callable[[Any, Any], None], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = Shifted(0.0, 0)
    policy = WAYS[way](inner)
    before = policy.state_digest()
    policy.predict(0, episode_start=np.array([True]))
    ove.MixturePolicy.distribution(mixed(inner), STATES)
    assert policy.state_digest() == before
    change(monkeypatch, inner)
    assert policy.state_digest() != before


@pytest.mark.parametrize("way", ["itself", "mixture", "own mixture"])
@pytest.mark.parametrize("learns", [False, True])
def test_a_log_of_a_learner_is_adaptive(way: str, learns: bool, tmp_path: Path) -> None:
    inner = Shifted(0.0, 0)
    policy = WAYS[way](inner)
    env = ove.LogActionProbability(OneStep(), policy, tmp_path / "log")
    for episode in range(20):
        observation, _ = env.reset(seed=0 if episode == 0 else None)
        action, _ = policy.predict(observation)
        env.step(action)
        inner.boost += 0.01 * learns
    env.close()
    data = ove.Trajectories.load(tmp_path / "log")
    assert data.metadata.adaptive is learns
    assert data.metadata.fingerprint is None


def test_a_mixture_whose_own_component_has_changed() -> None:
    policy = Shifted(0.0)
    mixture = mixed(policy)
    ove.collect(mixture, OneStep(), 5, seed=0)
    assert mixture.max_ratio(policy) == pytest.approx(1 / 0.9)
    policy.boost = 0.1
    with pytest.raises(ove.InvalidInputError, match=r"as it was when the mixture first acted"):
        mixture.max_ratio(policy)


def test_they_cannot_be_registered() -> None:
    for cls in (Shifted, ove.UniformPolicy, Policy):
        with pytest.raises(ove.InvalidInputError, match=r"`cls` must not be a policy of this .*"):
            ove.register_policy(cls, lambda *_, **__: None)  # type: ignore[arg-type]

    class Mine:
        pass

    class Both(Mine, ove.TabularPolicy):
        pass

    ove.register_policy(Mine, lambda *_, **__: None)  # type: ignore[arg-type]
    with pytest.raises(ove.UnsupportedPolicyError, match=r"`model` must act in one way"):
        ove.log_prob(Both(HALF), STATES, [0, 1])


def test_a_collection_is_not_continued_by_another_policy(tmp_path: Path) -> None:
    for path, first, second, options in (
        ("own", Shifted(0.0, 0), Shifted(0.4, 0), {}),
        (
            "deterministic",
            ove.TabularPolicy(HALF),
            ove.TabularPolicy([[0.2, 0.8]] * 2),
            {"deterministic": True},
        ),
    ):
        arguments: dict[str, Any] = {"seed": 1, "path": tmp_path / path, **options}
        data = ove.collect(first, OneStep(), 50, **arguments)
        assert len(ove.collect(first, OneStep(), 50, **arguments)) == len(data) == 50
        with pytest.raises(ove.InvalidInputError, match="with fingerprint"):
            ove.collect(second, OneStep(), 50, **arguments)


def test_joined_logs_of_one_class_may_be_of_several_policies() -> None:
    one, other = (ove.collect(Shifted(b, k), OneStep(), 50, seed=k) for k, b in enumerate((0, 0.4)))
    assert ove.Trajectories.concat([one, other]).metadata.several_behaviors
    assert not ove.Trajectories.concat([one[:20], one[20:]]).metadata.several_behaviors


def test_a_decision_is_not_repeated_for_another_candidate(tmp_path: Path) -> None:
    behavior = uniform(0)
    with ove.LogActionProbability(OneStep(), behavior, path=tmp_path / "log") as env:
        for k in range(400):
            observation, _ = env.reset(seed=0 if k == 0 else None)
            env.step(behavior.predict(observation)[0])
    options: dict[str, Any] = {"gamma": 1.0, "reward_range": (0, 1), "timeout": 0.0}

    def watch(boost: float) -> str:
        candidate = Shifted(boost)
        return ove.watch(tmp_path / "log", candidate, ["mean >= 0.6"], horizon=1, **options).status

    assert watch(0.4) == "proven"
    assert watch(0.4) == "proven"
    with pytest.raises(ove.InvalidInputError, match="of the same candidate and log"):
        watch(0.0)
