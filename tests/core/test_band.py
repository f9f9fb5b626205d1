"""The band around the distribution function: step functions that bound it simultaneously."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import ove_sb3 as ove
from ove_sb3.core import band as module
from ove_sb3.core.band import LEVELS, DistributionBand, distribution_band
from tests.problems.risk import Outcomes, problems, true_probability, true_quantile

PROBLEMS = problems()


def band_of(problem: Outcomes, stats: ove.TrajectoryStatistics, delta: float) -> DistributionBand:
    def interval_of(quantile: ove.Quantile, share: float) -> ove.Interval:
        return ove.interval(
            stats,
            quantile,
            reward_range=problem.reward_range,
            max_weight=problem.max_weight,
            delta=share,
            method=ove.Betting(n_shuffles=1),
        )

    return distribution_band(interval_of, delta)


def misses(problem: Outcomes, band: DistributionBand) -> bool:
    """Whether the true distribution function leaves the band anywhere."""
    distribution = problem.distribution
    low, high = band.return_range
    points = np.concatenate([list(distribution), band.lower, band.upper, [low, high]])
    for x in np.unique(np.concatenate([points, points - 1e-6, points + 1e-6])):
        below, above = band.at(x)
        true = true_probability(distribution, x + 1e-9)
        if not below - 1e-9 <= true <= above + 1e-9:
            return True
    return False


def test_bounds_of_quantiles_become_steps() -> None:
    bounds = {0.25: (1.0, 3.0), 0.5: (2.0, 4.0)}
    band = DistributionBand(
        levels=np.array(list(bounds)),
        lower=np.array([low for low, _ in bounds.values()]),
        upper=np.array([high for _, high in bounds.values()]),
        return_range=(0.0, 5.0),
        delta=0.1,
        guaranteed=True,
        reasons=(),
    )
    # q_.25 in [1, 3] and q_.5 in [2, 4], of returns in [0, 5].
    expected = {
        -0.1: (0, 0),
        0.0: (0, 0.25),
        0.9: (0, 0.25),
        1.0: (0, 0.5),
        1.9: (0, 0.5),
        2.0: (0, 1),
        2.9: (0, 1),
        3.0: (0.25, 1),
        3.9: (0.25, 1),
        4.0: (0.5, 1),
        5.0: (1, 1),
    }
    for x, (low, high) in expected.items():
        np.testing.assert_array_equal(band.at(x), (low, high), str(x))
    points, below, above = band.steps()
    assert points.tolist() == [0, 1, 2, 3, 4, 5]
    assert list(zip(below, above, strict=True)) == [expected[x] for x in points]
    assert band.quantile(0.25) == (1, 3)
    assert band.quantile(0.3) == (1, 4)  # not interpolated
    assert band.quantile(0.2) == (0, 3)
    assert band.quantile(0.6) == (2, 5)
    with pytest.raises(ove.InvalidInputError, match="`p`"):
        band.quantile(1.0)


def test_delta_is_divided_among_about_thirty_levels_fixed_in_advance() -> None:
    assert 25 <= LEVELS.size <= 35
    assert np.all(np.diff(LEVELS) > 0)
    asked = []

    def interval_of(quantile: ove.Quantile, delta: float) -> ove.Interval:
        asked.append((quantile.p, delta))
        return ove.interval(stats, quantile, reward_range=(0, 1), delta=delta)

    stats = PROBLEMS["on policy"].statistics(50, np.random.default_rng(0))
    band = distribution_band(interval_of, 0.1)
    assert [p for p, _ in asked] == LEVELS.tolist()
    assert sum(delta for _, delta in asked) == pytest.approx(0.1)
    assert band.guaranteed
    assert band.delta == 0.1


@pytest.mark.parametrize("name", ["rare heavy low", "atom at the quantile", "many values", "tiny"])
def test_the_whole_band_misses_at_most_as_often_as_it_says(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEVELS", np.array([0.05, 0.3, 0.5, 0.9]))
    problem, trials, delta = PROBLEMS[name], 40, 0.4
    missed = sum(
        misses(
            problem, band_of(problem, problem.statistics(60, np.random.default_rng(trial)), delta)
        )
        for trial in range(trials)
    )
    assert binom.sf(missed - 1, trials, delta) > 1e-4


def test_a_large_log_gives_a_narrow_band_around_the_truth() -> None:
    problem = PROBLEMS["many values"]
    band = band_of(problem, problem.statistics(20_000, np.random.default_rng(0)), 0.05)
    assert band.consistent
    assert not misses(problem, band)
    for x in np.linspace(0.0, 1.0, 21) + 0.01:
        below, above = band.at(x)
        assert above - below < 0.12
    for p in LEVELS:
        low, high = band.quantile(p)
        assert low <= true_quantile(problem.distribution, p) <= high


def test_contradictory_bounds_are_not_guaranteed(monkeypatch: pytest.MonkeyPatch) -> None:
    stats = PROBLEMS["many values"].statistics(2000, np.random.default_rng(0))
    monkeypatch.setattr(module, "LEVELS", np.array([0.25, 0.75]))

    def interval_of(quantile: ove.Quantile, delta: float) -> ove.Interval:
        # Each interval is consistent, but a quarter lies above 0.6 and three quarters below 0.4.
        found = ove.interval(stats, quantile, reward_range=(-1, 2), delta=delta)
        lower, upper = (0.6, 0.9) if quantile.p == 0.25 else (0.1, 0.4)
        return replace(found, lower=lower, upper=upper)

    band = distribution_band(interval_of, 0.05)
    assert band.lower.tolist() == [0.6, 0.6]  # quantiles increase with their level
    assert band.upper.tolist() == [0.4, 0.4]
    assert not band.consistent
    assert not band.guaranteed
    assert any("exceeds" in reason for reason in band.reasons)


def test_an_evaluation_has_its_band() -> None:
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=400)
    data = ove.Trajectories.from_arrays(
        observations=np.zeros((400, 1)),
        actions=actions,
        log_probs=np.full(400, np.log(0.5)),
        rewards=rng.random(400),
        lengths=np.ones(400, dtype=int),
    )
    candidate = np.log(np.where(actions == 1, 0.6, 0.4))
    options = {"gamma": 1.0, "reward_range": (0, 1), "horizon": 1, "quantities": ["mean"]}
    band = ove.evaluate(data, candidate, **options).band  # type: ignore[arg-type]
    assert band is not None
    assert band.guaranteed
    assert band.delta == 0.05
    low, high = band.quantile(0.5)
    assert 0.3 < low < 0.5 < high < 0.7
    from_data = ove.evaluate(
        data,
        candidate,
        **{**options, "reward_range": "from_data"},  # type: ignore[arg-type]
    )
    assert from_data.band is not None
    assert not from_data.band.guaranteed
    paper = ove.evaluate(data, candidate, method="paper", **options)  # type: ignore[arg-type]
    assert paper.band is None
