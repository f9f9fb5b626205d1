"""Trajectories assigned to several policies: bets of constant size, realized shares, coverage."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core.assigned import ARMS, SHARES, balanced, even_order, share_factors
from ove_sb3.core.betting import capital
from ove_sb3.core.betting.capital import BetTarget, last_rejected
from ove_sb3.core.betting.constant import _log_capital, last_rejected_constant
from ove_sb3.core.betting.schedule import Schedule
from ove_sb3.core.step_reduction import shard_statistics
from ove_sb3.core.steps import StepScores
from tests.misses import Misses

# One step, four actions with their rewards; the rare one decides the candidate's variance.
OLD = np.array([0.50, 0.30, 0.195, 0.005])
NEW = np.array([0.10, 0.20, 0.60, 0.10])
REWARDS = np.array([0.1, 0.3, 0.4, 1.0])
MEAN = float(NEW @ REWARDS)
VARIANCE = float(NEW @ REWARDS**2 - MEAN**2)
log_capital: Any = _log_capital
NOTHING: Any = np.empty(0), np.empty(0, np.int64)


def statistics(
    arms: np.ndarray[Any, Any], rng: np.random.Generator, shares: tuple[float, ...] | None = None
) -> ove.TrajectoryStatistics:
    """Log of the arms, for NEW as the candidate; `shares` are those that the weights assume."""
    tables = np.stack([OLD, NEW])
    actions = (tables.cumsum(axis=1)[arms] < rng.random(len(arms))[:, None]).sum(axis=1)
    assumed = np.bincount(arms, minlength=2) / len(arms) if shares is None else np.array(shares)
    mixture = assumed @ tables
    columns = {ARMS: arms.astype(float), SHARES: assumed[arms]}
    scores = StepScores(np.log(NEW / mixture)[actions], columns=columns)
    ones = np.ones(len(arms), dtype=np.int64)
    return shard_statistics(scores, REWARDS[actions], ones, gamma=1.0, horizon=1)


def fixed(n: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Assign the first tenth of the episodes to the second arm."""
    del rng
    return (np.arange(n) < n // 10).astype(int)


def random(n: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Assign every episode independently."""
    arms = (rng.random(n) < 0.1).astype(int)
    arms[:4] = 0, 0, 1, 1
    return arms


def by_users(n: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Assign blocks of ten episodes independently."""
    arms = np.repeat((rng.random(n // 10) < 0.1).astype(int), 10)
    arms[:2], arms[-2:] = 0, 1
    return arms


ASSIGNMENTS = {"fixed": fixed, "random": random, "by users": by_users}


@pytest.mark.parametrize("means", [(0.1, 0.1, 0.1, 0.9, 0.9), (0.0, 0.05, 0.9, 0.95, 0.6)])
def test_the_expected_capital_is_at_most_1_for_means_that_differ(means: tuple[float, ...]) -> None:
    p = np.array(means)
    s = float(p.mean())
    fractions = np.array([0.2, 0.6, 0.95])
    total = 0.0
    for x in itertools.product((0.0, 1.0), repeat=p.size):
        outcome = np.array(x)
        probability = float(np.prod(np.where(outcome == 1.0, p, 1.0 - p)))
        total += probability * np.exp(log_capital(outcome, *NOTHING, 0, s, fractions))
    assert total <= fractions.size
    # Adaptive bets gain from the trend of the means.
    gained = 0.0
    for x in itertools.product((0.0, 1.0), repeat=p.size):
        outcome = np.array(x)
        probability = float(np.prod(np.where(outcome == 1.0, p, 1.0 - p)))
        bets = np.where(np.arange(p.size) >= 3, 0.9, 0.0)
        gained += probability * float(np.prod(1.0 + bets * (outcome / s - 1.0)))
    assert gained > 1.5


@pytest.mark.parametrize("ranked", [False, True])
def test_the_bound_is_that_of_the_plain_products(ranked: bool) -> None:
    rng = np.random.default_rng(0)
    x, low, level, pilot = rng.normal(1.0, 2.0, 400), -6.0, 0.05, 50
    x = np.maximum(x, low)
    grid = np.full(30, 0.9) if ranked else np.linspace(-7.0, 2.0, 60)
    gains, ranks = (rng.random(400), rng.integers(0, 31, 400)) if ranked else NOTHING
    found = last_rejected_constant(x, pilot, low, 4.0, grid, level, gains, ranks)
    n, reach = 350, np.sqrt(-2 * np.log(level))
    near = grid[0] if ranked else x[:pilot].mean() - reach * np.sqrt(4.0 / n)
    fraction = reach / np.sqrt(4.0 * n) * (near - low)
    accepted = []
    for j, s in enumerate(grid):
        y = x[pilot:] + (gains[pilot:] * (ranks[pilot:] > j) if ranked else 0.0)
        if s <= low:
            accepted.append(False)
            continue
        sizes = np.minimum([0.7 * fraction, fraction, 1.4 * fraction], 0.95) / (s - low)
        logs = [np.sum(np.log1p(size * (y - s))) for size in sizes]
        accepted.append(np.logaddexp.reduce(logs) - np.log(3.0) + np.log(level) < 0.0)
    assert found == accepted.index(True) - 1
    assert 0 < found < len(grid) - 1


def test_schedules_from_the_pilot_bet_with_one_size() -> None:
    schedule = Schedule.from_pilot(1_000)
    assert schedule.epochs.tolist() == [50]
    assert schedule.blocks.tolist() == [50, 1_000]
    assert Schedule.from_pilot(4).epochs.tolist() == [1]
    columns = np.random.default_rng(0).random((1, 1_000))
    ones = np.ones(1)
    target = BetTarget(columns, ones[None], 0 * ones, 0 * ones, ones / 12, ones * np.inf)
    grid = np.linspace(0.0, 1.0, 101)
    bound = grid[last_rejected(target, schedule, grid, 0.05)]
    assert 0.4 < bound < 0.5
    columns[0, :50] = 0.0  # the pilot is not bet on, but decides the size of the bets
    assert 0.2 < grid[last_rejected(target, schedule, grid, 0.05)] < bound


def test_weights_of_what_is_bet_on_average_1() -> None:
    arms = np.repeat([0, 1], [9, 6])
    tables, shares = np.stack([OLD, NEW]), np.array([0.8, 0.2])  # as if from a larger log
    stats = statistics(arms, np.random.default_rng(0), (0.8, 0.2))
    counted = np.array([0, 1, 2, 3, 9, 10, 11])
    factors = share_factors(stats, counted)
    weights = NEW / (shares @ tables)
    expected = np.mean([factors[i] * (tables[arms[i]] @ weights) for i in counted])
    assert expected == pytest.approx(1.0, abs=1e-12)
    of_all = balanced(stats)
    assert of_all.weights[0] / stats.weights[0] == pytest.approx(0.8 / 0.6)
    np.testing.assert_allclose(of_all[SHARES], np.where(arms == 1, 0.4, 0.6))
    assert balanced(of_all) is of_all


def test_every_stretch_of_the_order_has_the_shares() -> None:
    arms = np.repeat([0.0, 1.0, 2.0], [900, 90, 10])
    order = even_order(arms, np.random.default_rng(3))
    assert sorted(order) == list(range(1_000))
    for start in range(0, 1_000, 50):
        counts = np.bincount(arms[np.roll(order, -start)[:100]].astype(int), minlength=3)
        assert (np.abs(counts - [90, 9, 1]) <= 1).all()
    first = even_order(arms, np.random.default_rng(4))
    assert (first != order).mean() > 0.9


def check_misses(
    assignment: str, n: int, delta: float, trials: int, shares: tuple[float, float] | None = None
) -> None:
    """Count the misses of mean and variance until they are known to be rare."""
    truths = {"mean": MEAN, "variance": VARIANCE}
    counts = {name: Misses(delta) for name in truths}
    for trial in range(trials):
        left = [name for name, count in counts.items() if not count.settled]
        if not left:
            break
        rng = np.random.default_rng([trial, n])
        arms = ASSIGNMENTS[assignment](n, rng)
        stats = statistics(arms, rng, shares)
        for name in left:
            interval = ove.interval(
                stats,
                name,
                reward_range=(0, 1),
                max_weight=1.0 / (arms.mean() if shares is None else shares[1]),
                delta=delta,
                method=ove.Betting(n_shuffles=1),
                rng=trial,
            )
            assert interval.guaranteed == interval.consistent
            counts[name].add(interval, truths[name], 1e-12)
    for name, count in counts.items():
        count.check(name)


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_coverage(assignment: str) -> None:
    check_misses(assignment, 120, 0.4, trials=200)


def test_coverage_of_a_part_with_other_shares() -> None:
    check_misses("fixed", 20_000, 0.4, trials=20, shares=(0.7, 0.3))


@pytest.mark.slow
@pytest.mark.parametrize("n", [40, 400, 4_000])
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_coverage_at_many_sizes(assignment: str, n: int) -> None:
    trials = 4_000 if n < 1_000 else 500
    for delta in (0.05, 0.4):
        check_misses(assignment, n, delta, trials)


def test_no_bet_depends_on_what_was_bet_on(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    stats = statistics(fixed(200, rng), rng)

    def adaptive(*_: Any) -> None:
        raise AssertionError("bets that adapt")

    monkeypatch.setattr(capital, "last_rejected_in_order", adaptive)
    monkeypatch.setattr(capital, "last_capitals_overlapping", adaptive)
    for name in ("mean", "variance", "std", "quantile:0.5", "cvar:0.2", "p_below:0.3"):
        ove.interval(stats, name, reward_range=(0, 1), max_weight=10.0)


def test_only_betting_is_guaranteed() -> None:
    rng = np.random.default_rng(0)
    stats = statistics(fixed(400, rng), rng)
    options: dict[str, Any] = {"reward_range": (0, 1), "max_weight": 10.0}
    for name in ("mean", "variance", "quantile:0.5", "cvar:0.2", "p_below:0.3"):
        found = ove.interval(stats, name, **options)
        assert found.guaranteed
        assert "which policy acted" in found.assumptions[0]
    paper = ove.interval(stats, "mean", method="paper", **options)
    assert not paper.guaranteed
    assert "assigned to several policies" in paper.reasons[0]
    assert not ove.confidence_sequence(stats, "mean", **options).guaranteed
    assert not ove.interval(stats, "mean", adaptive=True, **options).guaranteed
    assert ove.interval(stats, "mean", method="bootstrap").reasons == (
        "the method is an approximation for large n",
    )
    estimate = ove.estimate(stats, "mean")
    part = stats.select(np.r_[0:20, 40:400])  # half as many of the second arm
    assert ove.estimate(part, "mean") == pytest.approx(estimate, abs=0.05)
    weights = balanced(part).weights
    assert weights.mean() == pytest.approx(1.0, abs=0.15)


def test_arms_that_are_missing_or_inconsistent_are_refused() -> None:
    rng = np.random.default_rng(0)
    stats = statistics(fixed(100, rng), rng)
    with pytest.raises(ove.InvalidInputError, match="at least 2 episodes of every policy"):
        ove.interval(stats.select(np.arange(10, 100)), "mean", reward_range=(0, 1))
    other = statistics(fixed(100, rng), rng, (0.5, 0.5))
    joined = ove.TrajectoryStatistics.concatenate([stats, other])
    with pytest.raises(ove.InvalidInputError, match="one share for every policy"):
        ove.interval(joined, "mean", reward_range=(0, 1))
