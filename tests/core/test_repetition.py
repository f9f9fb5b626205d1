"""Copies of trajectories are found, and chance alone is not taken for copying."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import poisson

import ove_sb3 as ove
from ove_sb3._validation import FloatArray
from ove_sb3.core.repetition import n_repeated


def stats_of(values: FloatArray, ratios: FloatArray | None = None) -> ove.TrajectoryStatistics:
    """Statistics of episodes of one step."""
    log_ratios = np.zeros(values.size) if ratios is None else np.log(ratios)
    return ove.trajectory_statistics(
        log_ratios, values, np.ones(values.size, int), gamma=1.0, horizon=1
    )


@pytest.mark.parametrize("outcomes", [2, 3, 40, None])
@pytest.mark.parametrize("n_copies", [2, 4])
def test_a_log_joined_to_itself_is_not_guaranteed(outcomes: int | None, n_copies: int) -> None:
    rng = np.random.default_rng(0)
    once = rng.random(300) if outcomes is None else rng.integers(outcomes, size=300) / outcomes
    sound = ove.variance_interval(stats_of(once), reward_range=(0, 1))
    assert sound.guaranteed
    copied = stats_of(np.tile(once, n_copies))
    assert copied.n_repeated == 300 * (n_copies - 1)
    interval = ove.variance_interval(copied, reward_range=(0, 1))
    assert interval.width < 0.8 * sound.width
    assert not interval.guaranteed
    assert "repeat earlier ones exactly" in interval.reasons[0]
    assert "repeat earlier ones exactly" in " ".join(interval.assumptions)


@pytest.mark.parametrize("outcomes", [60, None])
def test_copies_in_another_order(outcomes: int | None) -> None:
    rng = np.random.default_rng(1)
    once = rng.random(300) if outcomes is None else rng.integers(outcomes, size=300) / outcomes
    copied = np.concatenate([rng.permutation(once) for _ in range(3)])
    assert stats_of(copied).n_repeated == 600


@pytest.mark.parametrize("n_copies", [2, 3, 6, 10])
def test_copies_that_lack_some_trajectories(n_copies: int) -> None:
    rng = np.random.default_rng(6)
    once = rng.random(400)
    copied = stats_of(np.concatenate([rng.permutation(once)[8:] for _ in range(n_copies)]))
    assert copied.n_repeated == len(copied) - np.unique(copied.returns).size
    assert not ove.variance_interval(copied, reward_range=(0, 1)).guaranteed
    one_less = np.repeat(once, n_copies)[1:]
    assert stats_of(rng.permutation(one_less)).n_repeated == one_less.size - 400


def test_multiples_are_less_likely_than_not() -> None:
    # Of a Poisson variable that is not 0, whatever its mean.
    means = np.geomspace(1e-3, 1e3, 2_000)[:, None]
    counts = np.arange(1, 1_500)
    probabilities = poisson.pmf(counts, means) / poisson.sf(0, means)
    for m in range(2, 70):
        assert probabilities[:, counts % m == 0].sum(axis=1).max() < 0.5 + 1e-9


def test_a_part_that_is_there_twice() -> None:
    once = np.random.default_rng(2).random(1000)
    assert stats_of(np.concatenate([once, once[200:260]])).n_repeated == 60
    assert stats_of(np.concatenate([once[:600], once[500:]])).n_repeated == 100
    assert stats_of(np.concatenate([once, once[:3]])).n_repeated == 0  # may be chance


@pytest.mark.parametrize(
    "probabilities",
    [[1.0], [0.5, 0.5], [0.99, 0.01], [0.999, 0.0005, 0.0005], [1 / 6] * 6, [1e-3] * 1000],
)
@pytest.mark.parametrize("n", [2, 3, 10, 100, 1_000, 20_000])
def test_chance_is_not_taken_for_copies(probabilities: list[float], n: int) -> None:
    rng = np.random.default_rng(3)
    for _ in range(20 if n < 20_000 else 3):
        values = rng.choice(len(probabilities), size=n, p=probabilities).astype(float)
        assert n_repeated(values) == 0


def test_a_behavior_that_has_converged_is_not_taken_for_copies() -> None:
    rng = np.random.default_rng(4)
    drifting = np.concatenate([rng.random(500), np.full(2000, 7.0), rng.integers(2, size=500)])
    assert n_repeated(drifting) == 0


def test_equal_returns_with_different_weights_are_different() -> None:
    rng = np.random.default_rng(5)
    returns = np.tile(rng.random(200), 2)
    assert stats_of(returns, rng.uniform(0.5, 1.5, 400)).n_repeated == 0
    assert stats_of(returns).n_repeated == 200


def test_logs_of_one_behavior_with_different_seeds_are_different() -> None:
    from gymnasium import spaces

    policy = ove.UniformPolicy(spaces.Discrete(2))
    parts = [ove.collect(policy, "CartPole-v1", 60, seed=seed) for seed in (1, 2, 1)]
    candidate = np.full(sum(part.n_steps for part in parts[:2]), np.log(0.5))
    joined = ove.Trajectories.concat(parts[:2])
    options = {"gamma": 0.99, "reward_range": (0, 1)}
    assert ove.evaluate(joined, candidate, **options).guaranteed  # type: ignore[arg-type]
    twice = ove.Trajectories.concat([parts[0], parts[2]])
    candidate = np.full(twice.n_steps, np.log(0.5))
    result = ove.evaluate(twice, candidate, **options)  # type: ignore[arg-type]
    assert not result.guaranteed
    assert any("60 trajectories repeat earlier ones" in text for text in result.warnings)


def test_a_confidence_sequence_remembers_copies_among_the_first() -> None:
    rng = np.random.default_rng(7)
    values = np.concatenate([np.repeat(rng.random(150), 2), rng.random(300)])
    assert stats_of(values).n_repeated == 0  # few among all of them
    sequence = ove.confidence_sequence(stats_of(values), "mean", reward_range=(0, 1))
    assert not sequence.interval.guaranteed
    assert "repeat earlier ones exactly" in sequence.interval.reasons[0]
