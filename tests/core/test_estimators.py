from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import ove_sb3 as ove
from ove_sb3.core.estimators import estimator_names, find_estimator
from ove_sb3.core.estimators.crossfit import crossfit_mean, crossfit_variance
from tests.core.test_statistics import random_log
from tests.problems.bandits import recommender
from tests.problems.chain import chain
from tests.problems.gridworld import gridworld
from tests.problems.problem import Problem
from tests.problems.tiny import TinyProcess

FIXED_LENGTH = np.full(30, 4)
MEAN_ESTIMATORS = estimator_names("mean")
VARIANCE_ESTIMATORS = estimator_names("variance")


def expectation(n: int, estimate: Callable[[ove.TrajectoryStatistics], float]) -> float:
    """Exact expectation over all data sets of n trajectories."""
    process = TinyProcess.of()
    total = 0.0
    for probability, log_ratios, rewards, lengths in process.data_sets(n):
        stats = ove.trajectory_statistics(
            log_ratios, rewards, lengths, gamma=process.mdp.gamma, horizon=process.mdp.horizon
        )
        total += probability * estimate(stats)
    return total


def test_the_enumeration_is_complete() -> None:
    process = TinyProcess.of()
    probabilities = [probability for probability, _, _ in process.trajectories()]
    assert sum(probabilities) == pytest.approx(1.0, abs=1e-14)
    assert len(probabilities) == 11
    assert {rewards.size for _, _, rewards in process.trajectories()} == {1, 2, 3}


@pytest.mark.filterwarnings("ignore::ove_sb3.errors.SupportWarning")
def test_per_decision_forms_have_the_right_expectation() -> None:
    mean, variance = TinyProcess.of().moments()
    assert expectation(2, lambda s: s.pdis.mean()) == pytest.approx(mean, abs=1e-10)
    assert expectation(2, lambda s: s.cdis.mean()) == pytest.approx(variance + mean**2, abs=1e-10)
    for estimator in ("pdis", "is", "crossfit"):
        estimate = functools.partial(ove.estimate_mean, estimator=estimator)
        value = expectation(2, estimate)
        assert value == pytest.approx(mean, abs=1e-10)


@pytest.mark.filterwarnings("ignore::ove_sb3.errors.SupportWarning")
@pytest.mark.parametrize("estimator", ["is", "is_u", "cdis", "cdis_u"])
@pytest.mark.parametrize("n", [2, 3])
def test_the_papers_estimators_are_exactly_unbiased(estimator: str, n: int) -> None:
    value = expectation(n, lambda s: ove.estimate_variance(s, estimator=estimator))
    assert value == pytest.approx(TinyProcess.of().moments()[1], abs=1e-10)


@pytest.mark.filterwarnings("ignore::ove_sb3.errors.SupportWarning")
@pytest.mark.parametrize("estimator", ["pair", "pair_cdis", "crossfit"])
@pytest.mark.parametrize("n", [2, 3])
def test_shift_invariant_estimators_are_exactly_unbiased(estimator: str, n: int) -> None:
    value = expectation(n, lambda s: ove.estimate_variance(s, estimator=estimator))
    assert value == pytest.approx(TinyProcess.of().moments()[1], abs=1e-10)


def test_estimators_are_marked_unbiased_where_their_expectation_is_exact() -> None:
    marked = {
        quantity: {n for n in names if find_estimator(quantity, n).unbiased}
        for quantity, names in (("mean", MEAN_ESTIMATORS), ("variance", VARIANCE_ESTIMATORS))
    }
    exact = {"crossfit", "pair", "pair_cdis", "is", "is_u", "cdis", "cdis_u"}
    assert marked == {"mean": {"crossfit", "pdis", "is"}, "variance": exact}


@pytest.mark.filterwarnings("ignore::ove_sb3.errors.SupportWarning")
@pytest.mark.parametrize("n", [4, 5, 6])
@pytest.mark.parametrize("known_horizon", [True, False])
def test_crossfit_is_exactly_unbiased_with_folds(n: int, known_horizon: bool) -> None:
    # Few enough trajectories for sets of four, the smallest with folds to fit on.
    process = TinyProcess.of(horizon=2, end_after=[[0.0, 1.0], [1.0, 1.0]])
    assert len(process.trajectories()) == 3
    gamma = process.mdp.gamma if known_horizon else 1.0
    mean = variance = 0.0
    for probability, log_ratios, rewards, lengths in process.data_sets(n):
        stats = ove.trajectory_statistics(
            log_ratios,
            rewards,
            lengths,
            gamma=gamma,
            horizon=process.mdp.horizon if known_horizon else None,
        )
        mean += probability * ove.estimate_mean(stats, estimator="crossfit")
        variance += probability * ove.estimate_variance(stats)
    assert (mean, variance) == pytest.approx(process.moments(gamma), abs=1e-10)


@pytest.mark.filterwarnings("ignore::ove_sb3.errors.SupportWarning")
def test_no_fold_decides_which_of_its_controls_are_used() -> None:
    # Two steps, or one. Where the other folds hold one kind of episode only, the differences of the
    # two forms have next to no spread there.
    step = ((0.6, 0.5, 1.0), (0.4, 1.75, -0.5))  # probability, ratio, reward
    kinds = [(0.3 * p, [ratio], [reward]) for p, ratio, reward in step]
    kinds += [
        (0.7 * p * q, [one, two], [r, 0.3 * r + s]) for p, one, r in step for q, two, s in step
    ]
    truth = np.array([p * np.prod(ratios) for p, ratios, _ in kinds])
    returns = np.array([sum(rewards) for _, _, rewards in kinds])
    mean = variance = 0.0
    for chosen in itertools.combinations_with_replacement(range(len(kinds)), 5):
        for order in set(itertools.permutations(chosen)):
            stats = ove.trajectory_statistics(
                np.log(np.concatenate([kinds[k][1] for k in order])),
                np.concatenate([kinds[k][2] for k in order]),
                [len(kinds[k][1]) for k in order],
                gamma=1.0,
                horizon=2,
            )
            probability = math.prod(kinds[k][0] for k in order)
            mean += probability * crossfit_mean(stats)
            variance += probability * crossfit_variance(stats)
    expected = float(truth @ returns)
    assert mean == pytest.approx(expected, abs=1e-10)
    assert variance == pytest.approx(float(truth @ (returns - expected) ** 2), abs=1e-10)


def test_a_rare_reward_does_not_make_crossfit_explode() -> None:
    # Without the rare reward in the other folds a contrast has next to no spread there.
    rng, n, rare, size = np.random.default_rng(1), 100, 0.01, 10.0
    errors: dict[str, list[float]] = {"crossfit": [], "pair": []}
    for _ in range(100):
        ratios = np.where(rng.random((n, 2)) < 0.7, 0.5 / 0.7, 0.5 / 0.3)
        first = size * (rng.random(n) < rare) * rng.choice([-1, 1], n)
        rewards = np.stack([first, rng.normal(size=n)], axis=1)
        stats = ove.trajectory_statistics(
            np.log(ratios).ravel(), rewards.ravel(), np.full(n, 2), gamma=1.0, horizon=2
        )
        for name, own in errors.items():
            own.append(ove.estimate_variance(stats, estimator=name) - (1.0 + rare * size**2))
    rmse = {name: np.sqrt(np.mean(np.square(own))) for name, own in errors.items()}
    assert rmse["crossfit"] < 1.5 * rmse["pair"]


@pytest.mark.parametrize("n_environments", [2, 5, 10])
def test_folds_are_not_the_environments_of_a_log(n_environments: int) -> None:
    # Each environment always has the same return, and they take turns in the log.
    returns = np.tile(np.arange(float(n_environments)), 400 // n_environments)
    n = returns.size
    stats = ove.trajectory_statistics(np.zeros(n), returns, np.ones(n, int), gamma=1.0, horizon=1)
    assert ove.estimate_variance(stats) == pytest.approx(returns.var(), rel=0.05)


@pytest.mark.filterwarnings("ignore::ove_sb3.errors.SupportWarning")
@pytest.mark.parametrize("estimator", ["naive_is", "naive_plugin", "wis", "regression"])
def test_the_biased_ones_are_biased(estimator: str) -> None:
    value = expectation(2, lambda s: ove.estimate_variance(s, estimator=estimator))
    assert abs(value - TinyProcess.of().moments()[1]) > 0.1


@pytest.mark.filterwarnings("ignore::ove_sb3.errors.SupportWarning")
@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        ("naive_is", [0.0, 2.0, 2.0, 0.0]),
        ("naive_plugin", [4.0, 0.0, 0.0, 0.0]),
        ("is", [-2.0, 1.0, 1.0, 0.0]),
        ("cdis", [-2.0, 1.0, 1.0, 0.0]),
    ],
)
def test_the_papers_counter_example(estimator: str, expected: list[float]) -> None:
    # Action a pays 1 and is all the candidate does; the behavior takes a and b evenly.
    values = []
    for actions in ("aa", "ab", "ba", "bb"):
        stats = ove.trajectory_statistics(
            [np.log(2.0) if action == "a" else -np.inf for action in actions],
            [1.0 if action == "a" else 0.0 for action in actions],
            [1, 1],
            gamma=1.0,
            horizon=1,
        )
        values.append(ove.estimate_variance(stats, estimator=estimator))
    np.testing.assert_allclose(values, expected, atol=1e-15)


def test_ratios_of_one_give_the_sample_variance() -> None:
    rng = np.random.default_rng(0)
    rewards = rng.normal(3, 2, 120)
    stats = ove.trajectory_statistics(np.zeros(120), rewards, FIXED_LENGTH, gamma=0.9, horizon=4)
    expected = np.var(stats.returns, ddof=1)
    for estimator in (
        "pair",
        "pair_cdis",
        "cdis_u",
        "is_u",
        "naive_is",
        "naive_plugin",
        "regression",
    ):
        value = ove.estimate_variance(stats, estimator=estimator)
        assert value == pytest.approx(expected, rel=1e-12), estimator
    assert ove.estimate_variance(stats, estimator="wis") == pytest.approx(np.var(stats.returns))
    assert ove.estimate_variance(stats) == pytest.approx(expected, rel=0.2)
    for estimator in ("pdis", "is", "wis", "crossfit", "regression"):
        value = ove.estimate_mean(stats, estimator=estimator)
        assert value == pytest.approx(stats.returns.mean(), rel=1e-12)


@pytest.mark.parametrize("estimator", ["pair", "pair_cdis", "crossfit", "regression", "wis"])
def test_a_shift_of_all_returns_changes_nothing(estimator: str) -> None:
    rng = np.random.default_rng(1)
    log_ratios, rewards = rng.normal(-0.1, 0.5, 120), rng.normal(size=120)
    values = []
    for shift in (0.0, 50.0, -1000.0):
        stats = ove.trajectory_statistics(
            log_ratios, rewards + shift, FIXED_LENGTH, gamma=0.95, horizon=4
        )
        values.append(ove.estimate_variance(stats, estimator=estimator))
    np.testing.assert_allclose(values, values[0], rtol=1e-6)


@pytest.mark.parametrize("estimator", VARIANCE_ESTIMATORS)
def test_scaling_rewards_scales_the_variance_by_the_square(estimator: str) -> None:
    log_ratios, rewards, lengths = random_log(2)
    first, second = (
        ove.estimate_variance(
            ove.trajectory_statistics(log_ratios, k * rewards, lengths, gamma=0.9, horizon=9),
            estimator=estimator,
        )
        for k in (1.0, -3.0)
    )
    assert second == pytest.approx(9.0 * first, rel=1e-9)


@pytest.mark.filterwarnings("ignore::ove_sb3.errors.SupportWarning")
def test_pair_is_never_negative_where_the_paper_is() -> None:
    rng = np.random.default_rng(3)
    lowest = 0.0
    for _ in range(200):
        stats = ove.trajectory_statistics(
            rng.normal(0, 1.5, 6), rng.normal(5, 0.1, 6), np.ones(6, dtype=int), gamma=1, horizon=1
        )
        assert ove.estimate_variance(stats, estimator="pair") >= 0.0
        lowest = min(lowest, ove.estimate_variance(stats, estimator="cdis"))
        assert ove.estimate(stats, "std", estimator="cdis") >= 0.0
    assert lowest < -1.0


def test_the_two_estimates_of_the_squared_mean() -> None:
    log_ratios, rewards, lengths = random_log(4, n=7)
    stats = ove.trajectory_statistics(log_ratios, rewards, lengths, gamma=0.9, horizon=9)
    Y = stats.pdis
    split = Y[:3].mean() * Y[3:].mean()
    pairs = np.mean([Y[i] * Y[j] for i in range(7) for j in range(7) if i != j])
    for estimator, square in (("cdis", split), ("cdis_u", pairs)):
        value = ove.estimate_variance(stats, estimator=estimator)
        assert value == pytest.approx(stats.cdis.mean() - square, rel=1e-12)


def test_a_log_that_says_nothing_is_pointed_out() -> None:
    stats = ove.trajectory_statistics([-np.inf] * 4, [1.0] * 4, [1] * 4, gamma=1.0, horizon=1)
    with pytest.warns(ove.SupportWarning, match="weight 0"):
        assert ove.estimate_variance(stats) == 0.0
    with pytest.warns(ove.SupportWarning, match="weight 0"):
        ove.estimate_mean(stats)


def test_threads_of_the_linear_algebra_library_do_not_matter() -> None:
    rng = np.random.default_rng(5)
    n = 100_000
    stats = ove.trajectory_statistics(
        rng.normal(-0.045, 0.3, 2 * n),  # weights of mean 1
        rng.normal(3, 1, 2 * n),
        np.full(n, 2),
        gamma=0.9,
        horizon=2,
    )
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            results.append(
                [ove.estimate_variance(stats, estimator=name) for name in VARIANCE_ESTIMATORS]
                + [ove.diagnose(stats).effective_sample_size]
                + [ove.variance_interval(stats, method="normal").lower]
                + [ove.variance_interval(stats, reward_range=(-10, 10)).upper]
            )
    assert results[0] == results[1]


@pytest.mark.parametrize("offset", [1e5, 1e7, 1e9])
@pytest.mark.parametrize("horizon", [1, 2])
def test_returns_far_from_zero_are_not_lost_in_rounding(offset: float, horizon: int) -> None:
    rng = np.random.default_rng(0)
    taken = rng.random((400, horizon)) < 0.4
    log_ratios = np.log(np.where(taken, 0.8 / 0.4, 0.2 / 0.6)).ravel()
    near, far = (
        ove.trajectory_statistics(
            log_ratios,
            (shift + taken).ravel().astype(float),
            np.full(400, horizon),
            gamma=1.0,
            horizon=horizon,
        )
        for shift in (0.0, offset)
    )
    for estimator in ("crossfit", "pair"):
        values = [ove.estimate_variance(stats, estimator=estimator) for stats in (near, far)]
        assert values[1] == pytest.approx(values[0], rel=0.05)
    means = [ove.estimate_mean(stats, estimator="crossfit") for stats in (near, far)]
    assert means[1] - horizon * offset == pytest.approx(means[0], abs=0.02)
    if offset > 1e6:
        with pytest.raises(ove.InvalidInputError, match="lost in rounding"):
            ove.estimate_variance(far, estimator="pair_cdis")


@pytest.mark.parametrize(
    "problem", [recommender(), gridworld(6), gridworld(15), chain(8)], ids=lambda p: p.name
)
def test_regression_is_closest_where_trajectories_are_few(problem: Problem) -> None:
    # Errors are heavy-tailed: fewer data sets would compare the luck of one or two of them.
    errors = dict.fromkeys(("regression", "crossfit", "wis"), 0.0)
    for seed in range(1_000):
        stats = problem.statistics(100, np.random.default_rng([seed, 5]))
        for name in errors:
            errors[name] += (ove.estimate_variance(stats, name) - problem.variance) ** 2
    assert np.sqrt(errors["regression"]) <= 1.05 * np.sqrt(min(errors.values()))
