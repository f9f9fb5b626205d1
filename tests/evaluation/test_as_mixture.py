"""Logs of an A/B test as the log of a mixture: the same weights, checks, labels, storage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sb3_contrib import RecurrentPPO

import ove_sb3 as ove
from ove_sb3.core.assigned import ARMS, ASSIGNED_TO
from ove_sb3.core.stopping import LoggingRecord
from ove_sb3.errors import BehaviorError
from ove_sb3.policies.episode_mixture import COMPONENT_LOG_PROBS
from tests.policies.test_episode_mixture import NEW, OLD, Walk, likelihood

SETTINGS: dict[str, Any] = {"gamma": 1.0, "reward_range": (0, 3), "horizon": 3}


def logs(n_old: int = 270, n_new: int = 30) -> tuple[ove.Trajectories, np.ndarray[Any, Any]]:
    """Episodes of two policies, one after the other, and which policy acted."""
    parts = [
        ove.collect(policy, Walk(), n, seed=seed)
        for seed, (policy, n) in enumerate(((OLD, n_old), (NEW, n_new)))
    ]
    return ove.Trajectories.concat(parts), np.repeat([0, 1], [n_old, n_new])


@pytest.fixture(scope="module")
def mixed() -> ove.Trajectories:
    data, arms = logs()
    return ove.as_mixture(data, [OLD, NEW], acted=arms)


def test_it_equals_the_log_of_a_mixture_with_the_realized_shares(mixed: ove.Trajectories) -> None:
    mixture = ove.MixturePolicy([OLD, NEW], [0.9, 0.1], per="episode")
    expected = ove.log_prob(mixture, mixed.observations, mixed.actions, lengths=mixed.lengths)
    np.testing.assert_allclose(mixed.log_probs, expected, atol=1e-12)
    logged = replace(
        mixed,
        columns={COMPONENT_LOG_PROBS: mixed.columns[COMPONENT_LOG_PROBS]},
        metadata=replace(mixed.metadata, components=mixture.description, assigned=False),
    )
    for policy, share in ((OLD, 0.9), (NEW, 0.1)):
        ours, theirs = (ove.evaluate(data, policy, **SETTINGS) for data in (mixed, logged))
        assert ours.stats is not None
        assert theirs.stats is not None
        np.testing.assert_allclose(ours.stats.weights, theirs.stats.weights, rtol=1e-12)
        assert ours["variance"].estimate == pytest.approx(theirs["variance"].estimate)
        paths = [tuple(map(int, path)) for path in mixed.actions.reshape(-1, 3)]
        weights = [
            likelihood(policy, path) / (0.9 * likelihood(OLD, path) + 0.1 * likelihood(NEW, path))
            for path in paths
        ]
        np.testing.assert_allclose(ours.stats.weights, weights, rtol=1e-12)
        assert ours["variance"].interval.guaranteed
        assert f"exceeds {1 / share:g}" in str(ours["variance"].interval.assumptions)
        assert "which policy acted" in str(ours["variance"].interval.assumptions)
        # Bets of constant size are no narrower than those that adapt.
        assert ours["variance"].interval.width >= 0.95 * theirs["variance"].interval.width


@pytest.mark.parametrize("kind", ["episodes", "steps", "column", "floats"])
def test_ways_to_say_who_acted(mixed: ove.Trajectories, kind: str) -> None:
    data, arms = logs()
    steps = np.repeat(arms, data.lengths)
    acted: Any = {"episodes": arms, "steps": steps, "column": "arm", "floats": list(arms / 1.0)}
    data = replace(data, columns={"arm": steps})
    again = ove.as_mixture(data, [OLD, NEW], acted=acted[kind])
    np.testing.assert_array_equal(again.log_probs, mixed.log_probs)
    assert again.metadata.components[1]["weight"] == 0.1
    np.testing.assert_array_equal(again.columns["arm"], steps)


def test_a_third_policy_can_be_evaluated_too(mixed: ove.Trajectories) -> None:
    other = ove.TabularPolicy([[0.4, 0.6], [0.5, 0.5]])
    result = ove.evaluate(mixed, other, **SETTINGS)
    assert result["mean"].interval.guaranteed
    assert result.stats is not None
    assert ARMS in result.stats.columns
    assert "assigned" not in str(result.warnings)


def test_probabilities_are_checked_against_who_acted() -> None:
    data, arms = logs()
    with pytest.raises(BehaviorError, match="policy that acted") as caught:
        ove.as_mixture(data, [NEW, OLD], acted=arms)
    assert (caught.value.episode, caught.value.step) == (0, 0)
    wrong = arms.copy()
    wrong[7] = 1
    with pytest.raises(BehaviorError, match="in the order in which `acted` numbers") as caught:
        ove.as_mixture(data, [OLD, NEW], acted=wrong)
    assert caught.value.episode == 7
    drifted = replace(data, log_probs=data.log_probs - 4e-4 * (np.arange(data.n_steps) == 60))
    with pytest.raises(BehaviorError) as caught:
        ove.as_mixture(drifted, [OLD, NEW], acted=arms)
    assert (caught.value.episode, caught.value.step) == (20, 0)


def test_parts_stay_guaranteed_with_their_own_shares(
    mixed: ove.Trajectories, tmp_path: Path
) -> None:
    whole = ove.evaluate(mixed, NEW, **SETTINGS)
    mixed.save(tmp_path / "log")
    streamed = ove.evaluate(tmp_path / "log", NEW, **SETTINGS)
    assert streamed["variance"].interval == whole["variance"].interval
    workers = ove.evaluate(tmp_path / "log", NEW, **SETTINGS, n_jobs=2)
    assert workers["variance"].interval == whole["variance"].interval
    part = mixed[100:290]  # 170 and 20 episodes
    result = ove.evaluate(part, NEW, **SETTINGS)
    assert result["mean"].interval.guaranteed
    again = ove.as_mixture(*_unmixed(part))
    exact = ove.evaluate(again, NEW, **SETTINGS)
    assert result["mean"].estimate == pytest.approx(exact["mean"].estimate, abs=0.02)
    halves = mixed.split(0.5, rng=0)
    joined = ove.Trajectories.concat(halves)
    assert joined.metadata.assigned
    assert ove.evaluate(joined, NEW, **SETTINGS)["mean"].interval.guaranteed
    with pytest.raises(ove.InvalidInputError, match="at least 2 episodes of every policy"):
        ove.evaluate(mixed[:200], NEW, **SETTINGS)


def _unmixed(part: ove.Trajectories) -> tuple[ove.Trajectories, list[Any], Any]:
    arms = part.columns[ASSIGNED_TO]
    log_probs = part.columns[COMPONENT_LOG_PROBS][np.arange(part.n_steps), arms]
    metadata = replace(part.metadata, components=(), assigned=False)
    return replace(part, log_probs=log_probs, columns={}, metadata=metadata), [OLD, NEW], arms


def test_what_is_not_proven_is_approximate(mixed: ove.Trajectories) -> None:
    data, arms = logs(200, 40)
    other = ove.as_mixture(data, [OLD, NEW], acted=arms)
    joined = ove.Trajectories.concat([mixed, other])
    result = ove.evaluate(joined, NEW, **SETTINGS)
    assert not result["mean"].interval.guaranteed
    assert "after joining them" in str(result.warnings)
    forgotten = replace(mixed, columns={COMPONENT_LOG_PROBS: mixed.columns[COMPONENT_LOG_PROBS]})
    result = ove.evaluate(forgotten, NEW, **SETTINGS)
    assert not result["mean"].interval.guaranteed
    paper = ove.evaluate(mixed, NEW, method="paper", quantities=["mean"], **SETTINGS)
    assert not paper["mean"].interval.guaranteed
    begins = np.arange(len(mixed))
    record = {"0": LoggingRecord(begun=len(mixed) + 2, ended=len(mixed), n_envs=2)}
    metadata = replace(mixed.metadata, begun=record)
    running = replace(mixed, begins=begins, metadata=metadata)
    assert not ove.evaluate(running, NEW, **SETTINGS)["mean"].interval.guaranteed


def test_refusals(mixed: ove.Trajectories) -> None:
    data, arms = logs(20, 4)
    both = [OLD, NEW]
    for acted, message in (
        (arms[:-1], "one entry per episode, 24, or per step, 72"),
        (arms + 1, "number of the 2 policies, 0 to 1, got 2"),
        (arms + 0.5, "number of the 2 policies"),
        (0 * arms, r"at least 2 times, got \[24, 0\]"),
        (["a"] * 24, "must hold numbers"),
        ("arm", "kept column"),
        (np.r_[0, 1, np.zeros(70)], "one policy per episode, got 1 after 0 at episode 0, step 1"),
    ):
        with pytest.raises(ove.InvalidInputError, match=message):
            ove.as_mixture(data, both, acted=acted)
    with pytest.raises(ove.InvalidInputError, match="mixture already"):
        ove.as_mixture(mixed, both, acted=ASSIGNED_TO)
    learned = replace(data, metadata=replace(data.metadata, adaptive=True))
    with pytest.raises(ove.InvalidInputError, match="behavior that learned"):
        ove.as_mixture(learned, both, acted=arms)
    with pytest.raises(ove.InvalidInputError, match="at least two models"):
        ove.as_mixture(data, [OLD], acted=arms)
    with pytest.raises(ove.InvalidInputError, match="must be Trajectories"):
        ove.as_mixture("logs/run1", both, acted=arms)  # type: ignore[arg-type]
    drawn = ove.MixturePolicy(both, [0.5, 0.5], per="episode")
    with pytest.raises(ove.InvalidInputError, match="policies of such a mixture themselves"):
        ove.as_mixture(data, [OLD, drawn], acted=arms)
    with pytest.raises(ove.InvalidInputError, match="`behavior` must be None for episodes that we"):
        ove.evaluate(mixed, NEW, behavior=ove.MixturePolicy(both, [0.9, 0.1]), **SETTINGS)
    with pytest.raises(ove.InvalidInputError, match="drawn for every episode"):
        ove.evaluate(mixed, NEW, **SETTINGS).satisfies("variance <= behavior")


def test_recurrent_and_deterministic_policies() -> None:
    recurrent = RecurrentPPO("MlpLstmPolicy", Walk(), n_steps=8, seed=0, device="cpu")
    greedy = ove.Deterministic(recurrent)
    parts = [ove.collect(p, Walk(), n, seed=n) for p, n in ((recurrent, 120), (greedy, 30))]
    data = ove.Trajectories.concat(parts)
    mixed = ove.as_mixture(data, [recurrent, greedy], acted=np.repeat([0, 1], [120, 30]))
    result = ove.evaluate(mixed, greedy, **SETTINGS)
    assert result["mean"].interval.guaranteed
    assert result.stats is not None
    assert result.stats.weights.max() <= 5.0 * (1 + 1e-12)
    assert result["mean"].estimate == pytest.approx(parts[1].returns().mean(), abs=1e-9)
