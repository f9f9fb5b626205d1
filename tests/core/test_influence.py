"""Influence functions against numerical derivatives, and standard errors against simulation."""

from __future__ import annotations

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3._validation import FloatArray, IntArray
from ove_sb3.core.estimators import Estimator, estimator_names, find_estimator
from tests.problems.gridworld import gridworld

from .test_statistics import episodes, random_log

WITH_INFLUENCE = [
    (quantity, name)
    for quantity in ("mean", "variance")
    for name in estimator_names(quantity)
    if find_estimator(quantity, name).influence is not None
]


def influence_of(estimator: Estimator, stats: ove.TrajectoryStatistics) -> FloatArray:
    assert estimator.influence is not None
    return estimator.influence(stats)


def repeated(
    log: tuple[FloatArray, FloatArray, IntArray], counts: list[int], gamma: float
) -> ove.TrajectoryStatistics:
    """Statistics of a log in which trajectory i occurs ``counts[i]`` times."""
    parts = [
        episode for episode, count in zip(episodes(log), counts, strict=True) for _ in range(count)
    ]
    return ove.trajectory_statistics(
        np.concatenate([log_ratios for log_ratios, _ in parts]),
        np.concatenate([rewards for _, rewards in parts]),
        [rewards.size for _, rewards in parts],
        gamma=gamma,
    )


def test_the_estimators_with_an_influence_function() -> None:
    assert WITH_INFLUENCE == [
        ("mean", "wis"),
        ("variance", "naive_plugin"),
        ("variance", "wis"),
        ("variance", "pair_cdis"),
        ("variance", "pair"),
    ]


@pytest.mark.parametrize(("quantity", "name"), WITH_INFLUENCE)
@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_influence_is_the_infinitesimal_jackknife(quantity: str, name: str, gamma: float) -> None:
    # Many copies of every trajectory are the same distribution; one copy of trajectory i more or
    # less is a small change of its probability.
    n, copies = 12, 1000
    log = random_log(3, n=n, longest=5)
    log[0][[4, -1]] = -np.inf
    assert len(set(log[2])) > 2
    estimator = find_estimator(quantity, name)
    derivatives = []
    for i in range(n):
        more, fewer = (
            estimator.estimate(repeated(log, [copies + k * (j == i) for j in range(n)], gamma))
            for k in (1, -1)
        )
        derivatives.append((more - fewer) / 2 * n * copies)
    influence = influence_of(estimator, ove.trajectory_statistics(*log, gamma=gamma))
    largest = np.abs(influence).max()
    np.testing.assert_allclose(influence, derivatives, rtol=1e-3, atol=1e-3 * largest)
    assert abs(influence.mean()) < 1e-12 * largest
    assert largest > 0.1


@pytest.mark.parametrize(("quantity", "name"), WITH_INFLUENCE)
def test_influence_is_what_leaving_one_trajectory_out_changes(quantity: str, name: str) -> None:
    # Ratios of mean 1, and lengths that vary.
    rng = np.random.default_rng(4)
    n = 400
    lengths = rng.integers(1, 7, n)
    log = rng.normal(-0.02, 0.2, lengths.sum()), rng.normal(1, 1, lengths.sum()), lengths
    estimator = find_estimator(quantity, name)
    whole = ove.trajectory_statistics(*log, gamma=0.9)
    total = estimator.estimate(whole)
    left_out = np.array(
        [estimator.estimate(repeated(log, [int(j != i) for j in range(n)], 0.9)) for i in range(n)]
    )
    changes = (n - 1) * (total - left_out)
    influence = influence_of(estimator, whole)
    assert np.corrcoef(influence, changes)[0, 1] > 0.999
    assert influence.std() == pytest.approx(changes.std(), rel=0.02)
    jackknife = np.sqrt((n - 1) / n * np.sum((left_out - left_out.mean()) ** 2))
    error = estimator.smooth_statistic(whole).standard_error
    assert error == pytest.approx(jackknife, rel=0.02)


@pytest.mark.parametrize(
    ("quantity", "name"),
    [
        *WITH_INFLUENCE,
        *[("variance", name) for name in ("crossfit", "regression")],
        ("mean", "regression"),
    ],
)
def test_standard_errors_are_those_of_simulated_logs(quantity: str, name: str) -> None:
    problem, n_logs = gridworld(6), 300
    method = ove.Normal(estimator=name)
    estimates, errors = [], []
    for seed in range(n_logs):
        stats = problem.statistics(500, np.random.default_rng([seed, 11]))
        estimates.append(ove.estimate(stats, quantity, estimator=name))
        interval = ove.interval(stats, quantity, method=method, delta=0.3173105)
        errors.append(interval.width / 2)  # one standard error on each side
    assert np.mean(errors) == pytest.approx(np.std(estimates), rel=0.2)


@pytest.mark.filterwarnings("ignore::ove_sb3.errors.SupportWarning")
@pytest.mark.parametrize(("quantity", "name"), WITH_INFLUENCE)
def test_a_log_without_support_has_no_influence(quantity: str, name: str) -> None:
    stats = ove.trajectory_statistics([-np.inf] * 6, [1.0] * 6, [2, 1, 3], gamma=0.9)
    np.testing.assert_array_equal(influence_of(find_estimator(quantity, name), stats), np.zeros(3))


@pytest.mark.parametrize("method", [ove.Normal, ove.Bootstrap])
def test_pair_cdis_needs_the_steps_for_an_interval(
    method: type[ove.Normal] | type[ove.Bootstrap],
) -> None:
    stats = ove.trajectory_statistics(*random_log(5), gamma=0.9)
    joined = ove.TrajectoryStatistics.concatenate([stats, stats])
    assert np.isfinite(ove.estimate_variance(joined, estimator="pair_cdis"))
    with pytest.raises(ove.InvalidInputError, match=r"'pair_cdis' needs the logged steps"):
        ove.variance_interval(joined, method=method(estimator="pair_cdis"))
    assert ove.variance_interval(joined, method=method(estimator="pair")).width > 0.0


def test_an_estimator_without_influence_has_no_approximate_interval() -> None:
    estimator = Estimator("median", "mean", lambda stats: float(np.median(stats.returns)))
    stats = ove.trajectory_statistics(*random_log(6), gamma=0.9)
    with pytest.raises(ove.InvalidInputError, match=r"'median' has no influence function"):
        estimator.smooth_statistic(stats)


def test_the_standard_error_of_regression_at_small_n() -> None:
    estimator, problem, n = find_estimator("variance", "regression"), gridworld(6), 60
    ratios = []
    for seed in range(12):
        stats = problem.statistics(n, np.random.default_rng([seed, 3]))
        left_out = np.array(
            [estimator.estimate(stats.select(np.delete(np.arange(n), i))) for i in range(n)]
        )
        jackknife = np.sqrt((n - 1) / n * np.sum((left_out - left_out.mean()) ** 2))
        ratios.append(estimator.smooth_statistic(stats).standard_error / jackknife)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.1)  # 0.8 without regard to leverage
