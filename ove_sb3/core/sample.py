"""Input of the methods: logged trajectories, their order, and the stated limits."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ove_sb3._validation import FloatArray, IntArray

from .assumptions import Limits
from .betting.capital import OpenEnd, Schedule
from .statistics import TrajectoryStatistics
from .stopping import Logging

_PILOT = 50  # trajectories, if nothing is known about their number
_PILOT_FRACTION, _LARGEST_SHARE = 0.02, 1 / 8  # of the planned number


@dataclass(frozen=True)
class Sample:
    """Input of a bound.

    Attributes
    ----------
    stats : TrajectoryStatistics
        With a row of zeros at the end if some trajectories never ended.
    limits : Limits
    order : ndarray of int64, (n,)
        Order in which trajectories are processed: shuffled, or that of logging if the behavior
        was adaptive. Those that never ended refer to the row of zeros.
    overlaps : ndarray of int64, (n,), or None
        For an adaptive behavior: number of trajectories that ended while each was running.
    open_end : OpenEnd or None
        For logs whose number of trajectories was not fixed in advance.
    """

    stats: TrajectoryStatistics
    limits: Limits
    order: IntArray
    overlaps: IntArray | None
    open_end: OpenEnd | None = None

    @cached_property
    def returns(self) -> FloatArray:
        """Returns in the order of processing, (n,)."""
        return np.asarray(self.stats.returns[self.order])

    @cached_property
    def weights(self) -> FloatArray:
        """Weights in the order of processing, (n,)."""
        return np.asarray(self.stats.weights[self.order])

    def schedule(self, n_blocks: int) -> Schedule:
        """Schedule of the bets, with about `n_blocks` blocks."""
        return Schedule.plan(self.order.size, n_blocks, self.overlaps, self.open_end)

    @classmethod
    def of(
        cls,
        stats: TrajectoryStatistics,
        limits: Limits,
        *,
        adaptive: bool,
        rng: np.random.Generator,
    ) -> Sample:
        """Sample in logging order if `adaptive`, else shuffled by `rng`."""
        n = len(stats)
        order = np.arange(n) if adaptive else rng.permutation(n)
        return cls(stats, limits, order, stats.overlaps if adaptive else None)

    @classmethod
    def of_all_begun(cls, stats: TrajectoryStatistics, limits: Limits, *, adaptive: bool) -> Sample:
        """Sample of all trajectories that were begun, those that never ended included.

        In the order of beginning if they followed one another, or if behavior and number of steps
        were fixed in advance; else in the order in which they ended, followed by those that did
        not.
        """
        n, logging, begins = len(stats), stats.logging, stats.begins
        assert logging is not None
        assert begins is not None
        by_beginning = logging.sequential or (logging.stopped_by_steps and not adaptive)
        overlaps = None
        if by_beginning:
            order = logging.in_order_of_beginning(begins)
        else:
            ended_before = logging.ended_before_unfinished(begins, stats.overlaps)
            order = np.concatenate([np.arange(n), np.full(ended_before.size, n)])
            running = np.zeros(n, np.int64) if stats.overlaps is None else stats.overlaps
            waited = n + np.arange(ended_before.size) - ended_before
            overlaps = np.concatenate([running, waited])
        unfinished = order == n
        lengths = np.append(stats.lengths, 0)[order]
        open_end = _plan(logging, lengths, unfinished)
        return cls(_with_zeros(stats), limits, order, overlaps, open_end)

    @classmethod
    def so_far(
        cls,
        stats: TrajectoryStatistics,
        limits: Limits,
        running: IntArray,
        target_n: int,
    ) -> Sample:
        """Sample of the trajectories that have ended so far, and of those under way.

        In the order in which they ended. The schedule is planned for `target_n`; only its end
        depends on how many there are. `running` is the number of those that had ended when each
        one under way began.
        """
        n, m = len(stats), running.size
        order = np.concatenate([np.arange(n), np.full(m, n)])
        overlaps = None
        if m or stats.overlaps is not None:
            during = np.zeros(n, np.int64) if stats.overlaps is None else stats.overlaps
            overlaps = np.concatenate([during, n + np.arange(m) - running])
        pilot = math.ceil(max(_PILOT_FRACTION * target_n, min(_PILOT, _LARGEST_SHARE * target_n)))
        open_end = OpenEnd(order == n, pilot, float(target_n), m)
        return cls(_with_zeros(stats), limits, order, overlaps, open_end)


def _plan(logging: Logging, lengths: IntArray, unfinished: NDArray[np.bool_]) -> OpenEnd:
    """Size of the pilot and planned number of trajectories, from the pilot's lengths only."""
    steps, n = logging.planned_steps, lengths.size
    if steps is None:
        return OpenEnd(unfinished, _PILOT, None, logging.n_envs)
    count = np.arange(1, n + 1)
    planned = count * (steps / np.maximum(np.cumsum(lengths), 1))
    enough = np.minimum(float(_PILOT), _LARGEST_SHARE * planned)
    # The first size that suffices: whether it does is known once so many have been seen.
    sufficient = np.flatnonzero(count >= np.maximum(_PILOT_FRACTION * planned, enough))
    pilot = int(count[sufficient[0]]) if sufficient.size else n
    return OpenEnd(unfinished, pilot, float(max(planned[pilot - 1], 1.0)), logging.n_envs)


def _with_zeros(stats: TrajectoryStatistics) -> TrajectoryStatistics:
    columns = {name: np.append(column, 0.0) for name, column in stats.columns.items()}
    return replace(
        stats,
        columns=columns,
        lengths=np.append(stats.lengths, 0),
        step_sums=None,
        end_sums=None,
        overlaps=None,
        begins=None,
        logging=None,
        steps=None,
    )
