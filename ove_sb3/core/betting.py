"""Lower confidence bounds on a mean by betting: the tester behind all ``"betting"`` intervals.

To test "the mean of x_i given the past is at most s" start with p = a and multiply it by
``1 + lam (x_i - s)`` for every observation. If the stakes ``lam`` are fixed before x_i is seen and
no factor can be negative, p/a is a non-negative supermartingale under the hypothesis, and by
Ville's inequality reaches 1/a with probability at most a. The stakes follow Voracek and Orabona
(2025): chosen so that p would just reach 1 at the end of the data, which makes the bound nearly as
tight as a normal interval of the same level.

The confidence bound comes from a fixed sequence of such tests: values of s on an increasing grid
that is laid before the tested data are looked at. The bound is the last grid point before the first
one that is not rejected. It exceeds the true mean only if the first grid point at or above the true
mean, for which the hypothesis is true, is rejected: probability at most a. (A bisection over s
would need rejection to be monotone in s, which stakes that depend on s do not provide.)

Observations may overlap in time: episodes of several environments that run at once, under a
behavior that learns from all of them. Then the stake on x_i rests on the observations that were
complete when i began, not on those before i in the log. Let x_i(t) be the expectation of x_i given
all that has happened up to time t, if the candidate acted from then on; weighted by the ratios so
far it is a martingale, and so is 1 + lam (x_i(t) - s) for a stake that was fixed when i began.
Given the past, what happens next in one environment is independent of the others: the product over
all of them is a martingale too. Its value when all observations are complete is what p is then; on
the way p leaves out those still running, so that only its last value counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from ove_sb3._validation import FloatArray, IntArray

_LANES = 32  # grid points tested side by side
_RUN = 16  # observations between two looks at the capital
_LARGEST_LOSS = 0.95  # of the stake's capital in one observation
_EPOCH_GROWTH = 1.25
_AIM = 1.25  # what p is to reach where only its last value counts
_ENOUGH = 1.1  # p from which on no more is staked there
_LEAST_LEFT = 0.05  # of the observations, for the size of such stakes


@dataclass(frozen=True)
class Schedule:
    """When the stakes and the quantities they rest on are revised.

    Observations before ``epochs[0]`` are the pilot: looked at, never bet on. What holds in epoch
    k is computed from the observations before ``epochs[k]`` only.
    """

    n: int
    epochs: IntArray
    blocks: IntArray
    """First observation of every block, and n at the end."""
    epoch_of_block: IntArray
    stakes_of: IntArray | None = None
    """Block whose stakes are bet on each observation, -1 for none; None: the one it is in."""

    @classmethod
    def plan(cls, n: int, n_blocks: int, overlaps: IntArray | None = None) -> Schedule:
        """Lay out pilot, epochs and about `n_blocks` blocks for n observations.

        `overlaps` counts the observations that were completed while each was under way.
        """
        pilot = math.ceil(max(0.02 * n, min(50.0, n / 8)))
        pilot = min(max(pilot, 1), n - 1)
        n_epochs = 1 + max(0, math.ceil(math.log(n / pilot) / math.log(_EPOCH_GROWTH)))
        epochs = np.unique(np.floor(pilot * _EPOCH_GROWTH ** np.arange(n_epochs)).astype(np.int64))
        epochs = epochs[epochs < n]
        even = np.linspace(pilot, n, min(n_blocks, n - pilot) + 1).astype(np.int64)
        blocks = np.unique(np.concatenate([epochs, even]))
        epoch_of_block = np.searchsorted(epochs, blocks[:-1], side="right") - 1
        stakes_of = None
        if overlaps is not None and overlaps.any():
            complete = np.maximum(np.arange(n) - overlaps, 0)
            stakes_of = np.searchsorted(blocks[:-1], complete, side="right") - 1
        return cls(n, epochs, blocks, epoch_of_block, stakes_of)


@dataclass(frozen=True)
class Wager:
    """What is bet on: x = coefficients @ columns + constants, epoch by epoch.

    Attributes
    ----------
    columns : ndarray, (k, n)
        The observations, in the order in which they are bet on.
    coefficients : ndarray, (n_epochs, k)
    constants : ndarray, (n_epochs,)
    floors : ndarray, (n_epochs,)
        x is never less; a matter of the stated limits, not of the data.
    spreads : ndarray, (n_epochs,)
        Expected mean square of x, as far as the past tells. Any value is valid.
    reaches : ndarray, (n_epochs,)
        Largest plausible mean of x above its floor; stakes shrink for hypotheses beyond it.
    """

    columns: FloatArray
    coefficients: FloatArray
    constants: FloatArray
    floors: FloatArray
    spreads: FloatArray
    reaches: FloatArray


def last_rejected(wager: Wager, schedule: Schedule, grid: FloatArray, level: float) -> int:
    """Index of the last grid point before the first that is not rejected; -1 if there is none."""
    if schedule.stakes_of is None:
        return int(_last_rejected(*_arguments(wager, schedule, grid, level)))
    accepted = np.flatnonzero(last_capitals(wager, schedule, grid, level) < 1.0)
    return int(accepted[0]) - 1 if accepted.size else len(grid) - 1


def last_capitals(wager: Wager, schedule: Schedule, grid: FloatArray, level: float) -> FloatArray:
    """Capital of every grid point after all observations; 1 if it is rejected for certain."""
    assert schedule.stakes_of is not None
    arguments = (*_arguments(wager, schedule, grid, level), schedule.stakes_of)
    return np.asarray(_last_capitals(*arguments))


def _arguments(wager: Wager, schedule: Schedule, grid: FloatArray, level: float) -> tuple[Any, ...]:
    return (
        wager.columns,
        wager.coefficients,
        wager.constants,
        wager.floors,
        wager.spreads,
        wager.reaches,
        schedule.blocks,
        schedule.epoch_of_block,
        np.ascontiguousarray(grid),
        level,
    )


@numba.njit(cache=True, nogil=True, fastmath={"nsz", "contract"})
def _multiply(
    values: FloatArray, capital: FloatArray, slope: FloatArray, offset: FloatArray
) -> None:
    """Multiply every lane's capital by its factors; four observations a turn become SIMD code."""
    whole = values.shape[0] // 4 * 4
    for i in range(0, whole, 4):
        x0, x1, x2, x3 = values[i], values[i + 1], values[i + 2], values[i + 3]
        for j in range(_LANES):
            first = (offset[j] + slope[j] * x0) * (offset[j] + slope[j] * x1)
            second = (offset[j] + slope[j] * x2) * (offset[j] + slope[j] * x3)
            capital[j] = capital[j] * (first * second)
    for i in range(whole, values.shape[0]):
        x0 = values[i]
        for j in range(_LANES):
            capital[j] = capital[j] * (offset[j] + slope[j] * x0)


@numba.njit(cache=True, nogil=True, fastmath={"nsz", "contract"})
def _last_rejected(
    columns: FloatArray,
    coefficients: FloatArray,
    constants: FloatArray,
    floors: FloatArray,
    spreads: FloatArray,
    reaches: FloatArray,
    blocks: IntArray,
    epoch_of_block: IntArray,
    grid: FloatArray,
    level: float,
) -> int:
    n = columns.shape[1]
    capital = np.empty(_LANES)  # p of every lane
    best = np.empty(_LANES)  # its largest value so far
    slope = np.empty(_LANES)
    offset = np.empty(_LANES)
    values = np.empty(np.max(blocks[1:] - blocks[:-1]))
    for first in range(0, grid.shape[0], _LANES):
        lanes = min(_LANES, grid.shape[0] - first)
        for j in range(_LANES):
            capital[j] = level if j < lanes else 1.0
            best[j] = capital[j]
        for block in range(blocks.shape[0] - 1):
            begin, end = blocks[block], blocks[block + 1]
            epoch = epoch_of_block[block]
            floor = floors[epoch]
            spread = max(spreads[epoch], 1e-300) * (n - begin)
            for j in range(lanes):
                s = grid[first + j]
                gap = s - floor
                if gap <= 0.0:
                    best[j] = 1.0  # no mean can be below the floor
                if best[j] >= 1.0:
                    slope[j], offset[j] = 0.0, 1.0
                    continue
                stake = math.sqrt(-2.0 * math.log(max(capital[j], 1e-300)) / spread)
                if gap > reaches[epoch]:
                    stake *= reaches[epoch] / gap
                stake = min(stake, _LARGEST_LOSS / gap)
                slope[j], offset[j] = stake, 1.0 - stake * s
            for j in range(lanes, _LANES):
                slope[j], offset[j] = 0.0, 1.0
            x = values[: end - begin]
            x[:] = constants[epoch]
            for c in range(columns.shape[0]):
                column, factor = columns[c, begin:end], coefficients[epoch, c]
                for i in range(x.shape[0]):
                    x[i] += factor * column[i]
            for i in range(x.shape[0]):
                x[i] = max(x[i], floor)  # only rounding can be below the floor
            for i in range(0, end - begin, _RUN):
                _multiply(x[i : min(i + _RUN, end - begin)], capital, slope, offset)
                for j in range(_LANES):
                    best[j] = max(best[j], capital[j])
            settled = True
            for j in range(lanes):
                settled &= best[j] >= 1.0
            if settled:
                break
        for j in range(lanes):
            if best[j] < 1.0:
                return int(first + j - 1)
    return int(grid.shape[0] - 1)


@numba.njit(cache=True, nogil=True)
def _last_capitals(
    columns: FloatArray,
    coefficients: FloatArray,
    constants: FloatArray,
    floors: FloatArray,
    spreads: FloatArray,
    reaches: FloatArray,
    blocks: IntArray,
    epoch_of_block: IntArray,
    grid: FloatArray,
    level: float,
    stakes_of: IntArray,
) -> FloatArray:
    """The observations may overlap: each is bet on with the stakes it began with."""
    n, n_points = columns.shape[1], grid.shape[0]
    capital = np.full(n_points, level)
    certain = np.zeros(n_points, np.bool_)
    stakes = np.zeros((blocks.shape[0] - 1, n_points))
    for block in range(blocks.shape[0] - 1):
        begin, end = blocks[block], blocks[block + 1]
        epoch = epoch_of_block[block]
        spread = max(spreads[epoch], 1e-300) * max(n - begin, _LEAST_LEFT * n)
        for j in range(n_points):
            gap = grid[j] - floors[epoch]
            if gap <= 0.0:
                certain[j] = True  # no mean can be below the floor
            if certain[j] or capital[j] >= _ENOUGH:
                continue
            stake = math.sqrt(2.0 * math.log(_AIM / max(capital[j], 1e-300)) / spread)
            if gap > reaches[epoch]:
                stake *= reaches[epoch] / gap
            stakes[block, j] = min(stake, _LARGEST_LOSS / gap)
        for i in range(begin, end):
            source = stakes_of[i]
            if source < 0:
                continue
            epoch = epoch_of_block[source]
            x = constants[epoch]
            for c in range(columns.shape[0]):
                x += coefficients[epoch, c] * columns[c, i]
            x = max(x, floors[epoch])  # only rounding can be below the floor
            for j in range(n_points):
                capital[j] *= 1.0 + stakes[source, j] * (x - grid[j])
    return np.where(certain, 1.0, capital)


def expected_spread(values: FloatArray, level: float, n: int) -> float:
    """Mean square of the centred past values as the stakes will feel it.

    A gain y multiplies the capital by 1 + lam y, so that large gains count for less than their
    square: the mean of y^2 / (1 + lam y), with the lam that follows from it. A little is added for
    what the past has not shown yet.
    """
    size = values.size
    y = values - values.mean()
    square = float(np.mean(y * y))
    spread = square
    if square > 0.0:
        for _ in range(3):
            stake = math.sqrt(-2.0 * math.log(level) / (max(spread, 1e-12 * square) * n))
            stake = min(stake, _LARGEST_LOSS / max(-float(y.min()), 1e-300))
            spread = float(np.mean(y * y / (1.0 + stake * y)))
    return spread * (1.0 + 2.0 / math.sqrt(size))


def grid_around(
    centre: float, unit: float, low: float, high: float, *, fine: float = 20.0, step: float = 0.05
) -> FloatArray:
    """Increasing grid on [low, high]: steps of ``step * unit`` near `centre`, then wider."""
    centre = min(max(centre, low), high)
    unit = max(unit, 1e-9 * (high - low), 1e-300)
    reach = max(high - centre, centre - low) / unit
    near = np.arange(0.0, fine, step)
    n_far = max(0, math.ceil(math.log(max(reach, fine) / fine) / math.log1p(step)))
    far = fine * (1.0 + step) ** np.arange(n_far + 1)
    distances = np.concatenate([near, far]) * unit
    grid = np.concatenate([centre - distances[::-1], centre + distances[1:], [low, high]])
    return np.unique(grid[(grid >= low) & (grid <= high)])
