"""Logs that stop with episodes under way: bounds hold, and would not if those were dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

import ove_sb3 as ove
from ove_sb3.core import inference
from tests.problems.queue import QUEUES, Queue

DELTA = 0.2
SIGNIFICANT = 1e-4


def misses(
    queue: Queue,
    n_trials: int,
    *,
    adaptive: bool = False,
    planned: bool = True,
    stop: str = "steps",
    drop: bool = False,
) -> dict[str, int]:
    """Number of misses of each bound."""
    counts = dict.fromkeys(("mean below", "mean above", "variance below", "variance above"), 0)
    for trial in range(n_trials):
        stats = queue.log(np.random.default_rng([trial, 7]), planned=planned, stop=stop)
        if drop:
            stats = replace(stats, begins=None, logging=None, overlaps=None)
        for quantity, truth in queue.truth.items():
            interval = ove.interval(
                stats,
                quantity,
                reward_range=(min(queue.returns), max(queue.returns)),
                max_ratio=queue.max_ratio,
                delta=DELTA,
                adaptive=adaptive,
            )
            assert drop or interval.guaranteed or not interval.consistent
            counts[f"{quantity} below"] += truth < interval.lower
            counts[f"{quantity} above"] += truth > interval.upper
    return counts


def check(counts: dict[str, int], n_trials: int) -> None:
    for name, count in counts.items():
        p = binomtest(count, n_trials, DELTA / 2, alternative="greater").pvalue
        assert p > SIGNIFICANT, (name, count, n_trials)


CASES: dict[str, dict[str, Any]] = {
    "steps": {},
    "unknown stop": {"planned": False},
    "learning": {"adaptive": True},
    "good news": {"planned": False, "stop": "good news"},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["long is good", "many environments"])
def test_bounds_hold(name: str, case: str) -> None:
    check(misses(QUEUES[name], 25, **CASES[case]), 25)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", QUEUES)
def test_bounds_hold_in_many_trials(name: str, case: str) -> None:
    check(misses(QUEUES[name], 400, **CASES[case]), 400)


@pytest.mark.parametrize("name", ["many environments", "more environments"])
def test_without_the_unfinished_ones_bounds_would_fail(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ove.MeanWeightError, match="episodes were left out"):
        misses(QUEUES[name], 10, drop=True)
    monkeypatch.setattr(inference, "check_mean_weight", lambda *_: None)
    counts = misses(QUEUES[name], 10, drop=True)
    assert max(counts.values()) > 8, counts
