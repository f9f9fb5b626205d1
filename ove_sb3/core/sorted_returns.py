"""Returns in increasing order, sorted once per statistics."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from ove_sb3._validation import FloatArray, IntArray

from .statistics import TrajectoryStatistics


@dataclass(frozen=True)
class SortedReturns:
    """Returns in increasing order.

    Attributes
    ----------
    order : ndarray of int64, (n,)
        Trajectories in the order of their return.
    positions : ndarray of int64, (n,)
        Position of every trajectory in that order.
    values : ndarray, (n,)
        The returns in that order.
    n_weighted : ndarray of int64, (n + 1,)
        Number of trajectories with a positive weight before every position.
    """

    order: IntArray
    positions: IntArray
    values: FloatArray
    n_weighted: IntArray


_KNOWN: WeakKeyDictionary[TrajectoryStatistics, SortedReturns] = WeakKeyDictionary()


def sorted_returns(stats: TrajectoryStatistics) -> SortedReturns:
    """The returns of the statistics in increasing order."""
    if stats not in _KNOWN:
        order = np.argsort(stats.returns, kind="stable")
        positions = np.empty_like(order)
        positions[order] = np.arange(order.size)
        n_weighted = np.concatenate([[0], np.cumsum(stats.weights[order] > 0.0)])
        _KNOWN[stats] = SortedReturns(order, positions, stats.returns[order], n_weighted)
    return _KNOWN[stats]
