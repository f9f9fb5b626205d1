"""Bets on the pilot, before the grid is laid.

The pilot shows where the grid should be. If it were not bet on, the bound would depend on which
observations happen to be in it. But the grid point s that counts, the first at or above the mean,
is known only after the pilot, and bets must not depend on the future. The way out are bets that
risk the same fraction f of the capital for every s:

    1 + f (x - s) / (s - x_min) = 1 - f + f (x - x_min) / (s - x_min)

decreases in s, whatever x is. So the capital of the point that counts is at most that of the mean
itself, which does not depend on the grid, and whose expectation is at most its start. From the end
of the pilot on, the point is known, and bets may depend on it. Where every grid point has an
indicator of its own, 1{G >= t}, the same holds because the indicators decrease in t.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numba
import numpy as np
from scipy.special import ndtri

from ove_sb3._validation import FloatArray, IntArray

from .hedging import hedge
from .schedule import Schedule, warm_up_epochs

_LARGEST_FRACTION = 0.5  # of the capital at risk in one observation
_CONTROLS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])  # of the regression slope on the weights
_NONE = np.empty(0)


@dataclass(frozen=True)
class WarmUp:
    """Bets on the m observations from `first` to the end of the pilot.

    Attributes
    ----------
    first : int
    values : ndarray, (m,)
        Bet target of each.
    lower_bounds : ndarray, (m,)
        Lower bounds on the bet target.
    fractions : ndarray, (m,)
        Fractions of the capital at risk.
    shifts : ndarray, (m,)
        The hypothesis of a grid point s is that the mean is at most ``s + shift``.
    """

    first: int
    values: FloatArray
    lower_bounds: FloatArray
    fractions: FloatArray
    shifts: FloatArray

    def capital(
        self, grid: FloatArray, level: float, gains: FloatArray | None, ranks: IntArray | None
    ) -> FloatArray:
        """Capital of every grid point at the end of the pilot, from `level` at the start.

        `gains` and `ranks` are those of all observations, see `BetTarget`.
        """
        capital = np.full(grid.size, level)
        own = slice(self.first, self.first + self.values.size)
        _multiply(
            self.values,
            self.lower_bounds,
            self.fractions,
            self.shifts,
            _NONE if gains is None else gains[own],
            np.zeros(0, np.int64) if ranks is None else ranks[own],
            np.ascontiguousarray(grid),
            capital,
        )
        return capital

    def shifted(self, by_epoch: FloatArray, schedule: Schedule) -> WarmUp:
        """The same bets with a shift of the grid for every epoch of the warm-up."""
        cuts = np.append(schedule.epochs[: by_epoch.size], schedule.pilot)
        return replace(self, shifts=np.repeat(by_epoch, np.diff(cuts)))

    @classmethod
    def of_target(
        cls,
        columns: FloatArray,
        coefficients: FloatArray,
        constants: FloatArray,
        lower_bounds: FloatArray,
        expected: FloatArray,
        schedule: Schedule,
        level: float,
    ) -> WarmUp | None:
        """Bets on ``coefficients @ columns + constants`` in the epochs of the pilot.

        `expected` are its means as estimated from the past of the epochs.
        """
        n_epochs = schedule.n_warm_up
        if not n_epochs:
            return None
        cuts = np.append(schedule.epochs[:n_epochs], schedule.pilot)
        x = np.einsum("ei,in->en", coefficients[:n_epochs], columns[:, : schedule.pilot])
        x += constants[:n_epochs, None]
        fractions = [
            fraction_at_risk(
                x[e, : cuts[e]], float(expected[e]), float(lower_bounds[e]), level, schedule.n
            )
            for e in range(n_epochs)
        ]
        sizes = np.diff(cuts)
        values = np.concatenate([x[e, cuts[e] : cuts[e + 1]] for e in range(n_epochs)])
        return cls(
            int(cuts[0]),
            values,
            np.repeat(lower_bounds[:n_epochs], sizes),
            np.repeat(fractions, sizes),
            np.zeros(values.size),
        )

    @classmethod
    def of_values(
        cls,
        weights: FloatArray,
        value: Callable[[int], tuple[FloatArray, float, float]],
        max_weight: float,
        schedule: Schedule,
        level: float,
        *,
        gains: bool = False,
    ) -> WarmUp | None:
        """Bets on ``w (v - low) - b (w - 1) + low`` for values v >= low, chosen per epoch.

        Parameters
        ----------
        weights : ndarray, (n,)
        value : callable
            From the number k of observations so far to v, (pilot,), low, and the largest mean of v
            under the hypothesis that counts; to be computed from the first k observations only.
        max_weight : float
        schedule : Schedule
        level : float
        gains : bool
            Leave out w v, to be added as a gain of every grid point.
        """
        if not schedule.can_warm_up:
            return None
        cuts = np.append(warm_up_epochs(schedule.pilot), schedule.pilot)
        if cuts.size < 2:
            return None
        parts = []
        for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            v, low, mean = value(begin)
            w = weights[: schedule.pilot]
            y = w * (v - low)
            b = _control(w[:begin], y[:begin], mean - low, max_weight, level, schedule.n)
            x = y - b * (w - 1.0) + low
            lower_bound = low - b * (max_weight - 1.0) if b > 0.0 else low
            f = fraction_at_risk(x[:begin], mean, lower_bound, level, schedule.n)
            own = x[begin:end] - (w * v)[begin:end] if gains else x[begin:end]
            parts.append((own, lower_bound, f))
        sizes = np.diff(cuts)
        values = np.concatenate([x for x, _, _ in parts])
        return cls(
            int(cuts[0]),
            values,
            np.repeat([bound for _, bound, _ in parts], sizes),
            np.repeat([f for _, _, f in parts], sizes),
            np.zeros(values.size),
        )


def _control(
    w: FloatArray, y: FloatArray, mean: float, max_weight: float, level: float, n: int
) -> float:
    """Multiple b of ``w - 1`` to subtract from y, by the bound predicted from the past."""
    if not math.isfinite(max_weight) or w.size < 2 or not np.ptp(w) > 0.0:
        return 0.0
    variance = float(w.var(ddof=1))
    if variance == 0.0:  # weights so small that their squares are 0
        return 0.0
    slope = max(float(np.cov(w, y)[0, 1]) / variance, 0.0)
    b = _CONTROLS * slope
    deviations = np.array([np.std(y - one * w, ddof=1) for one in b])
    room = mean + b * (max_weight - 1.0)
    loss = -ndtri(level) * deviations / math.sqrt(n) - math.log(level) * room / n
    return float(b[np.argmin(loss)])


def fraction_at_risk(
    past: FloatArray, mean: float, lower_bound: float, level: float, n: int
) -> float:
    """Fraction of the capital to risk on the next observations.

    Parameters
    ----------
    past : ndarray, (k,)
        The bet target on the observations so far.
    mean : float
        Its estimated mean.
    lower_bound : float
    level : float
        Level of the test.
    n : int
        Number of observations in all.
    """
    room = mean - lower_bound
    if room <= 0.0:
        return 0.0
    # About the estimate, not the sample mean: rare gains may not have been seen yet.
    # Relative to the room, since the squares of tiny weights are 0.
    second_moment = float(np.mean(((past - mean) / room) ** 2)) * (1.0 + 2.0 / math.sqrt(past.size))
    bet, scale = hedge(-math.log(level)), math.sqrt(second_moment * n)
    return bet / scale if bet < _LARGEST_FRACTION * scale else _LARGEST_FRACTION


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"nsz", "contract"})
def _multiply(
    values: FloatArray,
    lower_bounds: FloatArray,
    fractions: FloatArray,
    shifts: FloatArray,
    gains: FloatArray,
    ranks: IntArray,
    grid: FloatArray,
    capital: FloatArray,
) -> None:
    """Multiply the capital of every grid point by its factors."""
    slope = np.empty(grid.shape[0])
    for i in range(values.shape[0]):
        f, lower_bound, shift = fractions[i], lower_bounds[i], shifts[i]
        if (
            i == 0
            or f != fractions[i - 1]
            or lower_bound != lower_bounds[i - 1]
            or shift != shifts[i - 1]
        ):
            for j in range(grid.shape[0]):
                gap = grid[j] + shift - lower_bound
                slope[j] = f / gap
                if gap <= 0.0:
                    slope[j] = 0.0
                    capital[j] = math.inf  # no mean can be below the lower bound
        kept, x = 1.0 - f, max(values[i] - lower_bound, 0.0)
        rank = min(ranks[i], grid.shape[0]) if gains.shape[0] else 0
        gained = max(values[i] + gains[i] - lower_bound, 0.0) if rank else x
        for j in range(rank):
            capital[j] = capital[j] * (kept + slope[j] * gained)
        for j in range(rank, grid.shape[0]):
            capital[j] = capital[j] * (kept + slope[j] * x)
