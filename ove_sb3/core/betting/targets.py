"""Choice of the bet target, epoch by epoch, from the past only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import ndtri

from ove_sb3._validation import FloatArray

from .capital import BetTarget, Schedule, effective_second_moment
from .forms import Form

_PAST_CAP = 1 << 14  # past observations used for the bet sizes
_CONTROLS = np.array([0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0])  # from regression slope to bound
_ROUNDING = 1e-15


@dataclass(frozen=True)
class Choices:
    """Variables z <= bound * weight to bet against, one per epoch and center.

    ``constant - z`` has the mean `expected`. Shapes: z (epochs, choices, 3), others without the 3.
    """

    z: FloatArray
    bound: FloatArray
    constant: FloatArray
    expected: FloatArray


class Past:
    """Moments of the observations before every epoch: sizes (e,), means (e, 3), covariances."""

    def __init__(self, columns: FloatArray, schedule: Schedule) -> None:
        cuts = np.concatenate([[0], schedule.epochs])
        parts = [columns[:, a:b] for a, b in pairwise(cuts)]
        self.sizes = schedule.epochs.astype(np.float64)
        if schedule.unfinished is not None:
            n_complete = np.concatenate([[0], np.cumsum(~schedule.unfinished)])[schedule.epochs]
            self.sizes = np.maximum(n_complete, 1.0)
        self.means = np.cumsum([part.sum(axis=1) for part in parts], axis=0) / self.sizes[:, None]
        # einsum, not matmul: threads of the linear algebra library do not pay on three columns
        products = np.cumsum([np.einsum("in,jn->ij", part, part) for part in parts], axis=0)
        outer = self.means[:, :, None] * self.means[:, None, :]
        self.covariances = products / self.sizes[:, None, None] - outer

    def self_normalized(self) -> tuple[FloatArray, FloatArray]:
        """Self-normalized mean and variance, (e,), from columns (u0, u1, u2)."""
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


def bet_against(
    forms: list[Form],
    schedule: Schedule,
    level: float,
    choices_of: Callable[[Form, FloatArray, FloatArray], Choices],
) -> tuple[BetTarget, float, float]:
    """Build the bet target x = q (weight - 1) - z + constant.

    Form, center and q are chosen per epoch, by the bound predicted from the past of the epoch only.
    As z <= bound * weight, x >= constant - q - (bound - q) max_weight for every q <= bound. Also
    returns the pilot's estimate of the mean of x and the scale of its bound.
    """
    columns = np.concatenate([form.columns for form in forms])
    n, n_epochs = schedule.planned, len(schedule.epochs)
    best = np.full(n_epochs, -np.inf)
    coefficients = np.zeros((n_epochs, columns.shape[0]))
    constants, lower_bounds, expected = np.zeros(n_epochs), np.zeros(n_epochs), np.zeros(n_epochs)
    for k, form in enumerate(forms):
        past = Past(form.columns, schedule)
        choices = choices_of(form, *past.self_normalized())
        bound = choices.bound[:, :, None]
        if math.isfinite(form.max_weight):
            slope = np.minimum(past.slopes(choices.z), choices.bound)[:, :, None]
            short = (1.0 - _CONTROLS) * (bound - slope)  # of the bound; exactly 0 at the last
            q = bound - short
            # Rounding of q is multiplied by the largest weight, which can be 1e20.
            rounding = np.where(short > 0.0, _ROUNDING * (np.abs(bound) + np.abs(slope)), 0.0)
            lower_bound = choices.constant[:, :, None] - q - (short + rounding) * form.max_weight
        else:
            q = bound
            lower_bound = choices.constant[:, :, None] - q
        x = q[..., None] * [0.0, 0.0, 1.0] - choices.z[:, :, None, :]
        room = choices.expected[:, :, None] - lower_bound
        loss = -ndtri(level) * np.sqrt(past.squares(x) / n[:, None, None])
        loss = loss - math.log(level) * room / n[:, None, None]
        if schedule.unfinished_fraction is not None:
            loss = loss + schedule.unfinished_fraction[:, None, None] * room
        predicted = (choices.expected[:, :, None] - loss).reshape(n_epochs, -1)
        choice = predicted.argmax(axis=1)
        for epoch in range(n_epochs):
            if predicted[epoch, choice[epoch]] > best[epoch]:
                best[epoch] = predicted[epoch, choice[epoch]]
                at = np.unravel_index(choice[epoch], q.shape[1:])
                coefficients[epoch] = 0.0
                coefficients[epoch, 3 * k : 3 * k + 3] = x[epoch][at]
                constants[epoch] = choices.constant[epoch, at[0]] - q[epoch][at]
                lower_bounds[epoch] = lower_bound[epoch][at]
                expected[epoch] = choices.expected[epoch, at[0]]
    second_moments = np.array(
        [
            effective_second_moment(
                np.einsum("i,in->n", x, recent(columns, schedule, epoch)), level, float(n[epoch])
            )
            for epoch, x in enumerate(coefficients)
        ]
    )
    max_excess = np.full(n_epochs, np.inf)
    target = BetTarget(columns, coefficients, constants, lower_bounds, second_moments, max_excess)
    return target, float(expected[0]), math.sqrt(second_moments[0] / schedule.grid_n)


def recent(columns: FloatArray, schedule: Schedule, epoch: int) -> FloatArray:
    """Columns of the latest observations before an epoch."""
    end = int(schedule.epochs[epoch])
    return columns[:, max(0, end - _PAST_CAP) : end]
