from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import ove_sb3 as ove
from benchmarks.beds import chain, recommender
from ove_sb3.core import resample
from ove_sb3.core.approximate import SmoothStatistic, variance_statistic
from ove_sb3.core.resample import resampled_sums


def statistic(n: int = 60, *, split: bool, seed: int = 0) -> SmoothStatistic:
    rng = np.random.default_rng(seed)
    q = rng.exponential(1.0, n)
    return SmoothStatistic(q**2 + rng.normal(0, 0.3, n), q, split)


def direct(p: np.ndarray, q: np.ndarray, split: bool) -> float:
    half = p.size // 2
    if split:
        return float(p.mean() - q[:half].mean() * q[half:].mean())
    n = p.size
    return float(p.mean() - (q.sum() ** 2 - np.sum(q**2)) / (n * (n - 1)))


@pytest.mark.parametrize("split", [True, False])
def test_leave_one_out_in_closed_form(split: bool) -> None:
    s = statistic(13, split=split)
    groups = np.arange(13) < 6
    expected = []
    for i in range(13):
        keep = np.arange(13) != i
        p, q = s.p[keep], s.q[keep]
        if split:
            first, second = s.q[keep & groups], s.q[keep & ~groups]
            expected.append(p.mean() - first.mean() * second.mean())
        else:
            expected.append(direct(p, q, split=False))
    np.testing.assert_allclose(s.leave_one_out(), expected, rtol=1e-12)
    assert s.value == pytest.approx(direct(s.p, s.q, split), rel=1e-12)


@pytest.mark.parametrize("split", [True, False])
def test_the_standard_error_is_that_of_the_jackknife(split: bool) -> None:
    s = statistic(4000, split=split)
    left_out = s.leave_one_out()
    n = left_out.size
    jackknife = np.sqrt((n - 1) / n * np.sum((left_out - left_out.mean()) ** 2))
    assert s.standard_error == pytest.approx(jackknife, rel=0.02)


def test_resampled_sums_follow_the_law_of_resampling() -> None:
    table = np.random.default_rng(1).exponential(1.0, (501, 2))
    n_resamples = 20_000
    sums = resampled_sums(table, n_resamples, np.random.default_rng(2))
    p, q = table.T
    columns = np.stack([p, q, p * p, p * q, q * q])
    error = 4 * columns.std(axis=1) * np.sqrt(501 / n_resamples)
    assert (np.abs(sums.mean(axis=0) - columns.sum(axis=1)) < error).all()
    np.testing.assert_allclose(sums.std(axis=0), columns.std(axis=1) * np.sqrt(501), rtol=0.03)
    index = resampled_sums(np.eye(2)[[0, 1, 1]], 6000, np.random.default_rng(3))[:, 0]
    counts = np.bincount(index.astype(int), minlength=4)
    expected = scipy.stats.binom.pmf(range(4), 3, 1 / 3) * 6000
    assert scipy.stats.chisquare(counts, expected).pvalue > 1e-3


@pytest.mark.parametrize("split", [True, False])
def test_resampling_is_centred_where_it_should_be(split: bool) -> None:
    # Resampling all and splitting after, or taking pairs of a trajectory with itself for pairs
    # of different ones, would centre the resampled values elsewhere.
    s = statistic(20, split=split)
    tables = [np.stack([s.p[g], s.q[g]], axis=1) for g in s.groups]
    rng = np.random.default_rng(4)
    sums = [resampled_sums(np.ascontiguousarray(t), 40_000, rng) for t in tables]
    means = [total / len(t) for total, t in zip(sums, tables, strict=True)]
    if split:
        values = sum(total[:, 0] for total in sums) / 20 - means[0][:, 1] * means[1][:, 1]
    else:
        values = means[0][:, 0] - (sums[0][:, 1] ** 2 - sums[0][:, 4]) / (20 * 19)
    assert abs(values.mean() - s.plug_in) < 4 * values.std() / np.sqrt(40_000)


@pytest.mark.parametrize("kind", ["basic", "percentile", "bca"])
def test_intervals_for_the_mean_agree_with_scipy(kind: str) -> None:
    rng = np.random.default_rng(5)
    rewards = rng.exponential(1.0, 80)
    stats = ove.trajectory_statistics(
        np.zeros(80), rewards, np.ones(80, dtype=int), gamma=1.0, horizon=1
    )
    ours = ove.mean_interval(
        stats, method="bootstrap", bootstrap_kind=kind, estimator="is", n_resamples=40_000
    )
    theirs = scipy.stats.bootstrap(
        (rewards,), np.mean, n_resamples=40_000, method="BCa" if kind == "bca" else kind, rng=1
    ).confidence_interval
    assert ours.lower == pytest.approx(theirs.low, abs=0.01)
    assert ours.upper == pytest.approx(theirs.high, abs=0.01)


def test_studentized_is_bootstrap_t() -> None:
    rng = np.random.default_rng(6)
    rewards = rng.exponential(1.0, 50)
    stats = ove.trajectory_statistics(
        np.zeros(50), rewards, np.ones(50, dtype=int), gamma=1.0, horizon=1
    )
    ours = ove.mean_interval(
        stats, method="bootstrap", bootstrap_kind="studentized", estimator="is", n_resamples=40_000
    )
    draws = rewards[rng.integers(0, 50, (40_000, 50))]
    t = (draws.mean(axis=1) - rewards.mean()) / (draws.std(axis=1, ddof=1) / np.sqrt(50))
    error = rewards.std(ddof=1) / np.sqrt(50)
    assert ours.lower == pytest.approx(rewards.mean() - np.quantile(t, 0.975) * error, abs=0.02)
    assert ours.upper == pytest.approx(rewards.mean() - np.quantile(t, 0.025) * error, abs=0.05)


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("delta", None),
        ("bootstrap", "basic"),
        ("bootstrap", "percentile"),
        ("bootstrap", "bca"),
        ("bootstrap", "studentized"),
    ],
)
@pytest.mark.parametrize("estimator", ["crossfit", "cdis"])
def test_coverage_is_near_nominal_on_ample_data(
    method: str, kind: str | None, estimator: str
) -> None:
    bed, trials = chain(4), 120
    hits = 0
    for trial in range(trials):
        stats = bed.statistics(800, np.random.default_rng([trial, 9]))
        interval = ove.variance_interval(
            stats,
            method=method,
            bootstrap_kind=kind,
            estimator=estimator,
            delta=0.2,
            n_resamples=None if kind is None else 400,
        )
        assert not interval.guaranteed
        hits += bed.variance in interval
    assert 0.68 * trials <= hits <= 0.92 * trials


def test_centring_makes_approximate_intervals_far_narrower_on_the_recommender() -> None:
    stats = recommender().statistics(1000, np.random.default_rng(7))
    widths = {
        name: ove.variance_interval(stats, method="bootstrap", estimator=name).width
        for name in ("crossfit", "cdis")
    }
    assert widths["crossfit"] < widths["cdis"] / 10


def test_the_crossfit_columns_give_the_estimate() -> None:
    stats = chain(8).statistics(500, np.random.default_rng(8))
    value = variance_statistic(stats, "crossfit", "split").value
    assert value == pytest.approx(ove.estimate_variance(stats), rel=0.01)


def test_the_number_of_threads_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    stats = chain(8).statistics(200, np.random.default_rng(10))
    intervals = []
    for threads in (1, 6):
        monkeypatch.setattr(resample, "n_threads", lambda threads=threads: threads)
        intervals.append(ove.variance_interval(stats, method="bootstrap", rng=3))
    assert intervals[0] == intervals[1]
    assert ove.variance_interval(stats, method="bootstrap", rng=4) != intervals[0]
