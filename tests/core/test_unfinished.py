"""Logs that stop with episodes under way: bounds hold, and would not if those were dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core import inference
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
