from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import ove_sb3 as ove
from ove_sb3.core.estimators import estimator_names, find_estimator
from ove_sb3.core.estimators.smooth import SmoothStatistic
from ove_sb3.core.methods import _resample
from ove_sb3.core.methods._resample import resampled_sums
from ove_sb3.core.methods.bootstrap import VARIANTS, _bca
from tests.problems.bandits import recommender
from tests.problems.chain import chain
from tests.problems.fixed_logs import PROBLEMS

from .test_golden import statistics


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


def test_resampled_sums_have_the_distribution_of_resampling() -> None:
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
def test_resampling_is_centered_where_it_should_be(split: bool) -> None:
    # Resampling all and splitting after, or taking pairs of a trajectory with itself for pairs
    # of different ones, would center the resampled values elsewhere.
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


@pytest.mark.parametrize("variant", ["basic", "percentile", "bca"])
def test_intervals_for_the_mean_agree_with_scipy(variant: str) -> None:
    rng = np.random.default_rng(5)
    rewards = rng.exponential(1.0, 80)
    stats = ove.trajectory_statistics(
        np.zeros(80), rewards, np.ones(80, dtype=int), gamma=1.0, horizon=1
    )
    ours = ove.mean_interval(stats, method=ove.Bootstrap(variant, 40_000, estimator="is"))
    name = "BCa" if variant == "bca" else variant
    theirs = scipy.stats.bootstrap(
        (rewards,), np.mean, n_resamples=40_000, method=name, rng=1
    ).confidence_interval
    assert ours.lower == pytest.approx(theirs.low, abs=0.01)
    assert ours.upper == pytest.approx(theirs.high, abs=0.01)


def test_bca_is_the_printed_formula_when_resampled_values_are_off_center() -> None:
    s = statistic(40, split=False)
    values = s.value + np.random.default_rng(9).normal(0.4, 1.0, 5000)  # most are above
    lower, upper = _bca(s, values, s.value, {"lower": 0.05, "upper": 0.9})
    normal = scipy.stats.norm
    z0 = normal.ppf(np.mean(values < s.value))
    left_out = s.leave_one_out()
    a = scipy.stats.skew(left_out.mean() - left_out) / (6 * np.sqrt(left_out.size))
    for bound, tail in ((lower, 0.05), (upper, 0.9)):
        z = z0 + normal.ppf(tail)
        level = normal.cdf(z0 + z / (1 - a * z))
        assert bound == pytest.approx(np.quantile(values, level), rel=1e-9)


def test_studentized_is_bootstrap_t() -> None:
    rng = np.random.default_rng(6)
    rewards = rng.exponential(1.0, 50)
    stats = ove.trajectory_statistics(
        np.zeros(50), rewards, np.ones(50, dtype=int), gamma=1.0, horizon=1
    )
    ours = ove.mean_interval(stats, method=ove.Bootstrap("studentized", 40_000, estimator="is"))
    draws = rewards[rng.integers(0, 50, (40_000, 50))]
    t = (draws.mean(axis=1) - rewards.mean()) / (draws.std(axis=1, ddof=1) / np.sqrt(50))
    error = rewards.std(ddof=1) / np.sqrt(50)
    assert ours.lower == pytest.approx(rewards.mean() - np.quantile(t, 0.975) * error, abs=0.02)
    assert ours.upper == pytest.approx(rewards.mean() - np.quantile(t, 0.025) * error, abs=0.05)


def approximate_methods(estimator: str, n_resamples: int) -> dict[str, ove.Method]:
    """The normal interval and all variants of the bootstrap, by name."""
    bootstraps = {name: ove.Bootstrap(name, n_resamples, estimator) for name in VARIANTS}
    return {"normal": ove.Normal(estimator), **bootstraps}


@pytest.mark.parametrize("method", ["normal", *VARIANTS])
@pytest.mark.parametrize("estimator", ["crossfit", "cdis", "pair", "pair_cdis"])
def test_coverage_is_near_nominal_on_ample_data(method: str, estimator: str) -> None:
    problem, trials = chain(4), 120
    chosen = approximate_methods(estimator, 400)[method]
    hits = 0
    for trial in range(trials):
        stats = problem.statistics(800, np.random.default_rng([trial, 9]))
        interval = ove.variance_interval(stats, method=chosen, delta=0.2)
        assert not interval.guaranteed
        hits += problem.variance in interval
    assert 0.68 * trials <= hits <= 0.92 * trials


def test_centering_makes_approximate_intervals_far_narrower_on_the_recommender() -> None:
    stats = recommender().statistics(1000, np.random.default_rng(7))
    widths = {
        name: ove.variance_interval(stats, method=ove.Bootstrap(estimator=name)).width
        for name in ("crossfit", "cdis")
    }
    assert widths["crossfit"] < widths["cdis"] / 10


def test_the_crossfit_columns_give_the_estimate() -> None:
    stats = chain(8).statistics(500, np.random.default_rng(8))
    # It pairs trajectories of different folds, which the estimate does not.
    value = find_estimator("variance", "crossfit").smooth_statistic(stats).value
    assert value == pytest.approx(ove.estimate_variance(stats), rel=0.02)


@pytest.mark.parametrize(
    ("quantity", "estimator"),
    [(quantity, name) for quantity in ("mean", "variance") for name in estimator_names(quantity)],
)
@pytest.mark.parametrize("method", ["normal", *VARIANTS])
def test_every_estimator_has_approximate_intervals(
    quantity: str, estimator: str, method: str
) -> None:
    problem = PROBLEMS["ragged"]
    stats = statistics(problem)
    chosen = approximate_methods(estimator, 300)[method]
    estimate = ove.estimate(stats, quantity, estimator=estimator)
    interval = ove.interval(stats, quantity, method=chosen)
    assert np.isfinite([interval.lower, interval.upper]).all()
    assert interval.lower < estimate < interval.upper
    assert interval.consistent
    assert interval.reasons == ("the method is an approximation for large n",)
    assert not interval.guaranteed
    # Half the width is about two standard errors, and 300 resamples are few.
    statistic = find_estimator(quantity, estimator).smooth_statistic(stats)
    tolerance = 1e-3 if method == "normal" else 0.5
    assert interval.width == pytest.approx(2 * 1.96 * statistic.standard_error, rel=tolerance)
    # The bounds are those of the estimate itself, except that crossfit pairs trajectories of
    # different folds here.
    pooled = (quantity, estimator) == ("variance", "crossfit")
    within = 0.5 * statistic.standard_error if pooled else 1e-9 * estimate
    assert abs(statistic.value - estimate) < within


def test_the_default_estimator_is_the_quantitys() -> None:
    stats = statistics(PROBLEMS["ragged"])
    for quantity in (ove.Mean(), ove.Variance(), ove.StandardDeviation()):
        for method in (ove.Bootstrap, ove.Normal):
            default, named = (
                ove.interval(stats, quantity, method=method(estimator=name))
                for name in (None, quantity.default_estimator)
            )
            assert default == named


def test_the_number_of_threads_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    stats = chain(8).statistics(200, np.random.default_rng(10))
    intervals = []
    for threads in (1, 6):
        monkeypatch.setattr(_resample, "n_threads", lambda threads=threads: threads)
        intervals.append(ove.variance_interval(stats, method="bootstrap", rng=3))
    assert intervals[0] == intervals[1]
    assert ove.variance_interval(stats, method="bootstrap", rng=4) != intervals[0]
