"""Guaranteed bounds on the mean and the variance of the return, by betting.

Both bounds on the variance rest on ``Var = min over m of E[rho (G - m)^2]``, so that neither needs
an interval for the mean: for an upper bound any m fixed beforehand will do, for a lower bound the
least over a grid of centres, one of which is near the mean.

All per-trajectory quantities are of the form ``z = a u0 + b u1 + c u2`` with three columns per form
of importance sampling, measured from a reference m0:

- full trajectory: w (G - m0)^2, w (G - m0), w;
- coupled or per decision: CDIS and PDIS of rewards less m0/c, and their weights B/c^2 or A/c.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import ndtri

from ove_sb3._validation import FloatArray, IntArray

from .betting import Schedule, Wager, expected_spread, grid_around, last_rejected
from .limits import Limits
from .statistics import TrajectoryStatistics

_PAST_CAP = 1 << 14  # past observations looked at for the stakes
_MANY_BLOCKS = 400  # revisions of the stakes; more are tighter and slower
_FEW_BLOCKS = 100  # for the lower bound, which is tested at many centres
_CENTRES = np.array([0.0, 0.03, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0])  # from the mean to mid-range
_CONTROLS = np.array([0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0])  # from regression slope to bound
_ROUNDING = 1e-15
_SLOPE_SHARES = np.array([0.0, 0.25, 0.5, 0.75, 0.9, 1.0])
_CENTRES_PER_ERROR = 5  # half-spacings of the lower bound's centres per standard error of the pilot
_FAR = 4.0  # a centre is far if its x(m) exceeds that of the nearest by so many grid units
_FAR_STRIDE = 16


@dataclass(frozen=True)
class _Form:
    """One form of importance sampling: columns (3, n), limits relative to the reference."""

    columns: FloatArray
    low: float
    high: float
    max_weight: float


@dataclass(frozen=True)
class _Targets:
    """Quantities z <= bound * weight to bet against, for every epoch and choice of centre.

    ``constant - z`` has the mean `expected`. Shapes: z (epochs, choices, 3), others without the 3.
    """

    z: FloatArray
    bound: FloatArray
    constant: FloatArray
    expected: FloatArray


class _Past:
    """Moments of the observations before every epoch: sizes (e,), means (e, 3), covariances."""

    def __init__(self, columns: FloatArray, schedule: Schedule) -> None:
        cuts = np.concatenate([[0], schedule.epochs])
        parts = [columns[:, a:b] for a, b in pairwise(cuts)]
        self.sizes = schedule.epochs.astype(np.float64)
        self.means = np.cumsum([part.sum(axis=1) for part in parts], axis=0) / self.sizes[:, None]
        # einsum, not matmul: threads of the linear algebra library do not pay on three columns
        products = np.cumsum([np.einsum("in,jn->ij", part, part) for part in parts], axis=0)
        outer = self.means[:, :, None] * self.means[:, None, :]
        self.covariances = products / self.sizes[:, None, None] - outer

    def self_normalised(self) -> tuple[FloatArray, FloatArray]:
        """Self-normalised mean and variance, (e,), from columns (u0, u1, u2)."""
        second, first, weight = self.means.T
        weight = np.where(weight > 0.0, weight, 1.0)
        mean = first / weight
        return mean, np.maximum(second / weight - mean**2, 0.0)

    def squares(self, coefficients: FloatArray) -> FloatArray:
        """Variances of linear combinations, (e, ..., 3) -> (e, ...)."""
        squares = np.einsum("e...i,eij,e...j->e...", coefficients, self.covariances, coefficients)
        return np.asarray(np.maximum(squares, 0.0))

    def slopes(self, z: FloatArray) -> FloatArray:
        """Regression slopes on the weight, (e, ..., 3) -> (e, ...)."""
        covariance = np.einsum("e...i,ei->e...", z, self.covariances[:, :, 2])
        variance = self.covariances[:, 2, 2].reshape(-1, *[1] * (z.ndim - 2))
        positive = variance > 0.0
        return np.asarray(np.where(positive, covariance / np.where(positive, variance, 1.0), 0.0))


def variance_upper(
    stats: TrajectoryStatistics,
    limits: Limits,
    level: float,
    order: IntArray,
    overlaps: IntArray | None = None,
) -> float:
    """Upper confidence bound on the variance at the given level."""
    schedule = Schedule.plan(stats.n_trajectories, _MANY_BLOCKS, overlaps)
    reference = _reference(stats, limits, order, schedule)
    forms = _variance_forms(stats, limits, order, reference)

    def targets(form: _Form, mean: FloatArray, variance: FloatArray) -> _Targets:
        middle = (form.low + form.high) / 2
        d = mean[:, None] + _CENTRES * (middle - mean[:, None])
        bound = np.maximum((form.high - d) ** 2, (form.low - d) ** 2)
        expected = -(variance[:, None] + (mean[:, None] - d) ** 2)
        return _Targets(_square_about(d), bound, np.zeros_like(d), expected)

    wager, centre, unit = _bet_against(forms, schedule, level, targets)
    grid = grid_around(centre, unit, -limits.max_variance, 0.0)
    index = last_rejected(wager, schedule, grid, level)
    return float(-grid[index]) if index >= 0 else limits.max_variance


def mean_lower(
    stats: TrajectoryStatistics,
    limits: Limits,
    level: float,
    order: IntArray,
    overlaps: IntArray | None = None,
    *,
    sign: float = 1.0,
) -> float:
    """Lower confidence bound on the mean of ``sign * G`` at the given level."""
    schedule = Schedule.plan(stats.n_trajectories, _MANY_BLOCKS, overlaps)
    reference = _reference(stats, limits, order, schedule)
    forms = _mean_forms(stats, limits, order, reference, sign)

    def targets(form: _Form, mean: FloatArray, _variance: FloatArray) -> _Targets:
        d = np.clip(mean, form.low, form.high)[:, None]
        z = np.stack([np.zeros_like(d), -np.ones_like(d), d], axis=-1)
        return _Targets(z, d - form.low, d, mean[:, None])

    wager, centre, unit = _bet_against(forms, schedule, level, targets)
    low, high = sorted(sign * (end - reference) for end in limits.return_range)
    grid = grid_around(centre, unit, low, high)
    index = last_rejected(wager, schedule, grid, level)
    return float(sign * reference + (grid[index] if index >= 0 else low))


def variance_lower(
    stats: TrajectoryStatistics,
    limits: Limits,
    level: float,
    order: IntArray,
    overlaps: IntArray | None = None,
) -> float:
    """Lower confidence bound on the variance at the given level.

    Bets on x(m) = w (G - m)^2 - b (w - 1). If the true mean is within h of the centre m, x(m) has a
    mean of at most Var + h^2, so that rejecting s + h^2 rejects a variance of s. The least bound
    over all centres is that of the right one or less.
    """
    schedule = Schedule.plan(stats.n_trajectories, _FEW_BLOCKS, overlaps)
    reference = _reference(stats, limits, order, schedule)
    form = _whole_form(stats, limits, order, reference)
    past = _Past(form.columns, schedule)
    means, variances = past.self_normalised()
    controls, floors = _lower_controls(form, past, schedule.n, level)
    central = _square_about(means) - controls[:, None] * [0.0, 0.0, 1.0]
    squares = past.squares(central)
    expected = np.array(
        [
            expected_spread(
                np.einsum("i,in->n", x, _recent(form.columns, schedule, epoch)), level, schedule.n
            )
            for epoch, x in enumerate(central)
        ]
    )
    # The tail matters to the stakes, but differs little from centre to centre.
    shapes = np.where(squares > 0.0, expected / np.where(squares > 0.0, squares, 1.0), 1.0)

    def wager(d: float) -> Wager:
        z = _square_about(np.full_like(means, d))
        x = z - controls[:, None] * [0.0, 0.0, 1.0]
        error = np.sqrt(past.squares(z) / past.sizes)
        reaches = np.einsum("ei,ei->e", z, past.means) + error - floors
        return Wager(form.columns, x, controls, floors, past.squares(x) * shapes, reaches)

    mean, variance = float(means[0]), float(variances[0])
    error = max(
        _mean_error(form.columns[:, : schedule.epochs[0]], mean), 1e-9 * (form.high - form.low)
    )
    unit = math.sqrt(expected[0] / schedule.n)
    grid = grid_around(variance, unit, 0.0, limits.max_variance)
    index = len(grid) - 1
    for d, half_spacing in _centres(mean, error, form.low, form.high):
        # Grids are fixed beforehand, a coarser one for a far centre; how far up to go is free.
        stride = 1 if (d - mean) ** 2 <= _FAR * unit else _FAR_STRIDE
        points = np.arange(0, min(index + stride, len(grid)), stride)
        rejected = last_rejected(wager(d), schedule, grid[points] + half_spacing**2, level)
        if rejected < 0:
            return 0.0
        index = min(index, int(points[rejected]))
    return float(grid[index])


def _lower_controls(
    form: _Form, past: _Past, n: int, level: float
) -> tuple[FloatArray, FloatArray]:
    """Multiples b of (w - 1) to subtract, and the floors of x(m) they imply, (e,).

    Without a bound on the weights there is no floor for b > 0.
    """
    means, variances = past.self_normalised()
    if not math.isfinite(form.max_weight):
        return np.zeros_like(means), np.zeros_like(means)
    z = _square_about(means)
    b = np.maximum(past.slopes(z), 0.0)[:, None] * _SLOPE_SHARES
    floors = -b * (form.max_weight - 1.0)
    x = z[:, None, :] - b[:, :, None] * [0.0, 0.0, 1.0]
    loss = -ndtri(level) * np.sqrt(past.squares(x) / n)
    loss = loss - math.log(level) * (variances[:, None] - floors) / n
    best = loss.argmin(axis=1)[:, None]
    return np.take_along_axis(b, best, 1)[:, 0], np.take_along_axis(floors, best, 1)[:, 0]


def _mean_error(columns: FloatArray, mean: float) -> float:
    """Standard error of the self-normalised mean."""
    weight = columns[2].sum()
    return float(np.linalg.norm(columns[1] - mean * columns[2]) / weight) if weight else 0.0


def _centres(mean: float, error: float, low: float, high: float) -> list[tuple[float, float]]:
    """Centres and half-spacings that cover [low, high], dense near `mean`, nearest first."""
    mean = min(max(mean, low), high)
    centres = [(mean, error / _CENTRES_PER_ERROR)]
    for sign, room in ((1.0, high - mean), (-1.0, mean - low)):
        edge = error / _CENTRES_PER_ERROR  # how far from the mean the centres reach so far
        while edge < room:
            half = max(edge, error) / _CENTRES_PER_ERROR
            centres.append((mean + sign * (edge + half), half))
            edge += 2 * half
    return sorted(centres, key=lambda centre: abs(centre[0] - mean))


def _square_about(d: FloatArray) -> FloatArray:
    """Coefficients of z = w (G - d)^2 over the columns, (...,) -> (..., 3)."""
    return np.stack([np.ones_like(d), -2 * d, d**2], axis=-1)


def _bet_against(
    forms: list[_Form],
    schedule: Schedule,
    level: float,
    targets: Callable[[_Form, FloatArray, FloatArray], _Targets],
) -> tuple[Wager, float, float]:
    """Build the wager x = q (weight - 1) - z + constant, choosing form, target and q per epoch.

    As z <= bound * weight, x >= constant - q - (bound - q) max_weight for every q <= bound. The
    choice is by predicted bound, from the past of the epoch only. Also returns where the pilot
    expects the mean of x and the scale of its bound.
    """
    columns = np.concatenate([form.columns for form in forms])
    n, n_epochs = schedule.n, len(schedule.epochs)
    best = np.full(n_epochs, -np.inf)
    coefficients = np.zeros((n_epochs, columns.shape[0]))
    constants, floors, expected = np.zeros(n_epochs), np.zeros(n_epochs), np.zeros(n_epochs)
    for k, form in enumerate(forms):
        past = _Past(form.columns, schedule)
        target = targets(form, *past.self_normalised())
        bound = target.bound[:, :, None]
        if math.isfinite(form.max_weight):
            slope = np.minimum(past.slopes(target.z), target.bound)[:, :, None]
            short = (1.0 - _CONTROLS) * (bound - slope)  # of the bound; exactly 0 at the last
            q = bound - short
            # Rounding of q counts as often as the largest weight says, which can be 1e20 times.
            rounding = np.where(short > 0.0, _ROUNDING * (np.abs(bound) + np.abs(slope)), 0.0)
            floor = target.constant[:, :, None] - q - (short + rounding) * form.max_weight
        else:
            q = bound
            floor = target.constant[:, :, None] - q
        x = q[..., None] * [0.0, 0.0, 1.0] - target.z[:, :, None, :]
        loss = -ndtri(level) * np.sqrt(past.squares(x) / n)
        loss = loss - math.log(level) * (target.expected[:, :, None] - floor) / n
        predicted = (target.expected[:, :, None] - loss).reshape(n_epochs, -1)
        choice = predicted.argmax(axis=1)
        for epoch in range(n_epochs):
            if predicted[epoch, choice[epoch]] > best[epoch]:
                best[epoch] = predicted[epoch, choice[epoch]]
                at = np.unravel_index(choice[epoch], q.shape[1:])
                coefficients[epoch] = 0.0
                coefficients[epoch, 3 * k : 3 * k + 3] = x[epoch][at]
                constants[epoch] = target.constant[epoch, at[0]] - q[epoch][at]
                floors[epoch] = floor[epoch][at]
                expected[epoch] = target.expected[epoch, at[0]]
    spreads = np.array(
        [
            expected_spread(np.einsum("i,in->n", x, _recent(columns, schedule, epoch)), level, n)
            for epoch, x in enumerate(coefficients)
        ]
    )
    reaches = np.full(n_epochs, np.inf)
    wager = Wager(columns, coefficients, constants, floors, spreads, reaches)
    return wager, float(expected[0]), math.sqrt(spreads[0] / n)


def _recent(columns: FloatArray, schedule: Schedule, epoch: int) -> FloatArray:
    end = int(schedule.epochs[epoch])
    return columns[:, max(0, end - _PAST_CAP) : end]


def _reference(
    stats: TrajectoryStatistics, limits: Limits, order: IntArray, schedule: Schedule
) -> float:
    """Self-normalised mean of the pilot: the origin from which returns are measured."""
    pilot = order[: schedule.epochs[0]]
    weights = stats.weights[pilot]
    if weights.any():
        return float(np.sum(weights * stats.returns[pilot]) / weights.sum())
    return sum(limits.return_range) / 2


def _whole_form(
    stats: TrajectoryStatistics, limits: Limits, order: IntArray, reference: float
) -> _Form:
    w = stats.weights[order]
    G = stats.returns[order] - reference
    low, high = limits.return_range
    columns = np.stack([w * G * G, w * G, w])
    return _Form(columns, low - reference, high - reference, limits.max_weight)


def _variance_forms(
    stats: TrajectoryStatistics, limits: Limits, order: IntArray, reference: float
) -> list[_Form]:
    forms = [_whole_form(stats, limits, order, reference)]
    if limits.scaled_reward_range is not None and stats.horizon != 1:
        low, high = limits.scaled_reward_range
        c = stats.annuity
        r0 = reference / c
        X, E, B = stats.cdis[order], stats.cdis_cross[order], stats.cdis_ones[order]
        columns = np.stack([X - 2 * r0 * E + r0**2 * B, (E - r0 * B) / c, B / c**2])
        forms.append(_Form(columns, low - reference, high - reference, limits.max_cdis_weight))
    return forms


def _mean_forms(
    stats: TrajectoryStatistics,
    limits: Limits,
    order: IntArray,
    reference: float,
    sign: float,
) -> list[_Form]:
    whole = _whole_form(stats, limits, order, reference)
    forms = [whole]
    if limits.scaled_reward_range is not None and stats.horizon != 1:
        low, high = limits.scaled_reward_range
        c = stats.annuity
        first = stats.pdis[order] - reference / c * stats.pdis_ones[order]
        weight = stats.pdis_ones[order] / c
        columns = np.stack([whole.columns[0], first, weight])
        forms.append(_Form(columns, low - reference, high - reference, limits.max_pdis_weight))
    return [_mirrored(form) for form in forms] if sign < 0 else forms


def _mirrored(form: _Form) -> _Form:
    """Return the same form for -G."""
    return _Form(form.columns * [[1.0], [-1.0], [1.0]], -form.high, -form.low, form.max_weight)
