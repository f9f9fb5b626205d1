from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import ove_sb3 as ove
from tests.problems.bandits import binary_bandit, continuous_bandit, recommender
from tests.problems.chain import chain
from tests.problems.gridworld import gridworld

GUARANTEED = ("betting", "paper")
EVERY = ("betting", "paper", "bootstrap", "normal")


@pytest.mark.parametrize("method", EVERY)
@pytest.mark.parametrize("function", [ove.variance_interval, ove.mean_interval])
def test_each_side_alone_spends_all_of_delta(function: Any, method: str) -> None:
    problem = chain(5)
    stats = problem.statistics(400, np.random.default_rng(0))
    options = {"reward_range": problem.reward_range, "method": method}
    both = function(stats, delta=0.1, **options)
    lower = function(stats, delta=0.05, side="lower", **options)
    upper = function(stats, delta=0.05, side="upper", **options)
    assert (lower.lower, upper.upper) == (both.lower, both.upper)
    assert lower.upper == lower.a_priori[1]
    assert upper.lower == upper.a_priori[0]
    assert both.guaranteed == (method in GUARANTEED)
    assert both.lower <= both.upper
    assert both.delta == 0.1


@pytest.mark.parametrize("method", EVERY)
def test_a_smaller_delta_gives_a_wider_interval(method: str) -> None:
    problem = gridworld(6)
    stats = problem.statistics(3000, np.random.default_rng(1))
    wide, narrow = (
        ove.variance_interval(stats, reward_range=problem.reward_range, delta=delta, method=method)
        for delta in (0.01, 0.2)
    )
    assert wide.lower <= narrow.lower <= narrow.upper <= wide.upper


@pytest.mark.parametrize("method", GUARANTEED)
@pytest.mark.parametrize("function", [ove.variance_interval, ove.mean_interval])
def test_the_same_seed_gives_the_same_interval(function: Any, method: str) -> None:
    problem = chain(5)
    stats = problem.statistics(300, np.random.default_rng(2))
    options = {"reward_range": problem.reward_range, "method": method}
    first = function(stats, rng=5, **options)
    assert function(stats, rng=5, **options) == first
    assert function(stats, rng=np.random.default_rng(5), **options) == first
    assert function(stats, rng=6, **options) != first
    assert function(stats, rng=None, **options) != first


def test_betting_beats_the_paper_and_a_known_bound_beats_both() -> None:
    for problem in (recommender(), gridworld(6)):
        widths = {"paper": 0.0, "betting": 0.0, "bounded": 0.0}
        for trial in range(10):
            stats = problem.statistics(10_000, np.random.default_rng([trial, 3]))
            options: dict[str, Any] = {"reward_range": problem.reward_range}
            widths["paper"] += abs(ove.variance_interval(stats, method="paper", **options).width)
            widths["betting"] += abs(ove.variance_interval(stats, **options).width)
            widths["bounded"] += abs(ove.variance_interval(stats, max_ratio=2.0, **options).width)
        assert widths["betting"] < widths["paper"] / 4
        assert widths["bounded"] < widths["paper"] / 14


@pytest.mark.parametrize("n", [2, 3, 5, 20, 100, 1000])
def test_betting_is_at_no_size_wider_than_the_paper(n: int) -> None:
    for problem in (recommender(), binary_bandit(), gridworld(15), chain(8)):
        width = {"paper": 0.0, "betting": 0.0}
        for trial in range(5):
            stats = problem.statistics(n, np.random.default_rng([trial, 4]))
            for method in width:
                interval = ove.variance_interval(
                    stats, reward_range=problem.reward_range, method=method
                )
                width[method] += abs(interval.width)
        assert width["betting"] <= width["paper"]


@pytest.mark.parametrize(
    ("n", "theirs"),
    [(100, 25.0), (316, 25.0), (1000, 17.8), (3162, 9.7), (10_000, 5.5), (31_622, 3.0)],
)
def test_the_papers_method_gives_what_its_authors_got(n: int, theirs: float) -> None:
    problem = recommender()
    uppers = []
    for trial in range(15):
        interval = ove.variance_interval(
            problem.statistics(n, np.random.default_rng([trial, 5])),
            reward_range=(0.0, 10.0),
            method="paper",
            delta=2 * 0.05 / 8,
        )
        assert interval.lower == 0.0
        uppers.append(interval.upper)
    assert np.mean(uppers) == pytest.approx(theirs, rel=0.15)


def test_literal_algorithm_4_fails_where_the_corrected_one_holds() -> None:
    # Rewards +1 then -1, the second action rare under the behavior: the return is always 0, and
    # the sum of CDIS takes large negative values now and then. Clamped at 0, its mean is far above.
    rng = np.random.default_rng(6)
    n = 2000
    rare = rng.random(n) < 0.05
    log_ratios = np.stack([np.zeros(n), np.where(rare, np.log(10.0), np.log(0.5 / 0.95))], axis=1)
    rewards = np.tile([1.0, -1.0], n)
    stats = ove.trajectory_statistics(
        log_ratios.ravel(), rewards, np.full(n, 2), gamma=1.0, horizon=2
    )
    assert stats.cdis.min() == pytest.approx(-9.0)
    assert np.maximum(stats.cdis, 0.0).mean() > 0.3
    assert abs(stats.cdis.mean()) < 0.2
    for method in GUARANTEED:
        interval = ove.variance_interval(stats, reward_range=(-1.0, 1.0), method=method)
        assert interval.lower == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("inequality", ["thomas", "hoeffding", "empirical_bernstein"])
def test_the_papers_interval_can_use_any_inequality(inequality: str) -> None:
    problem = binary_bandit()
    stats = problem.statistics(20_000, np.random.default_rng(7))
    options: dict[str, Any] = {
        "reward_range": (0.0, 1.0),
        "method": ove.Concentration(inequality),
        "max_ratio": 3.0,
    }
    assert problem.variance in ove.variance_interval(stats, **options)
    interval = ove.mean_interval(stats, **options)
    assert problem.mean in interval
    assert interval.width < 0.2


@pytest.mark.parametrize("method", GUARANTEED)
def test_a_known_range_of_returns_is_enough(method: str) -> None:
    # gamma = 1 and no horizon: rewards alone bound nothing, the range of returns does.
    problem = gridworld(15)
    log = problem.sample(3000, np.random.default_rng(8))
    stats = ove.trajectory_statistics(*log, gamma=1.0)
    for function, truth in (
        (ove.variance_interval, problem.variance),
        (ove.mean_interval, problem.mean),
    ):
        interval = function(stats, return_range=(-15.0, 0.0), method=method)
        assert interval.guaranteed
        assert truth in interval
        with pytest.raises(ove.InvalidInputError, match="horizon"):
            function(stats, reward_range=(-1.0, 0.0), method=method)


def test_a_tighter_range_of_returns_helps() -> None:
    problem = chain(8, offset=5.0)
    stats = problem.statistics(2000, np.random.default_rng(9))
    c = stats.effective_horizon
    loose = ove.variance_interval(stats, reward_range=(4.0, 6.0))
    tight = ove.variance_interval(stats, reward_range=(4.0, 6.0), return_range=(4 * c, 6 * c))
    assert tight.width < loose.width
    assert problem.variance in tight


def test_rewards_in_single_precision_are_within_the_range_they_were_rounded_from() -> None:
    rewards = np.tile(np.array([-0.6, 0.3], dtype=np.float32), 50)
    stats = ove.trajectory_statistics(np.zeros(100), rewards, np.full(50, 2), gamma=1.0, horizon=2)
    assert stats.reward_min < -0.6
    known: dict[str, Any] = {"reward_range": (-0.6, 0.3)}
    ove.variance_interval(stats, **known)
    ove.variance_interval(stats, return_range=(-0.3, 0.3), **known)
    with pytest.raises(ove.AssumptionError):
        ove.variance_interval(stats, reward_range=(-0.5999, 0.3))


def test_a_bound_on_the_whole_weight_is_as_good_as_one_on_its_parts() -> None:
    problem = recommender()
    stats = problem.statistics(2000, np.random.default_rng(10))
    by_ratio = ove.variance_interval(stats, reward_range=(0, 10), max_ratio=2.0)
    by_weight = ove.variance_interval(stats, reward_range=(0, 10), max_weight=2.0)
    assert (by_ratio.lower, by_ratio.upper) == (by_weight.lower, by_weight.upper)


def test_adaptively_collected_data_are_taken_in_order() -> None:
    problem = chain(5)
    stats = problem.statistics(300, np.random.default_rng(11))
    interval = ove.variance_interval(stats, reward_range=(-1, 1), adaptive=True, rng=1)
    assert interval == ove.variance_interval(stats, reward_range=(-1, 1), adaptive=True, rng=2)
    assert any("order of logging" in text for text in interval.assumptions)
    for method in ("paper", "bootstrap", "normal"):
        with pytest.raises(ove.InvalidInputError, match=f"must be 'betting' .* got '{method}'"):
            ove.variance_interval(stats, reward_range=(-1, 1), adaptive=True, method=method)


def test_a_range_from_the_data_is_no_guarantee() -> None:
    stats = chain(5).statistics(100, np.random.default_rng(12))
    interval = ove.variance_interval(stats, reward_range="from_data")
    assert not interval.guaranteed
    assert any("seen in the data" in text for text in interval.assumptions)


def test_ranges_are_widened_for_episodes_that_end_early() -> None:
    rng = np.random.default_rng(13)
    lengths = rng.integers(1, 4, 500)
    rewards = np.ones(lengths.sum())
    stats = ove.trajectory_statistics(
        np.zeros(rewards.size), rewards, lengths, gamma=1.0, horizon=3
    )
    truth = 2 / 3  # a uniform length of 1, 2 or 3
    for method in GUARANTEED:
        assert truth in ove.variance_interval(stats, reward_range=(1.0, 1.0), method=method)


@pytest.mark.parametrize("method", GUARANTEED)
@pytest.mark.filterwarnings("ignore::ove_sb3.errors.SupportWarning")
def test_a_log_that_says_nothing_gives_the_a_priori_range(method: str) -> None:
    stats = ove.trajectory_statistics(
        [-np.inf] * 50, [0.5] * 50, np.ones(50, dtype=int), gamma=1.0, horizon=1
    )
    interval = ove.variance_interval(stats, reward_range=(0.0, 2.0), method=method)
    assert (interval.lower, interval.upper) == (0.0, 1.0) == interval.a_priori
    assert not interval.informative
    mean = ove.mean_interval(stats, reward_range=(0.0, 2.0), method=method)
    assert (mean.lower, mean.upper) == (0.0, 2.0)


def test_constant_returns_have_no_variance() -> None:
    stats = ove.trajectory_statistics(
        np.zeros(500), np.full(500, 0.7), np.ones(500, dtype=int), gamma=1.0, horizon=1
    )
    interval = ove.variance_interval(stats, reward_range=(0.0, 1.0), max_weight=1.0)
    assert interval.lower == 0.0
    assert interval.upper < 0.01
    mean = ove.mean_interval(stats, reward_range=(0.0, 1.0), max_weight=1.0)
    assert 0.7 in mean
    assert mean.width < 0.05


@pytest.mark.parametrize("method", EVERY)
def test_bounds_on_the_standard_deviation_are_square_roots(method: str) -> None:
    problem = chain(5)
    stats = problem.statistics(300, np.random.default_rng(15))
    options: dict[str, Any] = {"reward_range": problem.reward_range, "method": method}
    variance, std = (ove.interval(stats, name, **options) for name in ("variance", "std"))
    assert (std.lower, std.upper) == (math.sqrt(variance.lower), math.sqrt(variance.upper))
    assert std.a_priori == (0.0, math.sqrt(variance.a_priori[1]))
    assert (std.quantity, variance.quantity) == ("std", "variance")
    assert (std.guaranteed, std.assumptions) == (variance.guaranteed, variance.assumptions)
    assert ove.estimate(stats, "std") == math.sqrt(ove.estimate(stats, "variance"))


@pytest.mark.parametrize("method", EVERY)
def test_quantities_and_methods_are_taken_as_names_or_objects(method: str) -> None:
    stats = chain(5).statistics(200, np.random.default_rng(16))
    options: dict[str, Any] = {"reward_range": (-1.0, 1.0), "delta": 0.1, "rng": 3}
    objects: dict[str, ove.Method] = {
        "betting": ove.Betting(),
        "paper": ove.Concentration("thomas"),
        "bootstrap": ove.Bootstrap("basic", 2000, None),
        "normal": ove.Normal(),
    }
    for name, quantity, function in (
        ("mean", ove.Mean(), ove.mean_interval),
        ("variance", ove.Variance(), ove.variance_interval),
    ):
        interval = ove.interval(stats, name, method=method, **options)
        assert interval == ove.interval(stats, quantity, method=objects[method], **options)
        assert interval == function(stats, method=method, **options)
        assert interval.method == method


def test_a_bound_of_zero_has_no_sign() -> None:
    # Bad luck: every variance above 0 is rejected, and the upper bound is minus a bound of 0.
    stats = recommender().statistics(300, np.random.default_rng([26, 300]))
    interval = ove.variance_interval(stats, reward_range=(0, 10), delta=0.1, side="upper")
    assert interval.upper == 0.0
    assert math.copysign(1.0, interval.upper) == 1.0
    assert "[0, 0]" in str(interval)


def test_results_print_and_convert() -> None:
    problem = continuous_bandit()
    stats = problem.statistics(500, np.random.default_rng(14))
    interval = ove.variance_interval(stats, reward_range=problem.reward_range)
    assert str(interval).startswith("variance 95% guaranteed [")
    assert "n=500" in str(interval)
    plain = json.loads(json.dumps(interval.to_dict()))
    assert plain["lower"] == interval.lower
    assert plain["guaranteed"] is True
    assert any("rewards lie in [0, 10]" in text for text in plain["assumptions"])
    open_ended = ove.variance_interval(stats, method="normal", side="lower")
    assert math.isinf(open_ended.upper)
    assert open_ended.to_dict()["upper"] is None
    assert "approximate" in str(open_ended)


def test_weights_above_1_on_average_are_refused_beyond_doubt_only() -> None:
    def stats(weights: Any) -> ove.TrajectoryStatistics:
        n = len(weights)
        return ove.trajectory_statistics(
            np.log(weights), np.zeros(n), np.ones(n, dtype=int), gamma=1.0, horizon=1
        )

    with pytest.raises(ove.MeanWeightError, match="must be 1 on average"):
        ove.mean_interval(stats(np.full(100, 1.25)), reward_range=(0, 1))
    # This may happen by chance, and proves nothing.
    assert ove.mean_interval(stats([1.5, 1.5, 1.5]), reward_range=(0, 1)).guaranteed
    rng = np.random.default_rng(0)
    for _ in range(300):
        heavy = np.exp(2.0 * rng.normal(size=200) - 2.0)  # of mean 1
        assert ove.mean_interval(stats(heavy), reward_range=(0, 1), side="lower").guaranteed


@pytest.mark.parametrize(
    ("center", "spread", "known"),
    [(1e6, 0.1, {"return_range": (1e6, 1e6 + 0.01)}), (1e9, 0.5, {"reward_range": (1e9, 1e9 + 1)})],
)
def test_ranges_far_from_zero_are_checked_against_their_width(
    center: float, spread: float, known: dict[str, Any]
) -> None:
    rewards = center + spread * np.array([-1.0, 1.0] * 50)
    stats = ove.trajectory_statistics(
        np.zeros(100), rewards, np.ones(100, int), gamma=1.0, horizon=1
    )
    with pytest.raises(ove.AssumptionError, match="must contain all logged"):
        ove.variance_interval(stats, **known)
    wide = (center - spread, center + spread)
    interval = ove.variance_interval(stats, return_range=wide)
    assert interval.lower <= spread**2 <= interval.upper * (1 + 1e-6)
