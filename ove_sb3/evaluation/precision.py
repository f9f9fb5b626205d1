"""How many episodes would make the guaranteed interval half as wide."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ove_sb3._validation import IntArray
from ove_sb3.core.results import Interval
from ove_sb3.core.statistics import TrajectoryStatistics

_FEWEST = 40  # episodes: halves of less say nothing about a rate
_SLOWEST, _FASTEST = 0.25, 1.0  # of the exponent r in width ~ n^-r


def episodes_to_halve(
    stats: TrajectoryStatistics,
    whole: Interval,
    interval_of: Callable[[TrajectoryStatistics], Interval],
    *,
    seed: int,
    in_order: bool,
) -> int | None:
    """About how many episodes in all would halve the width of `whole`; None if that is unknown.

    The rate r in ``width ~ n^-r`` is estimated from the two halves of the data: random ones, or
    consecutive ones if the log must be taken `in_order`.
    """
    n = len(stats)
    if n < _FEWEST or not whole.informative or whole.width <= 0.0:
        return None
    order = np.arange(n) if in_order else np.random.default_rng(seed).permutation(n)
    halves = [interval_of(_part(stats, np.sort(half))) for half in np.array_split(order, 2)]
    widths = [half.width for half in halves]
    rate = math.log2(max(sum(widths) / 2 / whole.width, 1.0))
    rate = min(max(rate, _SLOWEST), _FASTEST)
    total = n * 2.0 ** (1.0 / rate)
    digits = 1 - math.floor(math.log10(total))  # two significant digits are honest
    return int(round(total, digits))


def _part(stats: TrajectoryStatistics, chosen: IntArray) -> TrajectoryStatistics:
    """Some of the trajectories, for intervals only: sums over steps stay those of all."""
    return replace(
        stats,
        weights=stats.weights[chosen],
        returns=stats.returns[chosen],
        pdis=stats.pdis[chosen],
        cdis=stats.cdis[chosen],
        pdis_ones=stats.pdis_ones[chosen],
        cdis_ones=stats.cdis_ones[chosen],
        cdis_cross=stats.cdis_cross[chosen],
        overlaps=None if stats.overlaps is None else stats.overlaps[chosen],
    )
