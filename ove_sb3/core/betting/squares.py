"""Bets on E[(G - m)^2] for a lower bound on the variance, at any center m.

They are on ``x(m) = w (G - m)^2 - b (M - 1)``. M is a weight that has a mean of 1: w itself, or
for a truncated form w' + k. As w (G - m)^2 >= 0, ``x(m) >= -b (W - 1)`` for all b >= 0 and M up to
W. Forms are compared by the smaller mean and spread that w' has in place of w.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from ove_sb3._validation import FloatArray

from .capital import BetTarget
from .forms import AnyForm, TruncatedForm
from .moments import predicted_moments
from .schedule import Schedule
from .targets import Past, predicted_bounds, stacked
from .warm_up import WarmUp

_LEAST_GAIN = 0.1  # of the predicted loss without charges, for a truncated form to be chosen
_SLOPE_SHARES = np.array([0.0, 0.25, 0.5, 0.75, 0.9, 1.0])


@dataclass(frozen=True)
class _Candidate:
    """One form with the b of every epoch that it would be bet on with."""

    form: AnyForm
    past: Past
    controls: FloatArray
    lower_bounds: FloatArray

    def square(self, d: FloatArray) -> FloatArray:
        """Coefficients of w (G - d)^2 over the columns, (e, ...) -> (e, ..., m)."""
        square = square_about(d)
        if self.form.n_columns == 3:
            return square
        none = np.zeros((*d.shape, self.form.n_columns - 3))
        return np.concatenate([square, none], axis=-1)

    def less_control(self, z: FloatArray) -> FloatArray:
        """Coefficients of z - b M, (e, ..., m)."""
        controls = self.controls.reshape(-1, *[1] * (z.ndim - 1))
        return np.asarray(z - controls * self.past.weight)


class SquareBets:
    """Bets at any center, with the form and b of every epoch chosen from its past.

    The choice is made for a center at the mean. It is the same for all centers.

    Parameters
    ----------
    forms : sequence of Form or TruncatedForm
        The first is without charges.
    schedule : Schedule
    level : float

    Attributes
    ----------
    means, variances : ndarray, (n_epochs,)
        Self-normalized moments of the return before every epoch.
    second_moments : ndarray, (n_epochs,)
        Predicted mean square of x at the mean.
    errors : ndarray, (n_epochs,)
        Standard errors of `variances`.
    """

    def __init__(self, forms: Sequence[AnyForm], schedule: Schedule, level: float) -> None:
        pasts = [Past(form.columns, schedule) for form in forms]
        self.means, self.variances = pasts[0].self_normalized()
        distances = square_about(self.means) - self.variances[:, None] * pasts[0].weight
        self.errors = np.sqrt(pasts[0].squares(distances) / pasts[0].sizes)
        candidates = [
            self._candidate(form, past, schedule, level)
            for form, past in zip(forms, pasts, strict=True)
        ]
        best = np.zeros(len(self.means), np.int64)
        if len(candidates) > 1:
            predicted = np.array([self._predicted(one, schedule, level) for one in candidates])
            # Without charges, what has not been seen costs little: it would be a gain.
            predicted[0] += _LEAST_GAIN * (self.variances - predicted[0])
            best = np.argmax(predicted, axis=0)
        used, self._of_epoch = np.unique(best, return_inverse=True)
        self._used = [candidates[k] for k in used]
        self._columns = stacked([one.form.bet_columns for one in self._used])
        self._controls = self._chosen([one.controls for one in self._used])
        self._lower_bounds = self._chosen([one.lower_bounds for one in self._used])
        central = [one.less_control(one.square(self.means)) for one in self._used]
        squares = self._squares(central)
        coefficients = self._side_by_side(central)
        self.second_moments, self._gain_sizes = predicted_moments(
            self._columns, coefficients, schedule, level
        )
        self._schedule = schedule
        self._warm_up = WarmUp.of_target(
            self._columns,
            coefficients,
            self._controls,
            self._lower_bounds,
            self.variances,
            schedule,
            level,
        )
        # The tail matters to the bet sizes, but differs little from center to center.
        positive = squares > 0.0
        self._shapes = np.where(
            positive, self.second_moments / np.where(positive, squares, 1.0), 1.0
        )

    def targets(self, centers: FloatArray, half_spacings: FloatArray) -> Iterator[BetTarget]:
        """Bet targets for centers, and means of the return within half a spacing of each; (c,).

        The warm-up has centers of its own, because it is over when others are laid. There the mean
        of x(m) is Var + (mean - m)^2, at most Var + (|d - m| + half_spacing)^2.
        """
        d = np.broadcast_to(centers, (len(self.means), len(centers)))
        z = [one.square(d) for one in self._used]
        x = [one.less_control(own) for one, own in zip(self._used, z, strict=True)]
        error = np.sqrt(self._squares(z) / self._used[0].past.sizes[:, None])
        mean = self._chosen([one.past.mean_of(own) for one, own in zip(self._used, z, strict=True)])
        max_excess = mean + error - self._lower_bounds[:, None]
        second_moments = self._squares(x) * self._shapes[:, None]
        for coefficients, second_moment, excess, center, half_spacing in zip(
            *(by_center(values) for values in (self._side_by_side(x), second_moments, max_excess)),
            centers.tolist(),
            half_spacings.tolist(),
            strict=True,
        ):
            yield BetTarget(
                self._columns,
                coefficients,
                self._controls,
                self._lower_bounds,
                second_moment,
                excess,
                self._gain_sizes,
                self._warm_up_for(center, half_spacing),
            )

    def _warm_up_for(self, d: float, half_spacing: float) -> WarmUp | None:
        if self._warm_up is None:
            return None
        distances = np.abs(d - self.means[: self._schedule.n_warm_up])
        shifts = (distances + half_spacing) ** 2 - half_spacing**2
        return self._warm_up.shifted(shifts, self._schedule)

    def _candidate(self, form: AnyForm, past: Past, schedule: Schedule, level: float) -> _Candidate:
        """Multiples b of M - 1 to subtract, and the lower bounds on x(m) they imply.

        Without a bound on the weights there is no lower bound for b > 0.
        """
        nothing = _Candidate(form, past, np.zeros_like(self.means), np.zeros_like(self.means))
        if not math.isfinite(form.max_weight):
            return nothing
        z = nothing.square(self.means)
        b = np.maximum(past.slopes(z), 0.0)[:, None] * _SLOPE_SHARES
        lower_bounds = -b * (form.max_weight - 1.0)
        x = z[:, None, :] - b[:, :, None] * past.weight
        n, room = schedule.planned[:, None], self.variances[:, None] - lower_bounds
        loss = -ndtri(level) * np.sqrt(past.squares(x) / n)
        loss = loss - math.log(level) * room / n
        if schedule.unfinished_fraction is not None:
            loss = loss + schedule.unfinished_fraction[:, None] * room
        best = loss.argmin(axis=1)[:, None]
        b, lower_bounds = (np.take_along_axis(a, best, 1)[:, 0] for a in (b, lower_bounds))
        return _Candidate(form, past, b, lower_bounds)

    def _predicted(self, one: _Candidate, schedule: Schedule, level: float) -> FloatArray:
        """Predicted lower bounds at the mean, (e,)."""
        past, z, expected = one.past, one.square(self.means), self.variances
        if isinstance(one.form, TruncatedForm):
            # By regression: the weight has a mean of 1, though not in a small past.
            surplus = past.means @ past.weight - 1.0
            expected = past.mean_of(z) - np.maximum(past.slopes(z), 0.0) * surplus
        x = one.less_control(z)
        return predicted_bounds(
            one.form, x, expected, one.lower_bounds, schedule, level, as_charged=True
        )

    def _chosen(self, values: Sequence[FloatArray]) -> FloatArray:
        """Values of the form of every epoch, of one array (e, ...) per form."""
        return np.asarray(np.array(values)[self._of_epoch, np.arange(self._of_epoch.size)])

    def _squares(self, coefficients: Sequence[FloatArray]) -> FloatArray:
        pairs = zip(self._used, coefficients, strict=True)
        return self._chosen([one.past.squares(own) for one, own in pairs])

    def _side_by_side(self, coefficients: Sequence[FloatArray]) -> FloatArray:
        """Coefficients over the columns of all forms, zero but for the form of the epoch."""
        of_epoch = self._of_epoch.reshape(-1, *[1] * (coefficients[0].ndim - 1))
        own = [
            np.where(of_epoch == k, one.form.bet_coefficients(c), 0.0)
            for k, (one, c) in enumerate(zip(self._used, coefficients, strict=True))
        ]
        return np.concatenate(own, axis=-1)


def by_center(values: FloatArray) -> FloatArray:
    """Swap epochs and centers, (e, c, ...) -> (c, e, ...)."""
    return np.ascontiguousarray(values.swapaxes(0, 1))


def square_about(d: FloatArray) -> FloatArray:
    """Coefficients of w (G - d)^2 over the columns of a form, (...,) -> (..., 3)."""
    return np.stack([np.ones_like(d), -2 * d, d**2], axis=-1)
