"""Logged steps: the input of per-trajectory statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ove_sb3._validation import FloatArray, IntArray


@dataclass(frozen=True)
class StepScores:
    """Scores of the logged actions under a candidate.

    Attributes
    ----------
    log_ratios : ndarray of float64, (n_steps,)
        log pi(a|s) - log beta(a|s) of every step.
    extra : dict of str to ndarray, (n_steps, ...)
        Further values per step, for columns that need more than the ratio.
    columns : dict of str to ndarray of float64, (n,)
        Per-trajectory columns that are computed together with the scores.
    """

    log_ratios: FloatArray
    extra: Mapping[str, FloatArray] = field(default_factory=dict)
    columns: Mapping[str, FloatArray] = field(default_factory=dict)


@dataclass(frozen=True)
class Steps:
    """Flat arrays over all logged steps, episode after episode.

    Attributes
    ----------
    scores : StepScores
    rewards : ndarray of float64, (n_steps,)
    starts, lengths : ndarray of int64, (n,)
        First step and number of steps of every episode.
    gamma : float
    horizon : int or None
    """

    scores: StepScores
    rewards: FloatArray
    starts: IntArray
    lengths: IntArray
    gamma: float
    horizon: int | None


@dataclass(frozen=True)
class Column:
    """A per-trajectory column beyond the built-in seven.

    Attributes
    ----------
    name : str
        Key in `TrajectoryStatistics.columns`.
    compute : callable
        From `Steps` to an array (n,). It may use one trajectory's steps for its entry only, so
        that shards can be joined.
    """

    name: str
    compute: Callable[[Steps], FloatArray]


def running_sums(values: FloatArray, lengths: IntArray) -> FloatArray:
    """Sums of `values`, (n_steps, ...), over the steps of each episode so far, like `values`."""
    sums = np.empty_like(values)
    begin = 0
    for length in lengths:
        end = begin + int(length)
        np.cumsum(values[begin:end], axis=0, out=sums[begin:end])
        begin = end
    return sums
