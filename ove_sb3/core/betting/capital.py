"""Capital process: a test of "the mean is at most s" by betting, and the bounds it gives.

To test "the mean of x_i given the past is at most s" start with p = a and multiply it by
``1 + lam (x_i - s)`` for every observation. If the bet sizes ``lam`` are fixed before x_i is seen
and no factor can be negative, p/a is a non-negative supermartingale under the hypothesis, and by
Ville's inequality reaches 1/a with probability at most a. As in Voracek and Orabona (2025), the
bet sizes aim at p = 1 at the end of the data, which makes the bound nearly as tight as a normal
interval of the same level. Unless observations are skewed by rare gains, their number is unknown,
or each hypothesis has its own indicator, they are those of `hedging`, which depend less on the
order.

The confidence bound comes from a fixed sequence of such tests: values of s on an increasing grid
that is laid after a pilot (see `warm_up` for bets on the pilot itself). The bound is the last grid
point before the first one that is not rejected. It exceeds the true mean only if the first grid
point at or above the true mean, for which the hypothesis is true, is rejected: probability at most
a. (A bisection over s would need rejection to be monotone in s, which bet sizes that depend on s do
not provide.)

Observations may overlap in time: episodes of several environments that run concurrently, under a
behavior that learns from all of them. Then the bet on x_i uses the observations that were complete
when i began, not those before i in the log. Let x_i(t) be the expectation of x_i given
all that has happened up to time t, if the candidate acted from then on; weighted by the ratios so
far it is a martingale, and so is 1 + lam (x_i(t) - s) for a bet size fixed when i began.
Given the past, the next steps of different environments are independent: the product over all of
them is a martingale too. Its value when all observations are complete is p/a. Before that, p leaves
out those still running, so only its last value counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from ove_sb3._validation import FloatArray, IntArray

from .bet_sizes import LANES, bet_sizes, limit_bets
from .constant import last_rejected_constant
from .moments import LARGEST_LOSS
from .schedule import Schedule
from .warm_up import WarmUp

_RUN = 16  # bets between two checks of the capital
_MOST_TOGETHER = 32  # observations in one bet
_LITTLE = 0.1  # share of the capital at risk in a bet on several observations
_AIM = 1.25  # aim for p where only its last value counts
_DONE = math.log(_AIM / 1.1)  # of log p is missing when betting stops there
# No point recovers from so little capital. Without it, which is valid, it does not go on as a
# subnormal number, which takes ten times as long to multiply.
_LOST = 1e-300
_NEAR = 20.0  # of a grid's center, in units
_PLAUSIBLE = 6.0  # standard errors of the center: a small pilot underestimates them
_NO_GAINS, _NO_RANKS, _NO_SCALES = np.empty(0), np.empty(0, np.int64), np.empty((0, 0))


@dataclass(frozen=True)
class BetTarget:
    """The bet target, x = coefficients @ columns + constants, epoch by epoch.

    Attributes
    ----------
    columns : ndarray, (k, n)
        The observations, in the order in which they are bet on.
    coefficients : ndarray, (n_epochs, k)
    constants : ndarray, (n_epochs,)
    lower_bounds : ndarray, (n_epochs,)
        Lower bounds on x implied by the stated limits, not by the data.
    second_moments : ndarray, (n_epochs,)
        Predicted mean square of x, from the past. Any value is valid.
    max_excess : ndarray, (n_epochs,)
        Largest plausible mean of x above its lower bound; bets shrink for hypotheses beyond it.
    gain_sizes : ndarray, (n_epochs,), or None
        Predicted third moment of x over its second: large if x has rare, large gains.
    warm_up : WarmUp or None
        Bets on the pilot.
    gains : ndarray, (n,), or None
        Non-negative amounts that x gains at the first ``ranks[i]`` grid points, so that every grid
        point tests a variable of its own, such as the indicator of a threshold.
    ranks : ndarray of int64, (n,), or None
        Number of grid points at which each observation has its gain.
    scales : ndarray, (n_epochs, n_points), or None
        Factors of the second moments for every grid point, whose variables differ.
    """

    columns: FloatArray
    coefficients: FloatArray
    constants: FloatArray
    lower_bounds: FloatArray
    second_moments: FloatArray
    max_excess: FloatArray
    gain_sizes: FloatArray | None = None
    warm_up: WarmUp | None = None
    gains: FloatArray | None = None
    ranks: IntArray | None = None
    scales: FloatArray | None = None


def last_rejected(target: BetTarget, schedule: Schedule, grid: FloatArray, level: float) -> int:
    """Index of the last grid point before the first that is not rejected; -1 if there is none."""
    if not schedule.remaining.size:
        return -1  # nothing but the pilot
    if schedule.constant:
        return _last_rejected_from_pilot(target, schedule, grid, level)
    if schedule.bet_block is None:
        start = np.full(grid.size, level)
        if target.warm_up is not None:
            start = target.warm_up.capital(grid, level, target.gains, target.ranks)
        sizes = np.zeros(len(schedule.epochs)) if target.gain_sizes is None else target.gain_sizes
        scales = _NO_SCALES if target.scales is None else target.scales
        arguments = (*_arguments(target, schedule, grid, level), start, sizes, scales)
        return int(_last_rejected(*arguments))
    accepted = np.flatnonzero(~(last_capitals(target, schedule, grid, level) >= 1.0))
    return int(accepted[0]) - 1 if accepted.size else len(grid) - 1


def _last_rejected_from_pilot(
    target: BetTarget, schedule: Schedule, grid: FloatArray, level: float
) -> int:
    return last_rejected_constant(
        np.einsum("i,in->n", target.coefficients[0], target.columns) + target.constants[0],
        int(schedule.epochs[0]),
        float(target.lower_bounds[0]),
        float(target.second_moments[0]),
        grid,
        level,
        _NO_GAINS if target.gains is None else target.gains,
        _NO_RANKS if target.ranks is None else target.ranks,
    )


def last_capitals(
    target: BetTarget, schedule: Schedule, grid: FloatArray, level: float
) -> FloatArray:
    """Capital of every grid point after all observations; 1 if it is rejected for certain."""
    arguments = (
        *_arguments(target, schedule, grid, level),
        schedule.bet_block,
        schedule.last_bet_block,
        schedule.planned,
        schedule.n_open,
    )
    return np.asarray(_last_capitals(*arguments))


def _arguments(
    target: BetTarget, schedule: Schedule, grid: FloatArray, level: float
) -> tuple[Any, ...]:
    return (
        target.columns,
        target.coefficients,
        target.constants,
        target.lower_bounds,
        target.second_moments,
        np.maximum(target.max_excess, 0.0),  # a negative one would bet the wrong way
        schedule.blocks,
        schedule.epoch_of_block,
        schedule.remaining,
        np.zeros(0, np.bool_) if schedule.unfinished is None else schedule.unfinished,
        np.ascontiguousarray(grid),
        level,
        _NO_GAINS if target.gains is None else target.gains,
        _NO_RANKS if target.ranks is None else target.ranks,
    )


@numba.njit(cache=True, nogil=True, fastmath={"nsz", "contract"})
def _multiply(
    values: FloatArray, capital: FloatArray, slope: FloatArray, offset: FloatArray
) -> None:
    """Multiply every lane's capital by its factors; four observations a turn become SIMD code."""
    whole = values.shape[0] // 4 * 4
    for i in range(0, whole, 4):
        x0, x1, x2, x3 = values[i], values[i + 1], values[i + 2], values[i + 3]
        for j in range(LANES):
            first = (offset[j] + slope[j] * x0) * (offset[j] + slope[j] * x1)
            second = (offset[j] + slope[j] * x2) * (offset[j] + slope[j] * x3)
            capital[j] = capital[j] * (first * second)
    for i in range(whole, values.shape[0]):
        x0 = values[i]
        for j in range(LANES):
            capital[j] = capital[j] * (offset[j] + slope[j] * x0)


@numba.njit(cache=True, nogil=True)
def _observations_per_bet(risk: float) -> int:
    """Number of observations to bet on together, if one puts that share of the capital at risk.

    A bet on their sum, 1 + lam sum(x_i - s), is as valid as a bet on each, and takes less time.
    While little is at risk it is also as good: the two differ by products of different terms, whose
    mean is about 0.
    """
    return min(max(int(_LITTLE / max(risk, 1e-300)), 1), _MOST_TOGETHER)


@numba.njit(cache=True, nogil=True)
def _bet(
    values: FloatArray,
    capital: FloatArray,
    best: FloatArray,
    slope: FloatArray,
    offset: FloatArray,
) -> None:
    """Multiply every lane's capital by its factors, and keep its largest value."""
    for i in range(0, values.shape[0], _RUN):
        _multiply(values[i : i + _RUN], capital, slope, offset)
        for j in range(LANES):
            best[j] = max(best[j], capital[j])


@numba.njit(cache=True, nogil=True, fastmath={"nsz", "contract"})
def _multiply_ranked(
    values: FloatArray,
    gains: FloatArray,
    ranks: IntArray,
    first: int,
    capital: FloatArray,
    slope: FloatArray,
    offset: FloatArray,
) -> None:
    """Multiply the capital of the lanes from grid point `first` on, with gains up to their rank."""
    for i in range(values.shape[0]):
        x, gain, rank = values[i], gains[i], ranks[i] - first
        for j in range(LANES):
            capital[j] = capital[j] * (offset[j] + slope[j] * (x + (gain if j < rank else 0.0)))


@numba.njit(cache=True, nogil=True, fastmath={"nsz", "contract"})
def _last_rejected(
    columns: FloatArray,
    coefficients: FloatArray,
    constants: FloatArray,
    lower_bounds: FloatArray,
    second_moments: FloatArray,
    max_excess: FloatArray,
    blocks: IntArray,
    epoch_of_block: IntArray,
    remaining: FloatArray,
    unfinished: NDArray[np.bool_],
    grid: FloatArray,
    level: float,
    gains: FloatArray,
    ranks: IntArray,
    start: FloatArray,
    gain_sizes: FloatArray,
    scales: FloatArray,
) -> int:
    hedging = not (unfinished.shape[0] or gains.shape[0])
    points, gaps, shrinks, most = np.empty((4, LANES))
    capital, best = np.empty((2, LANES))  # p of every lane, and its largest value so far
    slope, offset, missing, hedged = np.empty((4, LANES))
    own_scales = np.ones(LANES if scales.shape[0] else 0)
    values = np.empty(np.max(blocks[1:] - blocks[:-1]))
    for first in range(0, grid.shape[0], LANES):
        lanes = min(LANES, grid.shape[0] - first)
        for j in range(LANES):  # lanes beyond the grid are done
            points[j] = grid[min(first + j, grid.shape[0] - 1)]
            capital[j] = start[first + j] if j < lanes else 1.0
            best[j] = capital[j]
        epoch = -1
        for block in range(blocks.shape[0] - 1):
            begin, end = blocks[block], blocks[block + 1]
            if epoch != epoch_of_block[block]:
                epoch = epoch_of_block[block]
                lower_bound = lower_bounds[epoch]
                for j in range(LANES):
                    gaps[j] = points[j] - lower_bound
                    if gaps[j] <= 0.0:
                        best[j] = 1.0  # no mean can be below the lower bound
                limit_bets(gaps, max_excess[epoch], shrinks, most)
                for j in range(lanes if scales.shape[0] else 0):
                    own_scales[j] = scales[epoch, first + j]
            bet_sizes(
                capital,
                max(second_moments[epoch], 1e-300) * remaining[block],
                own_scales,
                gain_sizes[epoch] if hedging else math.inf,
                shrinks,
                most,
                missing,
                hedged,
                slope,
            )
            largest_risk = 0.0
            for j in range(LANES):
                slope[j] = 0.0 if best[j] >= 1.0 else slope[j]
                offset[j] = 1.0 - slope[j] * points[j]
                largest_risk = max(largest_risk, slope[j] * gaps[j])
            x = values[: end - begin]
            x[:] = constants[epoch]
            for c in range(columns.shape[0]):
                column, factor = columns[c, begin:end], coefficients[epoch, c]
                for i in range(x.shape[0]):
                    x[i] += factor * column[i]
            for i in range(x.shape[0]):
                x[i] = max(x[i], lower_bound)  # only rounding can be below the lower bound
            if unfinished.shape[0]:
                for i in range(x.shape[0]):
                    if unfinished[begin + i]:
                        x[i] = lower_bound
            if gains.shape[0]:
                for i in range(0, end - begin, _RUN):
                    run = slice(begin + i, min(begin + i + _RUN, end))
                    own = x[i : i + _RUN]
                    _multiply_ranked(own, gains[run], ranks[run], first, capital, slope, offset)
                    for j in range(LANES):
                        best[j] = max(best[j], capital[j])
            else:
                # Where the end is open, it must not decide which observations are bet on together.
                together = 1 if unfinished.shape[0] else _observations_per_bet(largest_risk)
                n_bets = x.shape[0] // together
                if together > 1:
                    for k in range(n_bets):
                        x[k] = np.sum(x[k * together : (k + 1) * together])
                    for j in range(LANES):
                        offset[j] = 1.0 - together * slope[j] * points[j]
                _bet(x[:n_bets], capital, best, slope, offset)
                if n_bets * together < x.shape[0]:
                    for j in range(LANES):
                        offset[j] = 1.0 - slope[j] * points[j]
                    _bet(x[n_bets * together :], capital, best, slope, offset)
            settled = True
            for j in range(lanes):
                settled &= best[j] >= 1.0
            if settled:
                break
        for j in range(lanes):
            if not best[j] >= 1.0:  # also if it is NaN
                return int(first + j - 1)
    return int(grid.shape[0] - 1)


@numba.njit(cache=True, nogil=True)
def _last_capitals(
    columns: FloatArray,
    coefficients: FloatArray,
    constants: FloatArray,
    lower_bounds: FloatArray,
    second_moments: FloatArray,
    max_excess: FloatArray,
    blocks: IntArray,
    epoch_of_block: IntArray,
    remaining: FloatArray,
    unfinished: NDArray[np.bool_],
    grid: FloatArray,
    level: float,
    gains: FloatArray,
    ranks: IntArray,
    bet_block: IntArray,
    last_bet_block: IntArray,
    planned: FloatArray,
    n_open: int,
) -> FloatArray:
    """Observations may overlap: each is bet on with the bet sizes fixed when it began.

    One that never ended counts at the lower bound of its bet target. If it is not known exactly
    when it began, the largest loss over the bets that may have been its own counts. Bets aim at a
    capital that can bear the loss of `n_open` such observations.
    """
    n_points = grid.shape[0]
    capital = np.full(n_points, level)
    certain = np.zeros(n_points, np.bool_)
    bets = np.zeros((blocks.shape[0] - 1, n_points))
    needed = math.log(_AIM / level)
    shrinks, reserves, factors = np.ones(n_points), np.zeros(n_points), np.ones(n_points)
    of_epoch = first = last = -1
    for block in range(blocks.shape[0] - 1):
        epoch = epoch_of_block[block]
        second_moment = max(second_moments[epoch], 1e-300)
        lower_bound = lower_bounds[epoch]
        if epoch != of_epoch:
            usual = math.sqrt(2.0 * needed / (second_moment * planned[epoch]))
            _plan_losses(grid, lower_bound, max_excess[epoch], usual, n_open, shrinks, reserves)
            of_epoch = epoch
        for j in range(n_points):
            gap = grid[j] - lower_bound
            if gap <= 0.0:
                certain[j] = True  # no mean can be below the lower bound
            if certain[j]:
                continue
            if capital[j] < _LOST:
                capital[j] = 0.0
                continue
            missing = math.log(_AIM / capital[j]) + reserves[j]
            if missing <= _DONE:
                continue
            missing *= needed / (needed + reserves[j])
            bet = shrinks[j] * math.sqrt(2.0 * missing / (second_moment * remaining[block]))
            bets[block, j] = min(bet, LARGEST_LOSS / gap)
        for i in range(blocks[block], blocks[block + 1]):
            source = bet_block[i]
            if unfinished.shape[0] and unfinished[i]:
                if (source, last_bet_block[i]) != (first, last):
                    first, last = source, last_bet_block[i]
                    _largest_losses(grid, lower_bounds, epoch_of_block, bets, first, last, factors)
                capital *= factors
                continue
            if source < 0:
                continue
            of_bet = epoch_of_block[source]
            x = constants[of_bet]
            for c in range(columns.shape[0]):
                x += coefficients[of_bet, c] * columns[c, i]
            x = max(x, lower_bounds[of_bet])  # only rounding can be below the lower bound
            gain, rank = (gains[i], ranks[i]) if gains.shape[0] else (0.0, 0)
            for j in range(rank):
                capital[j] *= 1.0 + bets[source, j] * (x + gain - grid[j])
            for j in range(rank, n_points):
                capital[j] *= 1.0 + bets[source, j] * (x - grid[j])
    return np.where(certain, 1.0, capital)


@numba.njit(cache=True, nogil=True)
def _plan_losses(
    grid: FloatArray,
    lower_bound: float,
    max_excess: float,
    usual: float,
    n_open: int,
    shrinks: FloatArray,
    reserves: FloatArray,
) -> None:
    """Factors of the bet sizes, and the log of what `n_open` observations can lose in an epoch."""
    for j in range(grid.shape[0]):
        gap = grid[j] - lower_bound
        shrinks[j] = max_excess / gap if gap > max_excess else 1.0
        loss = min(max(shrinks[j] * usual * gap, 0.0), LARGEST_LOSS)
        reserves[j] = -n_open * math.log1p(-loss)


@numba.njit(cache=True, nogil=True)
def _largest_losses(
    grid: FloatArray,
    lower_bounds: FloatArray,
    epoch_of_block: IntArray,
    bets: FloatArray,
    first: int,
    last: int,
    factors: FloatArray,
) -> None:
    """Least factors of the capital over the bets of some blocks, at their lower bounds."""
    factors[:] = 1.0
    for block in range(max(first, 0), last + 1):
        lower_bound = lower_bounds[epoch_of_block[block]]
        for j in range(grid.shape[0]):
            factors[j] = min(factors[j], 1.0 - bets[block, j] * (grid[j] - lower_bound))


def whole_lanes(n_points: int) -> int:
    """Number of grid points to keep if at least so many are needed.

    Points that are tested side by side are bet on together, so a grid that is cut where other
    results make more points superfluous must keep whole groups of them.
    """
    return -(-n_points // LANES) * LANES


def grid_around(
    center: float,
    unit: float,
    low: float,
    high: float,
    *,
    error: float = 0.0,
    step: float = 0.05,
) -> FloatArray:
    """Increasing grid on [low, high]: steps of ``step * unit`` near `center`, then wider.

    Parameters
    ----------
    center, unit, low, high : float
    error : float
        Standard error of the center. Steps grow slowly while the bound may plausibly be there.
    step : float
        Steps near the center, in units.
    """
    center = min(max(center, low), high)
    unit = max(unit, 1e-9 * (high - low), 1e-300)
    farthest = max(high - center, center - low) / unit
    plausible = min(max(_NEAR, _PLAUSIBLE * error / unit), max(farthest, _NEAR))
    near = np.arange(0.0, _NEAR, step)
    middle = _geometric(_NEAR, plausible, step / _NEAR)
    far = _geometric(plausible, farthest, step)
    distances = np.concatenate([near, middle[:-1], far]) * unit
    grid = np.concatenate([center - distances[::-1], center + distances[1:], [low, high]])
    return np.unique(grid[(grid >= low) & (grid <= high)])


def _geometric(first: float, last: float, growth: float) -> FloatArray:
    """Geometric sequence from `first` to `last` or beyond."""
    n_steps = max(0, math.ceil(math.log(max(last, first) / first) / math.log1p(growth)))
    return np.asarray(first * (1.0 + growth) ** np.arange(n_steps + 1))
