"""Logs that stop with episodes under way: bounds hold, and would not if those were dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import ove_sb3 as ove
from ove_sb3.core import inference
from ove_sb3.core.stopping import Logging, LoggingRecord, begin_key
from tests.misses import Misses
from tests.problems.queue import QUEUES, Queue

DELTA = 0.2


def misses(
    queue: Queue,
    n_trials: int,
    *,
    adaptive: bool = False,
    planned: bool = True,
    stop: str = "steps",
    drop: bool = False,
) -> dict[str, Misses]:
    """Misses of both quantities, counted until they are known to be rare."""
    counts = {quantity: Misses(DELTA) for quantity in queue.truth}
    for trial in range(n_trials):
        left = [quantity for quantity, count in counts.items() if not count.settled]
        if not left:
            break
        stats = queue.log(np.random.default_rng([trial, 7]), planned=planned, stop=stop)
        if drop:
            stats = replace(stats, begins=None, logging=None, overlaps=None)
        for quantity in left:
            interval = ove.interval(
                stats,
                quantity,
                reward_range=(min(queue.returns), max(queue.returns)),
                max_ratio=queue.max_ratio,
                delta=DELTA,
                adaptive=adaptive,
            )
            assert drop or interval.guaranteed or not interval.consistent
            counts[quantity].add(interval, queue.truth[quantity], 0.0)
    return counts


def check(counts: dict[str, Misses]) -> None:
    for name, count in counts.items():
        count.check(name)


CASES: dict[str, dict[str, Any]] = {
    "steps": {},
    "unknown stop": {"planned": False},
    "learning": {"adaptive": True},
    "good news": {"planned": False, "stop": "good news"},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["long is good", "many environments"])
def test_bounds_hold(name: str, case: str) -> None:
    check(misses(QUEUES[name], 25, **CASES[case]))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", QUEUES)
def test_bounds_hold_in_many_trials(name: str, case: str) -> None:
    check(misses(QUEUES[name], 400, **CASES[case]))


@pytest.mark.parametrize("name", ["many environments", "more environments"])
def test_without_the_unfinished_ones_bounds_would_fail(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ove.MeanWeightError, match="episodes were left out"):
        misses(QUEUES[name], 10, drop=True)
    monkeypatch.setattr(inference, "check_mean_weight", lambda *_: None)
    counts = misses(QUEUES[name], 10, drop=True)
    assert max(max(count.lower, count.upper) for count in counts.values()) > 8, counts


def given_up(rng: np.random.Generator, p: float, long: float) -> ove.TrajectoryStatistics:
    """500 episodes of one environment that returns `long`, after many steps, or 1 - `long`.

    Two equally likely actions: the first leads to the long one with probability 0.9, the other with
    0.1. A loop gives up six of ten long episodes. The candidate takes the first with probability p.
    """
    n = 500
    first = rng.random(n) < 0.5
    is_long = np.where(rng.random(n) < 0.9, first, ~first)
    ended = np.flatnonzero(~is_long | (rng.random(n) < 0.4))
    stats = ove.trajectory_statistics(
        np.log(2 * np.where(first, p, 1 - p))[ended],
        np.where(is_long, long, 1 - long)[ended],
        np.ones(ended.size, np.int64),
        gamma=1.0,
        horizon=1,
    )
    return replace(
        stats,
        begins=begin_key(1, 0) + ended,
        overlaps=np.zeros(ended.size, np.int64),
        logging=Logging({1: LoggingRecord(n, ended.size, 1, 3 * n, None)}),
    )


@pytest.mark.parametrize("known", [True, False], ids=["known weight", "unknown weight"])
def test_every_quantity_counts_episodes_that_were_given_up(known: bool) -> None:
    low: dict[str, list[bool]] = {}
    high: dict[str, list[bool]] = {}
    for trial in range(12):
        for p, long in ((0.5, 0.0), (0.4, 1.0), (0.9, 0.0)):
            stats = given_up(np.random.default_rng([trial, int(10 * p)]), p, long)
            p_long = 0.9 * p + 0.1 * (1 - p)
            p_bad = p_long if long == 0.0 else 1 - p_long  # of the return 0
            truth: dict[str, tuple[ove.Quantity, float]] = {
                "mean": (ove.Mean(), 1 - p_bad),
                "variance": (ove.Variance(), p_bad * (1 - p_bad)),
                "quantile below": (ove.Quantile(max(p_bad - 0.06, 0.01)), 0.0),
                "quantile above": (ove.Quantile(min(p_bad + 0.06, 0.99)), 1.0),
                "cvar": (ove.CVaR(0.8), max(0.8 - p_bad, 0.0) / 0.8),
                "p_below": (ove.ProbabilityBelow(0.5), p_bad),
            }
            for name, (quantity, value) in truth.items():
                interval = ove.interval(
                    stats,
                    quantity,
                    reward_range=(0, 1),
                    max_weight=2 * max(p, 1 - p) if known else None,
                    delta=DELTA,
                )
                assert interval.guaranteed or not interval.consistent
                low.setdefault(name, []).append(interval.lower > value + 1e-9)
                high.setdefault(name, []).append(interval.upper < value - 1e-9)
    for side in (low, high):
        for name, misses_of in side.items():
            assert binom.sf(sum(misses_of) - 1, len(misses_of), DELTA / 2) > 1e-3, name


def short_runs(rng: np.random.Generator, long: float, planned: bool) -> ove.TrajectoryStatistics:
    """300 runs of three steps, one after another; half of the episodes never end in so few.

    Those return `long`, the others, of one step, 1 - `long`.
    """
    n_runs, n_steps = 300, 3
    begins, returns, records = [], [], {}
    for run in range(1, n_runs + 1):
        first_long = int(np.argmax(np.append(rng.random(n_steps) < 0.5, True)))
        begins += [begin_key(run, number) for number in range(first_long)]
        returns += [1.0 - long] * first_long
        begun = min(first_long + 1, n_steps)
        steps = n_steps if planned else None
        records[run] = LoggingRecord(begun, first_long, 1, n_steps, steps)
    n = len(begins)
    stats = ove.trajectory_statistics(
        np.zeros(n), np.array(returns), np.ones(n, np.int64), gamma=1.0, horizon=1
    )
    return replace(stats, begins=np.array(begins), logging=Logging(records))


@pytest.mark.parametrize("planned", [True, False], ids=["planned", "unknown stop"])
@pytest.mark.parametrize("long", [0.0, 1.0], ids=["long is bad", "long is good"])
def test_runs_of_which_no_episode_ended_have_their_place(long: float, planned: bool) -> None:
    for trial in range(4):
        stats = short_runs(np.random.default_rng(trial), long, planned)
        assert stats.logging is not None
        assert any(not record.ended for record in stats.logging.records.values())
        options: dict[str, Any] = {"reward_range": (0, 1), "max_weight": 1.0, "delta": DELTA}
        for quantity, truth in (("mean", 0.5), ("p_below:0.5", 0.5)):
            interval = ove.interval(stats, quantity, **options)
            assert interval.guaranteed
            assert interval.lower <= truth <= interval.upper
        sequence = ove.confidence_sequence(stats, "mean", **options)
        assert sequence.guaranteed
        assert (sequence.lower <= 0.5).all()
        assert (sequence.upper >= 0.5).all()
