from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core import step_reduction
from ove_sb3.core._kernel import _exp
from ove_sb3.core.statistics import effective_horizon
from tests.core import reference

COLUMNS = ("weights", "returns", "pdis", "cdis", "pdis_ones", "cdis_ones", "cdis_cross")


def random_log(
    seed: int, n: int = 40, longest: int = 9
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, n)
    lengths[0] = longest
    log_ratios = rng.normal(0, 0.7, lengths.sum())
    log_ratios[rng.random(lengths.sum()) < 0.05] = -np.inf
    return log_ratios, rng.normal(1, 2, lengths.sum()), lengths


def episodes(log: tuple[np.ndarray, np.ndarray, np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    cuts = np.cumsum(log[2])[:-1]
    return list(zip(np.split(log[0], cuts), np.split(log[1], cuts), strict=True))


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("extra", [0, 3])
def test_one_pass_equals_the_literal_double_sums(gamma: float, extra: int) -> None:
    log = random_log(1)
    horizon = 9 + extra
    stats = ove.trajectory_statistics(*log, gamma=gamma, horizon=horizon)
    for shift, xi in ((0.0, 0.0), (0.7, 0.0), (-1.3, 2.0)):
        Y = [reference.pdis(*episode, gamma, horizon, shift) for episode in episodes(log)]
        X = [reference.cdis(*episode, gamma, horizon, shift, xi) for episode in episodes(log)]
        np.testing.assert_allclose(stats.pdis - shift * stats.pdis_ones, Y, rtol=1e-9, atol=1e-9)
        one_pass = (
            stats.cdis
            - 2 * shift * stats.cdis_cross
            + shift**2 * stats.cdis_ones
            - xi * stats.cdis_ones
        )
        np.testing.assert_allclose(one_pass, X, rtol=1e-9, atol=1e-9)
    for i, (log_ratios, rewards) in enumerate(episodes(log)):
        assert stats.weights[i] == pytest.approx(math.exp(log_ratios.sum()), rel=1e-12)
        discounted = gamma ** np.arange(rewards.size) * rewards
        assert stats.returns[i] == pytest.approx(discounted.sum(), rel=1e-12, abs=1e-12)


def test_an_infinite_horizon_is_the_limit_of_long_ones() -> None:
    log = random_log(2)
    infinite = ove.trajectory_statistics(*log, gamma=0.9)
    long = ove.trajectory_statistics(*log, gamma=0.9, horizon=500)
    for name in COLUMNS:
        np.testing.assert_allclose(getattr(infinite, name), getattr(long, name), rtol=1e-10)
    assert infinite.effective_horizon == pytest.approx(10.0)


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.99, 1 - 1e-9, 1 - 1e-12, 1 - 3e-14, 1 - 2.0**-53])
@pytest.mark.parametrize("horizon", [1, 2, 77, 3000])
def test_the_effective_horizon_is_the_exact_sum(gamma: float, horizon: int) -> None:
    g = Fraction(gamma)
    exact = sum((g**t for t in range(min(horizon, 77))), Fraction(0))
    if horizon > 77:
        exact = (1 - g**horizon) / (1 - g)
    assert effective_horizon(gamma, horizon) == pytest.approx(float(exact), rel=1e-15)


def test_without_horizon_or_discount_the_padded_columns_are_not_numbers() -> None:
    stats = ove.trajectory_statistics(*random_log(3), gamma=1.0)
    assert math.isinf(stats.effective_horizon)
    assert np.isnan(stats.pdis_ones).all()
    assert np.isfinite(stats.cdis).all()


def test_products_that_underflow_on_the_way_recover() -> None:
    stats = ove.trajectory_statistics(
        [-1000.0, 1000.0, 0.0], [1.0, 1.0, 1.0], [2, 1], gamma=1.0, horizon=2
    )
    np.testing.assert_array_equal(stats.weights, [1.0, 1.0])
    assert stats.pdis[0] == 1.0  # the first reward has weight exp(-1000) = 0


def test_a_ratio_of_zero_ends_the_weight_for_good() -> None:
    stats = ove.trajectory_statistics(
        [-np.inf, 5.0, 0.0], [1.0, 2.0, 3.0], [2, 1], gamma=1.0, horizon=2
    )
    np.testing.assert_array_equal(stats.weights, [0.0, 1.0])
    np.testing.assert_array_equal(stats.pdis, [0.0, 3.0])
    assert stats.n_zero_ratios == 1


def test_the_exponential_is_accurate_to_the_last_places() -> None:
    x = np.concatenate([np.linspace(-707, 709, 20_001), np.linspace(-1e-3, 1e-3, 101)])
    ours = np.array([_exp(value) for value in x])
    np.testing.assert_allclose(ours, np.exp(x), rtol=4e-16 * 4)
    assert _exp(-np.inf) == 0.0
    assert _exp(0.0) == 1.0


@pytest.mark.filterwarnings("ignore::ove_sb3.errors.SupportWarning")
def test_shards_joined_equal_the_whole() -> None:
    log_ratios, rewards, lengths = random_log(4, n=60, longest=20)
    whole = ove.trajectory_statistics(log_ratios, rewards, lengths, gamma=0.97, horizon=25)
    parts = []
    for first, last in ((0, 10), (10, 45), (45, 60)):
        steps = slice(lengths[:first].sum(), lengths[:last].sum())
        parts.append(
            ove.trajectory_statistics(
                log_ratios[steps], rewards[steps], lengths[first:last], gamma=0.97, horizon=25
            )
        )
    joined = ove.TrajectoryStatistics.concatenate(parts)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name))
    for sums, expected in (
        (joined.step_sums, whole.step_sums),
        (joined.end_sums, whole.end_sums),
    ):
        assert sums is not None
        assert expected is not None
        np.testing.assert_allclose(sums, expected, rtol=1e-12)
    assert (joined.reward_min, joined.reward_max) == (whole.reward_min, whole.reward_max)
    assert joined.n_zero_ratios == whole.n_zero_ratios
    for estimator in ("crossfit", "pair_cdis"):
        assert ove.estimate_variance(joined, estimator=estimator) == pytest.approx(
            ove.estimate_variance(whole, estimator=estimator), rel=1e-10
        )


def test_shards_of_different_settings_are_refused() -> None:
    log = random_log(5)
    parts = [ove.trajectory_statistics(*log, gamma=gamma) for gamma in (0.9, 0.8)]
    with pytest.raises(ove.InvalidInputError, match="share gamma and horizon"):
        ove.TrajectoryStatistics.concatenate(parts)
    with pytest.raises(ove.InvalidInputError, match="at least one"):
        ove.TrajectoryStatistics.concatenate([])


def test_the_number_of_threads_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    lengths = rng.integers(1, 60, 40_000)
    log = rng.normal(0, 0.1, lengths.sum()), rng.normal(size=lengths.sum()), lengths
    results = []
    for threads in (1, 5):
        monkeypatch.setattr(step_reduction, "n_threads", lambda threads=threads: threads)
        results.append(ove.trajectory_statistics(*log, gamma=0.99))
    assert lengths.sum() > 4 * step_reduction._STEPS_PER_TASK, "must be more than one task"
    for name in (*COLUMNS, "step_sums", "end_sums"):
        np.testing.assert_array_equal(getattr(results[0], name), getattr(results[1], name))


def test_length_and_summary() -> None:
    stats = ove.trajectory_statistics(*random_log(7), gamma=0.9, horizon=12)
    assert len(stats) == stats.n_trajectories == 40
    assert str(stats).startswith("TrajectoryStatistics: 40 trajectories, ")
    assert "horizon 12" in str(stats)
