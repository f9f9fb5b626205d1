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
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numba
import numpy as np

from .validation import FloatArray, IntArray

_LANES = 32  # grid points tested side by side
_RUN = 16  # observations between two looks at the capital
_LARGEST_LOSS = 0.95  # of the stake's capital in one observation
_EPOCH_GROWTH = 1.25


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

    @classmethod
    def plan(cls, n: int, n_blocks: int) -> Schedule:
        """Lay out pilot, epochs and about `n_blocks` blocks for n observations."""
        pilot = math.ceil(max(0.02 * n, min(50.0, n / 8)))
        pilot = min(max(pilot, 1), n - 1)
        n_epochs = 1 + max(0, math.ceil(math.log(n / pilot) / math.log(_EPOCH_GROWTH)))
        epochs = np.unique(np.floor(pilot * _EPOCH_GROWTH ** np.arange(n_epochs)).astype(np.int64))
        epochs = epochs[epochs < n]
        even = np.linspace(pilot, n, min(n_blocks, n - pilot) + 1).astype(np.int64)
        blocks = np.unique(np.concatenate([epochs, even]))
        return cls(n, epochs, blocks, np.searchsorted(epochs, blocks[:-1], side="right") - 1)


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
    return int(
        _last_rejected(
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
