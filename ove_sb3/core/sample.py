"""Input of the methods: logged trajectories, their order, and the stated limits."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ove_sb3._validation import FloatArray, IntArray

from .assigned import reweighted, share_factors
from .assumptions import Limits
from .betting.schedule import OpenEnd, Schedule
from .statistics import TrajectoryStatistics
from .stopping import Logging
from .under_way import UnderWay

_PILOT = 50  # trajectories, if nothing is known about their number
_LEFT_OF_EXACT, _LEFT = (0.05, 0.25), (0.3, 0.5)  # bets are sized for: see `OpenEnd`
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
    assigned : bool
        Trajectories were assigned to several policies: bets must be of constant size.
    """

    stats: TrajectoryStatistics
    limits: Limits
    order: IntArray
    overlaps: IntArray | None
    open_end: OpenEnd | None = None
    assigned: bool = False

    @cached_property
    def returns(self) -> FloatArray:
        """Returns in the order of processing, (n,)."""
        return np.asarray(self.stats.returns[self.order])

    @cached_property
    def weights(self) -> FloatArray:
        """Weights in the order of processing, (n,)."""
        return np.asarray(self.stats.weights[self.order])

    def schedule(
        self, n_blocks: int, *, large_pilot: bool = False, warm_up: bool = False
    ) -> Schedule:
        """Schedule of the bets, with about `n_blocks` blocks."""
        if self.assigned:
            return Schedule.from_pilot(self.order.size)
        return Schedule.plan(
            self.order.size,
            n_blocks,
            self.overlaps,
            self.open_end,
            large_pilot=large_pilot,
            warm_up=warm_up,
        )

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
    def of_assigned(cls, stats: TrajectoryStatistics, limits: Limits, order: IntArray) -> Sample:
        """Sample of trajectories that were assigned to policies, in the given order.

        Weights are those of the realized shares of what is bet on.
        """
        pilot = int(Schedule.from_pilot(order.size).epochs[0])
        factors = share_factors(stats, order[pilot:])
        own = reweighted(stats, factors)
        return cls(own, limits.reweighted(float(factors.max())), order, None, assigned=True)

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
        overlaps = latest = None
        if by_beginning:
            order = logging.in_order_of_beginning(begins)
        else:
            least, most = logging.begun_between(begins, stats.overlaps)
            order, overlaps, latest = _ended_first(stats, least, most)
        unfinished = order == n
        lengths = np.append(stats.lengths, 0)[order]
        open_end = replace(_plan(logging, lengths, unfinished), latest=latest)
        return cls(_with_zeros(stats), limits, order, overlaps, open_end)

    @classmethod
    def so_far(
        cls,
        stats: TrajectoryStatistics,
        limits: Limits,
        under_way: UnderWay,
        target_n: int,
        *,
        exact: bool,
    ) -> Sample:
        """Sample of the trajectories that have ended so far, and of those under way.

        In the order in which they ended; those that followed one another in the order of beginning.
        The schedule is planned for `target_n`: only its end depends on how many there are. Unless
        the target is `exact`, bets do well at numbers around it, too.
        """
        n = len(stats)
        overlaps = latest = None
        # Those that will never end have their place where this was known.
        places = np.concatenate([2 * np.arange(n) + 1, 2 * under_way.lost])
        ended = np.concatenate([np.arange(n), np.full(len(under_way), n)])
        by_place = np.argsort(places, kind="stable")
        order = ended[by_place]
        if not under_way.sequential:
            during = np.zeros(n, np.int64) if stats.overlaps is None else stats.overlaps
            began = np.arange(n) - during
            least = np.concatenate([began, under_way.least])[by_place]
            most = np.concatenate([began, under_way.most])[by_place]
            lost = np.sort(under_way.lost)
            # An episode that was lost was not known to be when it was under way.
            before = np.where(order == n, places[by_place] // 2 - 1, n)
            least, latest = (
                e + np.searchsorted(lost, np.minimum(e, before), side="right")
                for e in (least, most)
            )
            overlaps = np.arange(order.size) - least
        pilot = math.ceil(max(_PILOT_FRACTION * target_n, min(_PILOT, _LARGEST_SHARE * target_n)))
        left = _LEFT_OF_EXACT if exact else _LEFT
        planned, n_open = float(target_n), under_way.n_expected
        open_end = OpenEnd(order == n, pilot, planned, n_open, latest, *left)
        return cls(_with_zeros(stats), limits, order, overlaps, open_end)


def _ended_first(
    stats: TrajectoryStatistics, least: IntArray, most: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Order, overlaps, and latest beginning: those that ended, then those that did not."""
    n, m = len(stats), least.size
    order = np.concatenate([np.arange(n), np.full(m, n)])
    during = np.zeros(n, np.int64) if stats.overlaps is None else stats.overlaps
    overlaps = np.concatenate([during, n + np.arange(m) - least])
    return order, overlaps, np.concatenate([np.arange(n) - during, most])


def _plan(logging: Logging, lengths: IntArray, unfinished: NDArray[np.bool_]) -> OpenEnd:
    """Size of the pilot and planned number of trajectories, from the pilot's lengths only."""
    steps, n = logging.planned_steps, lengths.size
    n_envs = next(iter(logging.records.values())).n_envs  # known before the first episode
    if steps is None:
        return OpenEnd(unfinished, _PILOT, None, n_envs)
    count = np.arange(1, n + 1)
    planned = count * (steps / np.maximum(np.cumsum(lengths), 1))
    enough = np.minimum(float(_PILOT), _LARGEST_SHARE * planned)
    # The first size that suffices: whether it does is known once so many have been seen.
    sufficient = np.flatnonzero(count >= np.maximum(_PILOT_FRACTION * planned, enough))
    pilot = int(count[sufficient[0]]) if sufficient.size else n
    return OpenEnd(unfinished, pilot, float(max(planned[pilot - 1], 1.0)), n_envs)


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
