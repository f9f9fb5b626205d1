"""Schedule of the bets: pilot, epochs and blocks, laid out before the data are seen."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ove_sb3._validation import FloatArray, IntArray

_EPOCH_GROWTH = 1.25
_BLOCK_POWER = 2.0  # blocks are short at the end, where bets change fast
_FIRST = 5  # observations before the first bet of a warm-up
_LEAST_LEFT = 0.05  # of the observations, for the size of such bets
_GRID_N = 1e6  # observations that grids are laid for if nothing is known about their number
_MOST_UNFINISHED = 0.9  # of the observations, in what is planned for
_PILOT, _PILOT_SHARE = 50, 0.05  # observations, where all bet sizes come from the pilot


@dataclass(frozen=True)
class OpenEnd:
    """Plan for observations whose number was not fixed in advance, made from the pilot only.

    Attributes
    ----------
    unfinished : ndarray of bool, (n,)
        Observations that never ended. They count at the lower bound of the bet target.
    pilot : int
        Number of observations that the plan is based on, which are not bet on.
    planned : float or None
        Number of observations expected in all; None if unknown: then, at any time, as many are
        expected to follow as there are so far.
    n_open : int
        Number of observations expected to be under way at the end, known in advance.
    latest : ndarray of int64, (n,), or None
        For observations that never ended: largest number of others that can have been complete
        when each began. None: known exactly.
    least_left : float
        Least number of observations that bets are sized for, as a fraction of those planned.
    then_left : float
        The same as a fraction of those so far, near the planned number and beyond it.
    """

    unfinished: NDArray[np.bool_]
    pilot: int
    planned: float | None
    n_open: int
    latest: IntArray | None = None
    least_left: float = _LEAST_LEFT
    then_left: float = _LEAST_LEFT

    def remaining(self, begin: IntArray) -> FloatArray:
        """Number of observations that bets are sized for, when some are complete."""
        assert self.planned is not None
        late = begin > (1.0 - self.least_left) * self.planned
        left = np.maximum(self.least_left * self.planned, self.then_left * begin)
        return np.where(late, left, self.planned - begin)


@dataclass(frozen=True)
class Schedule:
    """Times at which bet sizes and bet targets are revised.

    The target of epoch k is computed from the observations before ``epochs[k]`` only. Grids are
    laid after the pilot, the observations before ``blocks[0]``. Epochs that begin earlier are those
    of a warm-up, in which the pilot is bet on: see `warm_up`.

    Attributes
    ----------
    n : int
        Number of observations.
    epochs : ndarray of int64, (n_epochs,)
    blocks : ndarray of int64, (n_blocks + 1,)
        First observation of every block, and n at the end.
    epoch_of_block : ndarray of int64, (n_blocks,)
    planned : ndarray, (n_epochs,)
        Planned number of observations, for every epoch.
    remaining : ndarray, (n_blocks,)
        Planned number of observations from the beginning of a block on.
    grid_n : float
        Number of observations that sets the resolution of grids.
    bet_block : ndarray of int64, (n,), or None
        Block whose bet sizes apply to each observation, -1 for none; None: its own block. For one
        that never ended, the first of the blocks that may be meant.
    last_bet_block : ndarray of int64, (n,), or None
        The last of those blocks; None without `bet_block`.
    unfinished : ndarray of bool, (n,), or None
        Observations that never ended.
    unfinished_fraction : ndarray, (n_epochs,), or None
        Planned fraction of such observations, for every epoch.
    n_open : int
        Planned number of such observations.
    constant : bool
        All bet sizes are computed from the pilot, and only the last capital counts.
    """

    n: int
    epochs: IntArray
    blocks: IntArray
    epoch_of_block: IntArray
    planned: FloatArray
    remaining: FloatArray
    grid_n: float
    bet_block: IntArray | None = None
    last_bet_block: IntArray | None = None
    unfinished: NDArray[np.bool_] | None = None
    unfinished_fraction: FloatArray | None = None
    n_open: int = 0
    constant: bool = False

    @property
    def pilot(self) -> int:
        """Number of observations that grids are based on."""
        return int(self.blocks[0])

    def grid_error(self, error: float) -> float:
        """Standard error of a grid's center, or 0 if grids must be small.

        Where observations overlap, all grid points are bet on to the end.
        """
        return error if self.bet_block is None else 0.0

    @property
    def n_warm_up(self) -> int:
        """Number of epochs before the first block."""
        return int(np.searchsorted(self.epochs, self.blocks[0]))

    @property
    def can_warm_up(self) -> bool:
        """Whether the pilot may be bet on: no overlaps, and a number that is fixed in advance."""
        return self.bet_block is None and self.unfinished is None and not self.constant

    @classmethod
    def from_pilot(cls, n: int) -> Schedule:
        """Lay out a pilot, and one epoch and block for all observations that are bet on."""
        pilot = min(max(math.ceil(max(_PILOT_SHARE * n, min(_PILOT, n / 4))), 1), n - 1)
        start, left = np.array([pilot]), np.array([float(n - pilot)])
        blocks, epoch = np.array([pilot, n]), np.zeros(1, np.int64)
        return cls(n, start, blocks, epoch, left, left, float(n), constant=True)

    @classmethod
    def plan(
        cls,
        n: int,
        n_blocks: int,
        overlaps: IntArray | None = None,
        open_end: OpenEnd | None = None,
        *,
        large_pilot: bool = False,
        warm_up: bool = False,
    ) -> Schedule:
        """Lay out pilot, epochs and about `n_blocks` blocks for n observations.

        A small pilot leaves more to bet on, a large one makes better grids. With `warm_up` most of
        the pilot is bet on, too, unless observations overlap or their number is open.
        `overlaps` counts the observations that were completed while each was under way. With
        `open_end` nothing but the number of blocks at the end depends on n.
        """
        if open_end is None:
            pilot = _pilot_size(n, large_pilot=large_pilot)
            left = np.linspace(1.0, 0.0, min(n_blocks, n - pilot) + 1) ** _BLOCK_POWER
            starts = (n - (n - pilot) * left).astype(np.int64)
        else:
            pilot = min(open_end.pilot, n)
            starts = _open_blocks(n, pilot, open_end.planned, n_blocks)
        n_epochs = 1 + max(0, math.ceil(math.log(n / pilot) / math.log(_EPOCH_GROWTH)))
        epochs = np.unique(np.floor(pilot * _EPOCH_GROWTH ** np.arange(n_epochs)).astype(np.int64))
        epochs = np.unique(np.append(pilot, epochs[epochs < n]))
        blocks = np.unique(np.concatenate([epochs, starts]))
        if warm_up and open_end is None and overlaps is None:
            epochs = np.concatenate([warm_up_epochs(pilot), epochs])
        epoch_of_block = np.searchsorted(epochs, blocks[:-1], side="right") - 1
        bet_block = last_bet_block = None
        # The way of betting must not depend on what happens to overlap.
        if overlaps is not None:
            complete = np.maximum(np.arange(n) - overlaps, 0)
            bet_block = last_bet_block = _block_of(blocks, complete)
            if open_end is not None and open_end.latest is not None:
                last_bet_block = _block_of(blocks, open_end.latest)
        begin = blocks[:-1]
        if open_end is None:
            planned = np.full(len(epochs), float(n))
            remaining = (n - begin).astype(np.float64)
            if bet_block is not None:
                remaining = np.maximum(remaining, _LEAST_LEFT * n)
            return cls(
                n,
                epochs,
                blocks,
                epoch_of_block,
                planned,
                remaining,
                float(n),
                bet_block,
                last_bet_block,
            )
        if open_end.planned is None:
            planned = 2.0 * epochs
            remaining = np.maximum(begin, 1.0)
        else:
            planned = np.maximum(open_end.planned, 1.0 * epochs)
            remaining = open_end.remaining(begin)
        return cls(
            n,
            epochs,
            blocks,
            epoch_of_block,
            planned,
            remaining,
            _GRID_N if open_end.planned is None else open_end.planned,
            bet_block,
            last_bet_block,
            open_end.unfinished,
            np.minimum(open_end.n_open / planned, _MOST_UNFINISHED),
            open_end.n_open,
        )


def _pilot_size(n: int, *, large_pilot: bool) -> int:
    scale = 2.0 if large_pilot else 1.0
    size = max(min(0.02 * n, scale * math.sqrt(n)), min(25.0 * scale, n / 8))
    return min(math.ceil(size), n - 1)


def warm_up_epochs(pilot: int) -> IntArray:
    """First observations of the epochs of a warm-up, before the end of the pilot."""
    n_epochs = max(0, math.ceil(math.log(pilot / _FIRST) / math.log(_EPOCH_GROWTH)))
    epochs = np.unique(np.floor(_FIRST * _EPOCH_GROWTH ** np.arange(n_epochs)).astype(np.int64))
    return epochs[epochs < pilot]


def _block_of(blocks: IntArray, complete: IntArray) -> IntArray:
    """Last block that begins when so many observations are complete, -1 in the pilot."""
    return np.searchsorted(blocks[:-1], complete, side="right") - 1


def _open_blocks(n: int, pilot: int, planned: float | None, n_blocks: int) -> IntArray:
    """First observation of every block; only the last entry depends on n."""
    last = pilot if planned is None else max(planned, pilot)
    even = np.linspace(pilot, last, n_blocks + 1)
    growth = 1.0 + 4.0 / n_blocks
    n_later = max(0, math.ceil(math.log(max(n / last, 1.0)) / math.log(growth)))
    later = last * growth ** np.arange(n_later + 1)
    starts = np.unique(np.concatenate([even, later]).astype(np.int64))
    return np.append(starts[starts < n], n)
