"""Advice is computed: each suggestion gives about the interval it promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove
from ove_sb3.evaluation import suggestions as module
from ove_sb3.report.numbers import about
from tests.policies.test_episode_mixture import NEW, OLD, Walk

N = 1_000


def log(n: int = N) -> tuple[ove.Trajectories, Any]:
    """Forty steps of which one at most is rewarded, and a candidate that differs a little."""
    rng = np.random.default_rng(1)
    actions = rng.integers(2, size=(n, 40))
    rewards = np.zeros((n, 40))
    rewards[:, -1] = rng.random(n) < 0.3 + 0.4 * actions[:, 0]
    data = ove.Trajectories.from_arrays(
        observations=np.zeros((n * 40, 1)),
        actions=actions.ravel(),
        log_probs=np.full(n * 40, np.log(0.5)),
        rewards=rewards.ravel(),
        lengths=np.full(n, 40),
        metadata={"horizon": 40, "reward_range": (0.0, 1.0)},
    )
    p = np.full((n, 40), 0.5)
    p[:, 0] = np.where(actions[:, 0] == 1, 0.9, 0.1)
    return data, np.log(p).ravel()


def test_a_tighter_range_gives_what_it_promises() -> None:
    data, candidate = log()
    result = ove.evaluate(data, candidate, gamma=1.0, approximate=None)
    first = result.advice[0]
    assert first.startswith("With return_range=(0, 1)")
    assert "State it only if" in first
    assert f"advice: {first}" in str(result)
    stated = ove.evaluate(data, candidate, gamma=1.0, return_range=(0, 1), approximate=None)
    interval = stated["variance"].interval
    assert f"[{interval.lower:.3g}, {interval.upper:.3g}]" in first
    assert interval.width < 0.05 * result["variance"].interval.width
    assert not any("return_range" in text for text in stated.advice)


def test_a_known_bound_is_not_suggested_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WORTHWHILE", 1.0)
    data, candidate = log()
    options: dict[str, Any] = {
        "gamma": 1.0,
        "return_range": (0, 1),
        "approximate": None,
        "method": ove.Betting(n_shuffles=1),
    }
    free = ove.evaluate(data, candidate, **options)
    bounded = ove.evaluate(data, candidate, max_weight=1.8, **options)
    promised = next(text for text in free.advice if "max_weight=1.8" in text)
    interval = bounded["variance"].interval
    assert f"[{interval.lower:.3g}, {interval.upper:.3g}]" in promised
    assert not any("max_weight" in text for text in bounded.advice)


def test_an_interval_that_says_nothing_is_printed_with_what_would_help() -> None:
    data, _ = log()
    options: dict[str, Any] = {"gamma": 1.0, "return_range": (0, 1), "approximate": None}
    for p, informative in ((0.8, False), (0.65, True)):
        candidate = np.log(np.where(data.actions == 1, p, 1 - p))  # at each of the forty steps
        result = ove.evaluate(data, candidate, quantities=["variance"], **options)
        assert result["variance"].interval.informative is informative
        assert 'per="episode"' in result.advice[0]  # needs new episodes
        assert (f"advice: {result.advice[0]}" in str(result)) is not informative


def test_the_logged_range_is_no_advice_about_a_candidate_that_is_not_in_the_log() -> None:
    data, _ = log()
    candidate = np.log(np.where(data.actions == 1, 0.95, 0.05))
    result = ove.evaluate(data, candidate, gamma=1.0, quantities=["variance"], approximate=None)
    assert np.isnan(result.variance)
    assert not any("With " in text for text in result.advice)  # return_range, max_weight
    assert "MixturePolicy" in result.advice[-1]


def coins(n: int, share: float, p: float, steps: int) -> tuple[ove.Trajectories, Any]:
    """Coins of the behavior, or in a share of the episodes of the candidate, and its log-ratios."""
    rng = np.random.default_rng(5)
    heads = np.where(rng.random(n) < share, p, 0.5)
    actions = (rng.random((n, steps)) < heads[:, None]).astype(int)
    data = ove.Trajectories.from_arrays(
        observations=np.zeros((actions.size, 1)),
        actions=actions.ravel(),
        log_probs=np.full(actions.size, np.log(0.5)),
        rewards=actions.ravel().astype(float),
        lengths=np.full(n, steps),
        metadata={"horizon": steps, "reward_range": (0.0, 1.0)},
    )
    return data, np.log(np.where(actions.ravel() == 1, p, 1 - p))


@pytest.mark.parametrize(("p", "steps"), [(0.9, 16), (0.85, 30), (0.9, 40), (0.05, 20)])
def test_only_the_width_is_predicted_for_a_candidate_that_is_not_in_the_log(
    p: float, steps: int
) -> None:
    data, candidate = coins(500, 0.0, p, steps)
    result = ove.evaluate(data, candidate, gamma=1.0, quantities=["variance"], approximate=None)
    assert np.isnan(result.variance)
    (one,) = (some for some in result.suggestions if "MixturePolicy" in some.action)
    assert np.isnan(one.lower)
    assert np.isnan(one.upper)
    assert f"variance in an interval up to about {about(one.width)} wide. The candidate" in str(one)
    assert "cannot be predicted" in one.condition
    # The log of such a mixture, with the truth in the interval.
    canary, candidate = coins(500, 0.1, p, steps)
    log_weights = np.add.reduceat(candidate - np.log(0.5), canary.starts)
    weights = 1.0 / (0.9 * np.exp(-log_weights) + 0.1)
    stats = ove.trajectory_statistics(
        np.log(weights), canary.returns(), np.ones(500, dtype=int), gamma=1.0, horizon=1
    )
    interval = ove.variance_interval(stats, return_range=(0, steps), max_weight=10.0)
    assert steps * p * (1 - p) in interval
    assert 0.4 * one.width < interval.width < 1.2 * one.width


def test_a_canary_log_is_suggested_where_few_large_weights_are_missing() -> None:
    for seed in range(6):  # weights of 0.55 to 1.44 on average
        rng = np.random.default_rng(seed)
        actions = rng.random((N, 12)) < 0.5
        rewards = np.zeros((N, 12))
        rewards[:, -1] = rng.random(N) < 0.7
        data = ove.Trajectories.from_arrays(
            observations=np.zeros((N * 12, 1)),
            actions=actions.ravel().astype(int),
            log_probs=np.full(N * 12, np.log(0.5)),
            rewards=rewards.ravel(),
            lengths=np.full(N, 12),
            metadata={"horizon": 12, "reward_range": (0.0, 1.0)},
        )
        candidate = np.log(np.where(actions, 0.85, 0.15)).ravel()
        options: dict[str, Any] = {"return_range": (0, 1), "approximate": None}
        result = ove.evaluate(data, candidate, gamma=1.0, quantities=["variance"], **options)
        assert "MixturePolicy" in result.suggestions[0].action, seed


def test_more_episodes_are_not_suggested_where_they_cannot_help() -> None:
    data, _ = log(60)
    never = np.full(data.n_steps, -np.inf)  # the candidate takes no logged action
    with pytest.warns(ove.errors.SupportWarning):
        result = ove.evaluate(data, never, gamma=1.0, approximate=None)
    assert not any("times as many" in text for text in result.advice)


def canary_log(share: float, n: int = 1_000) -> tuple[ove.Evaluation, list[module.Suggestion]]:
    """Evaluation of the candidate from a mixture that contains it, and its advice on shares."""
    policy = ove.MixturePolicy([OLD, NEW], [1 - share, share], per="episode")
    result = ove.evaluate(
        ove.collect(policy, DummyVecEnv([lambda: Walk(8)] * 100), n, seed=1),
        NEW,
        gamma=1.0,
        reward_range=(0, 8),
        return_range=(0, 36),
        horizon=8,
        quantities=["variance"],
        method=ove.Betting(n_shuffles=1),
        approximate=None,
    )
    return result, [one for one in result.suggestions if "share" in one.action]


def test_a_canary_log_is_not_advised_to_become_one() -> None:
    for share, larger in ((0.02, 0.1), (0.6, None)):
        result, found = canary_log(share)
        assert not any("MixturePolicy" in text for text in result.advice)
        for one in found:
            assert f"a share of {larger}, not {share}, of the candidate" in one.action
            assert one.width <= 0.9 * result["variance"].interval.width
        if share == 0.02:
            (one,) = found
            again, _ = canary_log(0.1)
            assert one.width == pytest.approx(again["variance"].interval.width, rel=0.25)


def test_advice_never_ends_an_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ove.errors.InvalidInputError("no")

    monkeypatch.setattr(module, "compute_interval", fail)
    data, candidate = log(60)
    result = ove.evaluate(data, candidate, gamma=1.0, approximate=None)
    assert not any("With" in text for text in result.advice)
