"""The behavior's own interval, and requirements on the candidate relative to the behavior."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import ove_sb3 as ove
from ove_sb3.evaluation.behavior import Behavior
from ove_sb3.evaluation.requirements import Requirement

RNG = np.random.default_rng(0)


def log(n: int, *, seed: int = 0, adaptive: bool = False) -> ove.Trajectories:
    """One step; action 1 always returns 1, action 0 returns 0 or 2."""
    rng = np.random.default_rng(seed)
    actions = rng.integers(2, size=n)
    rewards = np.where(actions == 1, 1.0, 2.0 * rng.integers(2, size=n))
    data = ove.Trajectories.from_arrays(
        observations=np.zeros((n, 1)),
        actions=actions,
        log_probs=np.full(n, np.log(0.5)),
        rewards=rewards,
        lengths=np.ones(n, dtype=int),
    )
    return replace(data, metadata=replace(data.metadata, adaptive=adaptive))


def evaluate(data: ove.Trajectories, chance: float, **options: object) -> ove.Evaluation:
    """Evaluate a candidate that takes action 1 with this probability."""
    candidate = np.log(np.where(data.actions == 1, chance, 1.0 - chance))
    quantities = [*ove.DEFAULT_QUANTITIES, "quantile:0.05", "median", "cvar:0.1"]
    arguments = {
        "quantities": quantities,
        "gamma": 1.0,
        "reward_range": (0.0, 2.0),
        "horizon": 1,
        "max_ratio": 2.0,
    }
    return ove.evaluate(data, candidate, **{**arguments, **options})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def calm() -> ove.Evaluation:
    """A candidate of variance 0.1; that of the behavior is 0.5, and both have the mean 1."""
    return evaluate(log(4000), 0.9)


def test_the_behavior_has_an_interval_of_its_own(calm: ove.Evaluation) -> None:
    for name, truth in {"mean": 1.0, "variance": 0.5, "std": 0.5**0.5, "cvar:0.1": 0.0}.items():
        interval = calm[name].behavior_interval
        assert interval is not None
        assert interval.guaranteed
        assert truth in interval
        assert interval.width < 0.2
    assert calm["variance"].behavior in (calm["variance"].behavior_interval or ())


def test_statistics_of_the_behavior_equal_those_of_ratios_of_one() -> None:
    lengths = RNG.integers(1, 5, size=200)
    steps = int(lengths.sum())
    rewards = RNG.normal(size=steps)
    for horizon in (4, 9, None):
        for gamma in (0.9, 1.0):
            logged, expected = (
                ove.trajectory_statistics(ratios, rewards, lengths, gamma=gamma, horizon=horizon)
                for ratios in (RNG.normal(0, 0.1, steps), np.zeros(steps))
            )
            own = Behavior(logged, None).stats  # type: ignore[arg-type]
            for name, column in expected.columns.items():
                np.testing.assert_allclose(own[name], column, rtol=1e-9, atol=1e-9)
            assert own.max_log_ratio == expected.max_log_ratio
            assert own.max_log_weight == expected.max_log_weight


def test_less_variance_than_the_behavior_is_proven(calm: ove.Evaluation) -> None:
    verdict = calm.check("variance <= behavior")
    assert verdict.status == "proven"
    assert "The 97.5% upper bound is" in verdict.reason
    assert "the 97.5% lower bound of the behavior" in verdict.reason
    assert calm.satisfies("variance <= behavior", "std < behavior", "mean >= behavior - 0.2")
    assert calm.check("variance <= behavior - 0.3").status == "proven"
    assert calm.check("variance >= behavior").status == "refuted"
    assert calm.check("mean >= behavior + 1").status == "refuted"
    assert calm.check("cvar:0.5 >= behavior").status == "proven"


def test_what_is_close_is_undecided_with_a_number_of_episodes() -> None:
    verdict = evaluate(log(400), 0.6).check("variance <= behavior")
    assert verdict.status == "undecided"
    assert verdict.episodes_needed is not None
    assert verdict.episodes_needed > 400
    worse = evaluate(log(400), 0.45).check("variance <= behavior")
    assert worse.status == "undecided"
    assert worse.leaning == "refute"
    assert worse.episodes_needed is not None
    assert worse.episodes_needed > 400
    assert str(worse).endswith(f"About {worse.episodes_needed} episodes would refute it.")


def test_the_number_of_episodes_about_refutes() -> None:
    few = evaluate(log(60, seed=1), 0.3).check("variance <= 0.5")  # the variance is 0.7
    assert (few.status, few.leaning) == ("undecided", "refute")
    assert few.episodes_needed is not None
    for seed in range(3):
        more = evaluate(log(3 * few.episodes_needed, seed=seed), 0.3)
        assert more.check("variance <= 0.5").status == "refuted"


def test_the_number_of_episodes_about_decides() -> None:
    alone: dict[str, Any] = {"quantities": ["variance"], "approximate": None}
    few = evaluate(log(200, seed=1), 0.65, **alone).check("variance <= behavior")
    assert few.status == "undecided"
    assert few.episodes_needed is not None
    decided = [
        evaluate(log(3 * few.episodes_needed, seed=seed), 0.65, **alone) for seed in range(5)
    ]
    assert all(result.satisfies("variance <= behavior") for result in decided)


def test_false_requirements_are_rarely_proven_and_true_ones_rarely_refuted() -> None:
    proven = refuted = 0
    trials = 60
    for seed in range(trials):
        result = evaluate(
            log(150, seed=seed),
            0.5,
            delta=0.4,
            approximate=None,
            quantities=("variance",),
            method=ove.Betting(n_shuffles=1),  # misses most often
        )
        proven += result.check("variance < behavior").proven
        refuted += result.check("variance <= behavior").status == "refuted"
    assert binom.sf(proven - 1, trials, 0.4) > 1e-4
    assert refuted == 0


def test_a_behavior_that_changed_is_refused() -> None:
    result = evaluate(log(400, adaptive=True), 0.9)
    assert result["variance"].behavior_interval is None
    with pytest.raises(ove.InvalidInputError, match="the behavior changed while the log"):
        result.check("variance <= behavior")
    assert result.check("variance <= 4").status == "proven"


def test_a_mixture_drawn_per_episode_is_refused() -> None:
    data = log(400)
    parts = [{"weight": 0.5, "policy": name, "fingerprint": name} for name in ("a", "b")]
    mixed = replace(data, metadata=replace(data.metadata, components=tuple(parts)))
    result = evaluate(mixed, 0.9)
    assert result["variance"].behavior_interval is None
    with pytest.raises(ove.InvalidInputError, match="one of 2 policies was drawn for every"):
        result.check("variance <= behavior")


def test_an_interval_that_is_not_guaranteed_decides_nothing() -> None:
    result = evaluate(log(4000), 0.9, reward_range="from_data")
    verdict = result.check("variance <= behavior")
    assert verdict.status == "undecided"
    assert "not guaranteed" in verdict.reason


@pytest.mark.parametrize(
    ("text", "limit", "reference", "shown"),
    [
        ("variance <= behavior", 0.0, "behavior", "variance <= behavior"),
        ("mean >= behavior+1", 1.0, "behavior", "mean >= behavior + 1"),
        ("mean>behavior - 0.5", -0.5, "behavior", "mean > behavior - 0.5"),
        ("cvar:0.1 >= behavior:2", 0.0, "behavior:2", "cvar:0.1 >= behavior:2"),
        ("p_below:5 <= 0.01", 0.01, None, "p_below:5 <= 0.01"),
        ("quantile:0.05>=-3", -3.0, None, "quantile:0.05 >= -3"),
    ],
)
def test_requirements_are_parsed(text: str, limit: float, reference: str, shown: str) -> None:
    requirement = Requirement.parse(text)
    assert (requirement.limit, requirement.reference) == (limit, reference)
    assert str(requirement) == shown
    assert Requirement.parse(shown) == requirement


@pytest.mark.parametrize(
    "text",
    ["mean >= behaviour", "mean >= behavior *2", "mean >= behavior + x", "mean >= behavior:a"],
)
def test_bad_references_are_refused(text: str) -> None:
    with pytest.raises(ove.InvalidInputError, match="a requirement must end in a finite number"):
        Requirement.parse(text)


def test_the_text_has_a_sentence_about_the_tail(calm: ove.Evaluation) -> None:
    lower = calm["median"].interval.lower
    assert calm["quantile:0.05"].interval.lower == 0.0
    assert f"With 95% confidence at least 50% of episodes return at least {lower:g}." in str(calm)
