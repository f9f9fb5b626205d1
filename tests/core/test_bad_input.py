"""Bad input gets our own error, naming argument, rule and value; never a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ove_sb3 as ove
from tests.problems.chain import chain

GOOD: dict[str, Any] = {
    "log_ratios": [0.1, -0.2, 0.3, 0.0],
    "rewards": [1.0, 0.0, -1.0, 0.5],
    "lengths": [2, 1, 1],
    "gamma": 0.9,
    "horizon": 3,
}
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"rewards": [1.0, NAN, 0.0, 0.0]},
            r"`rewards` must be finite, got nan at episode 0, step 1",
        ),
        (
            {"rewards": [1.0, 0.0, INF, 0.0]},
            r"`rewards` must be finite, got inf at episode 1, step 0",
        ),
        ({"rewards": [1.0, 0.0]}, r"one entry per logged step, got 4 and 2"),
        ({"rewards": [[1.0, 0.0], [0.0, 0.0]]}, r"`rewards` must be 1-dimensional"),
        ({"rewards": ["a", "b", "c", "d"]}, r"`rewards` must hold real numbers"),
        ({"rewards": [1j, 0, 0, 0]}, r"`rewards` must hold real numbers"),
        ({"rewards": [True, False, True, True]}, r"`rewards` must hold real numbers"),
        ({"rewards": None}, r"`rewards` must be 1-dimensional"),
        (
            {"log_ratios": [0.0, 0.0, NAN, 0.0]},
            r"`log_ratios` must be finite or -inf, got nan",
        ),
        ({"log_ratios": [0.0, 0.0, 0.0, INF]}, r"got inf at episode 2, step 0 \(1 of 4 entries\)"),
        ({"lengths": [2, 1]}, r"`lengths` must add up to .* 4, got 3"),
        ({"lengths": [2, 1, 2]}, r"`lengths` must add up to .* 4, got 5"),
        ({"lengths": [2, 2, 0]}, r"`lengths` must be at least 1, got 0 at episode 2"),
        ({"lengths": [5, -1]}, r"`lengths` must be at least 1, got -1 at episode 1"),
        ({"lengths": [4]}, r"at least 2 trajectories, got 1"),
        ({"lengths": []}, r"`lengths` must hold integers|at least 2 trajectories"),
        ({"lengths": [2.0, 1.0, 1.0]}, r"`lengths` must hold integers"),
        ({"lengths": np.array([2**63, 1], dtype=np.uint64)}, r"`lengths` must add up"),
        ({"gamma": 1.1}, r"`gamma` must lie in \[0, 1\], got 1.1"),
        ({"gamma": -0.1}, r"`gamma` must lie in \[0, 1\]"),
        ({"gamma": NAN}, r"`gamma` must lie in \[0, 1\], got nan"),
        ({"gamma": "0.9"}, r"`gamma` must be a real number"),
        ({"gamma": True}, r"`gamma` must be a real number"),
        ({"gamma": 10**400}, r"`gamma` must be a real number"),
        (
            {"horizon": 1},
            r"at least the longest episode, got 1 but episode 0 has 2",
        ),
        ({"horizon": 0}, r"`horizon` must be an integer of at least 1, got 0"),
        ({"horizon": 2.5}, r"`horizon` must be an integer"),
    ],
)
def test_trajectory_statistics_refuses(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ove.InvalidInputError, match=message):
        ove.trajectory_statistics(**{**GOOD, **change})


@pytest.mark.parametrize(
    "log_ratios", [[800.0, 0, 0, 0], [400.0, 400.0, 0, 0], [500.0, 500.0, -1000.0, 0]]
)
def test_a_weight_that_overflows_is_refused(log_ratios: list[float]) -> None:
    with pytest.raises(ove.WeightOverflowError, match="log-weight"):
        ove.trajectory_statistics(**{**GOOD, "log_ratios": log_ratios})


def test_a_statistic_that_overflows_is_refused() -> None:
    with pytest.raises(ove.WeightOverflowError):
        ove.trajectory_statistics(**{**GOOD, "rewards": [1e200, 1e200, 0.0, 0.0]})


@pytest.fixture(scope="module")
def stats() -> ove.TrajectoryStatistics:
    return chain(5).statistics(60, np.random.default_rng(0))


@pytest.mark.parametrize("function", [ove.variance_interval, ove.mean_interval])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"`reward_range` \(or `return_range`\) must be given"),
        ({"reward_range": (-1, 1), "delta": 0.0}, r"`delta` must lie in \(0, 1\), got 0.0"),
        ({"reward_range": (-1, 1), "delta": 1.0}, r"`delta` must lie in \(0, 1\)"),
        ({"reward_range": (-1, 1), "delta": NAN}, r"`delta` must lie in \(0, 1\), got nan"),
        ({"reward_range": (-1, 1), "delta": "small"}, r"`delta` must be a real number"),
        ({"reward_range": (1, -1)}, r"`reward_range` must be finite with low <= high"),
        ({"reward_range": (-1, INF)}, r"`reward_range` must be finite"),
        ({"reward_range": (-1, NAN)}, r"`reward_range` must be finite"),
        ({"reward_range": (-1, 0, 1)}, r"must be a pair of numbers, got 3 entries"),
        ({"reward_range": 1.0}, r"`reward_range` must be a pair of numbers, got 1.0"),
        ({"reward_range": ("a", "b")}, r"`reward_range` must be a pair of numbers"),
        ({"reward_range": "guess"}, r"'from_data', got 'guess'"),
        ({"reward_range": (-1, 1), "method": "magic"}, r"`method` must be one of 'betting'"),
        ({"reward_range": (-1, 1), "method": 3}, r"`method` must be a method such as .*, got 3"),
        ({"reward_range": (-1, 1), "side": "left"}, r"`side` must be one of 'both'"),
        ({"reward_range": (-1, 1), "max_ratio": 0.5}, r"`max_ratio` must lie in \[1, inf\]"),
        ({"reward_range": (-1, 1), "max_weight": NAN}, r"`max_weight` must lie in"),
        ({"reward_range": (-1, 1), "rng": "seed"}, r"`rng` must be an integer"),
        ({"reward_range": (-1, 1), "rng": -1}, r"`rng` must be an integer of at least 0"),
        ({"reward_range": (-1, 1), "adaptive": "yes"}, r"`adaptive` must be True or False"),
        ({"method": ove.Normal(estimator="best")}, r"`estimator` must be one of .*, got 'best'"),
        ({"method": ove.Bootstrap(estimator="best")}, r"`estimator` must be one of .*, got 'best'"),
        (
            {"reward_range": (-1, 1), "method": ove.Concentration("hoeffding")},
            r"`inequality` 'hoeffding' needs a bound on the importance weights",
        ),
        ({"reward_range": (-1, 1), "return_range": (50, 60)}, r"`return_range` must contain"),
    ],
)
def test_intervals_refuse(
    stats: ove.TrajectoryStatistics, function: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ove.InvalidInputError, match=message):
        function(stats, **options)


@pytest.mark.parametrize("function", [ove.variance_interval, ove.mean_interval])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reward_range": (0, 1)}, r"`reward_range` must contain all logged rewards, got \(0, 1\)"),
        ({"reward_range": (-1, 1), "return_range": (0, 1)}, r"`return_range` must contain"),
        ({"reward_range": (-1, 1), "max_ratio": 1.2}, r"`max_ratio` must be at least every"),
        ({"reward_range": (-1, 1), "max_weight": 1.2}, r"`max_weight` must be at least every"),
    ],
)
def test_data_that_contradict_an_assumption_are_refused(
    stats: ove.TrajectoryStatistics, function: Any, options: dict[str, Any], message: str
) -> None:
    for method in ("betting", "paper", "bootstrap", "normal"):
        with pytest.raises(ove.AssumptionError, match=message):
            function(stats, method=method, **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ove.Concentration("x"), r"`inequality` must be one of 'thomas', .*, got 'x'"),
        (lambda: ove.Bootstrap(variant="x"), r"`variant` must be one of 'basic', .*, got 'x'"),
        (lambda: ove.Bootstrap(n_resamples=9), r"`n_resamples` must be .* at least 10, got 9"),
        (
            lambda: ove.Bootstrap(n_resamples=10.5),  # type: ignore[arg-type]
            r"`n_resamples` must be an integer",
        ),
    ],
)
def test_methods_refuse_bad_options_when_they_are_made(
    make: Callable[[], ove.Method], message: str
) -> None:
    with pytest.raises(ove.InvalidInputError, match=message):
        make()


@pytest.mark.parametrize("function", [ove.variance_interval, ove.mean_interval])
@pytest.mark.parametrize("option", ["n_resamples", "estimator", "variant", "inequality"])
def test_options_of_a_method_belong_to_the_method(
    stats: ove.TrajectoryStatistics, function: Any, option: str
) -> None:
    with pytest.raises(TypeError, match=option):
        function(stats, method="bootstrap", **{option: None})


def test_estimators_belong_to_a_quantity(stats: ove.TrajectoryStatistics) -> None:
    for method in (ove.Normal, ove.Bootstrap):
        with pytest.raises(ove.InvalidInputError, match=r"`estimator` must be .*, got 'pair'"):
            ove.mean_interval(stats, method=method(estimator="pair"))
        with pytest.raises(ove.InvalidInputError, match=r"`estimator` must be .*, got 'pdis'"):
            ove.variance_interval(stats, method=method(estimator="pdis"))


def test_other_refusals(stats: ove.TrajectoryStatistics) -> None:
    with pytest.raises(ove.InvalidInputError, match="`estimator` must be one of 'crossfit'"):
        ove.estimate_variance(stats, estimator="best")
    with pytest.raises(ove.InvalidInputError, match=r"`estimator` must be one of .*'pdis'"):
        ove.estimate_mean(stats, estimator="cdis")
    with pytest.raises(ove.InvalidInputError, match=r"`quantity` must be one of .*, got 'mode'"):
        ove.estimate(stats, "mode")
    with pytest.raises(ove.InvalidInputError, match="'variance' without an argument, got"):
        ove.interval(stats, "variance:2")
    with pytest.raises(ove.InvalidInputError, match=r"such as ove.Variance\(\) .*, got 2"):
        ove.estimate(stats, 2)  # type: ignore[arg-type]
    few = chain(5).statistics(3, np.random.default_rng(1))
    with pytest.raises(ove.InvalidInputError, match="at least 4 trajectories, got 3"):
        ove.variance_interval(few, method="bootstrap")
    # Rewards of 1 over at most 2 steps; no return between 3 and 4 is possible, nor is one logged.
    early = ove.trajectory_statistics([0.0, 0.0], [0.0, 0.0], [1, 1], gamma=1.0, horizon=2)
    with pytest.raises(ove.InvalidInputError, match="`return_range` must contain all logged"):
        ove.variance_interval(early, reward_range=(0.0, 1.0), return_range=(3.0, 4.0))


def test_every_error_is_ours_and_a_value_error() -> None:
    assert issubclass(ove.AssumptionError, ove.InvalidInputError)
    assert issubclass(ove.InvalidInputError, (ove.OveError, ValueError))
    assert issubclass(ove.WeightOverflowError, ove.OveError)
    assert issubclass(ove.SupportWarning, ove.OveWarning)


@pytest.mark.parametrize(
    "function",
    [
        lambda stats: ove.variance_interval(stats, reward_range=(0, 1)),
        lambda stats: ove.mean_interval(stats, reward_range=(0, 1)),
        lambda stats: ove.interval(stats, "std", reward_range=(0, 1)),
        lambda stats: ove.estimate(stats, "mean"),
        ove.estimate_mean,
        ove.estimate_variance,
        ove.diagnose,
    ],
)
@pytest.mark.parametrize("stats", [np.zeros(3), None, [1, 2], "stats"])
def test_what_is_not_statistics(function: Callable[[Any], Any], stats: Any) -> None:
    with pytest.raises(ove.InvalidInputError, match="`stats` must be TrajectoryStatistics, got"):
        function(stats)


def test_trajectories_in_place_of_statistics_are_told_what_to_pass() -> None:
    data = ove.Trajectories.from_arrays(
        observations=np.zeros(2),
        actions=[0, 1],
        log_probs=[0.0, 0.0],
        rewards=[0.0, 1.0],
        lengths=[1, 1],
    )
    with pytest.raises(ove.InvalidInputError, match=r"got Trajectories. Pass what .*evaluate\("):
        ove.variance_interval(data, reward_range=(0, 1))  # type: ignore[arg-type]


@pytest.mark.parametrize("gamma", [5e-324, 1e-200, 1e-17, 0.3, 0.5, 0.7])
def test_the_effective_horizon_of_any_discount_factor(gamma: float) -> None:
    stats = ove.trajectory_statistics(**{**GOOD, "gamma": gamma, "horizon": 4})
    assert stats.effective_horizon == pytest.approx(sum(gamma**t for t in range(4)), rel=1e-15)


def test_an_infinite_bound_states_nothing() -> None:
    stats = ove.trajectory_statistics(**GOOD)
    for name in ("max_ratio", "max_weight"):
        bounded = ove.mean_interval(stats, reward_range=(-1, 1), **{name: INF})  # type: ignore[arg-type]
        assert bounded == ove.mean_interval(stats, reward_range=(-1, 1))


@pytest.mark.filterwarnings("ignore::ove_sb3.errors.OveWarning")
@pytest.mark.parametrize("center", [-230, -365, -370, -375, -380, -600])
@pytest.mark.parametrize("quantity", ["mean", "variance", "quantile:0.05", "cvar:0.1"])
def test_weights_that_are_next_to_nothing(quantity: str, center: float) -> None:
    rng = np.random.default_rng(0)
    stats = ove.trajectory_statistics(
        rng.normal(center, 3, 200), -100 * rng.random(200), np.ones(200, int), gamma=1.0, horizon=1
    )
    interval = ove.interval(stats, quantity, reward_range=(-2000, 0))
    assert np.isfinite([interval.lower, interval.upper]).all()
