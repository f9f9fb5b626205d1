"""Counts of misses: trials end early only if misses are rare."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ove_sb3 as ove

from .misses import OVERLOOKED, Misses, ruled_out


@pytest.mark.parametrize("level", [0.025, 0.1, 0.2])
def test_frequent_misses_are_hardly_ever_overlooked(level: float) -> None:
    rng, trials = np.random.default_rng(0), 1000
    early = 0
    for _ in range(2000):
        counts = np.cumsum(rng.random(trials) < 2 * level)
        early += any(ruled_out(int(counts[k]), k + 1, level) for k in range(10, trials, 10))
    assert early / 2000 < 5 * OVERLOOKED


@pytest.mark.parametrize("level", [0.025, 0.1, 0.2])
def test_few_trials_are_enough_where_misses_are_rare(level: float) -> None:
    assert ruled_out(0, 300, level)
    assert not ruled_out(0, 10, level)
    assert not ruled_out(round(2 * level * 300), 300, level)


def test_every_kind_of_miss_counts() -> None:
    stats = ove.trajectory_statistics(np.zeros(9), np.zeros(9), np.ones(9, int), gamma=1.0)
    interval = replace(ove.interval(stats, "mean", method="normal"), lower=1.0, upper=2.0)
    counts = Misses(0.2)
    for _ in range(10):
        for truth in (0.5, 1.0, 2.0, 2.5, 3.0):
            counts.add(interval, truth)
        counts.add(replace(interval, lower=3.0), 2.5)  # misses on both sides
    assert (counts.trials, counts.lower, counts.upper, counts.either) == (60, 20, 30, 40)
    assert not counts.settled
    with pytest.raises(AssertionError):
        counts.check()
    with pytest.raises(AssertionError):
        counts.add(replace(interval, lower=np.nan), 1.5)
