"""Choice of the bet target, epoch by epoch, from the past only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import ndtri

from ove_sb3._validation import FloatArray

from .capital import BetTarget
from .forms import AnyForm, TruncatedForm
from .moments import predicted_moments
from .schedule import Schedule
from .warm_up import WarmUp

_CHOICE_CAP = 1 << 13  # past observations used for the choice of the form
_CONTROLS = np.array([0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0])  # from regression slope to bound
_PLAUSIBLE = (
    2.0  # standard errors above the mean of the past: larger means are taken for rare gains
)
_CAUTION = 0.3  # standard errors
_FEWEST_PER_WEIGHT = 8  # past observations per unit of a cap
_FEWEST_OVER_STEPS = 64  # the same for several steps, over which charges vary more
_ROUNDING = 1e-15


@dataclass(frozen=True)
class Choices:
    """Variables z <= bound * weight to bet against, one per epoch and center.

    ``constant - z`` has the mean `expected`, where nothing is charged. Shapes: z (epochs, choices,
    3), others without the 3.
    """

    z: FloatArray
    bound: FloatArray
    constant: FloatArray
    expected: FloatArray


class Past:
    """Moments of the m columns of a form before every epoch.

    Sizes (e,), means (e, m), covariances (e, m, m), and the coefficients of the weight that has a
    mean of 1, (m,): the third column, or the third plus the charge.
    """

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
        self.weight = np.array([0.0, 0.0, 1.0, 1.0][: len(columns)])

    def self_normalized(self) -> tuple[FloatArray, FloatArray]:
        """Self-normalized mean and variance, (e,), from columns (u0, u1, u2)."""
        second, first, weight = self.means.T[:3]
        weight = np.where(weight > 0.0, weight, 1.0)
        mean = first / weight
        return mean, np.maximum(second / weight - mean**2, 0.0)

    def mean_of(self, z: FloatArray) -> FloatArray:
        """Means of linear combinations, (e, ..., m) -> (e, ...)."""
        return np.asarray(np.einsum("e...i,ei->e...", z, self.means))

    def squares(self, coefficients: FloatArray) -> FloatArray:
        """Variances of linear combinations, (e, ..., m) -> (e, ...)."""
        squares = np.einsum("e...i,eij,e...j->e...", coefficients, self.covariances, coefficients)
        return np.asarray(np.maximum(squares, 0.0))

    def slopes(self, z: FloatArray) -> FloatArray:
        """Regression slopes on the weight, (e, ..., m) -> (e, ...)."""
        with_weight = self.covariances @ self.weight
        covariance = np.einsum("e...i,ei->e...", z, with_weight)
        variance = (with_weight @ self.weight).reshape(-1, *[1] * (z.ndim - 2))
        positive = variance > 0.0
        return np.asarray(np.where(positive, covariance / np.where(positive, variance, 1.0), 0.0))


@dataclass(frozen=True)
class ChosenBets:
    """A bet target, and the forms that were chosen for it.

    Attributes
    ----------
    target : BetTarget
        Its columns are those of the forms, one form after another.
    center : float
        The pilot's estimate of the mean of the target.
    unit : float
        Scale of the bound.
    error : float
        Standard error of `center`.
    forms : list of Form or TruncatedForm
        Forms that are bet on in some epoch.
    """

    target: BetTarget
    center: float
    unit: float
    error: float
    forms: list[AnyForm]

    def coefficients_from(self, first: int) -> FloatArray:
        """Coefficients of the target without the first columns of every form, (n_epochs, m)."""
        place = np.concatenate([np.arange(form.n_columns) for form in self.forms])
        return np.ascontiguousarray(self.target.coefficients[:, place >= first])


@dataclass(frozen=True)
class _Bets:
    """The best bet of one form in every epoch, by the bound predicted from the past."""

    predicted: FloatArray
    coefficients: FloatArray
    constants: FloatArray
    lower_bounds: FloatArray
    expected: FloatArray
    errors: FloatArray


def bet_against(
    forms: Sequence[AnyForm],
    schedule: Schedule,
    level: float,
    choices_of: Callable[[AnyForm, FloatArray, FloatArray], Choices],
    *,
    as_charged: bool = False,
) -> ChosenBets:
    """Build the bet target x = q (weight - 1) - z + constant.

    Form, center and q are chosen per epoch, by the bound predicted from the past of the epoch only.
    As z <= bound * weight, x >= constant - q - (bound - q) max_weight for every q <= bound. A form
    with charges bets against z + bound * charge, which has the same bound; it must follow a form
    of the same values without charges.

    Forms are compared by what is bet on, or `as_charged`: safer in the tail of the return and over
    several steps, where few outcomes say little about large weights.
    """
    charged = np.array([isinstance(form, TruncatedForm) for form in forms])
    as_charged = as_charged or not all(
        form.one_step for form in forms if isinstance(form, TruncatedForm)
    )
    bets = []
    for form in forms:
        past = Past(form.columns, schedule)
        if not isinstance(form, TruncatedForm):
            moments = past.self_normalized()  # also for the truncated forms that follow it
        choices = choices_of(form, *moments)
        bets.append(_best_bets(form, past, choices, schedule, level, as_charged=as_charged))
    predicted = np.array([form_bets.predicted for form_bets in bets])
    if charged.any():
        beaten = predicted < predicted[~charged].max(axis=0)
        predicted = np.array(
            [
                predicted_bounds(
                    *(form, b.coefficients, b.expected, b.lower_bounds, schedule, level),
                    as_charged=as_charged,
                )
                for form, b in zip(forms, bets, strict=True)
            ]
        )
        predicted[beaten & ~charged[:, None]] = -np.inf  # by another form without charges
    best = np.argmax(predicted, axis=0)
    epochs = np.arange(len(best))
    used = np.unique(best)
    columns = stacked([forms[k].bet_columns for k in used])
    coefficients = np.concatenate(
        [
            np.where(best[:, None] == k, forms[k].bet_coefficients(bets[k].coefficients), 0.0)
            for k in used
        ],
        axis=1,
    )
    constants, lower_bounds, expected = (
        np.array([getattr(form_bets, name) for form_bets in bets])[best, epochs]
        for name in ("constants", "lower_bounds", "expected")
    )
    second_moments, gain_sizes = predicted_moments(columns, coefficients, schedule, level)
    max_excess = np.full(len(best), np.inf)
    if schedule.unfinished is None:
        errors = np.sqrt(second_moments / schedule.epochs)
        max_excess = expected + _PLAUSIBLE * errors - lower_bounds
    target = BetTarget(
        columns,
        coefficients,
        constants,
        lower_bounds,
        second_moments,
        max_excess,
        gain_sizes,
        WarmUp.of_target(columns, coefficients, constants, lower_bounds, expected, schedule, level),
    )
    first = schedule.n_warm_up
    unit = math.sqrt(second_moments[first] / schedule.grid_n)
    error = float(bets[best[first]].errors[first])
    return ChosenBets(target, float(expected[first]), unit, error, [forms[k] for k in used])


def stacked(parts: Sequence[FloatArray]) -> FloatArray:
    """Columns of all forms, one form after another; not copied if there is only one."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def predicted_bounds(
    form: AnyForm,
    coefficients: FloatArray,
    expected: FloatArray,
    lower_bounds: FloatArray,
    schedule: Schedule,
    level: float,
    *,
    as_charged: bool,
) -> FloatArray:
    """Predicted bounds with the effective second moment, (e,), see `bet_against`.

    The variance compares bets with the same tail of gains fairly, but would favor a truncated form
    over one whose heavy tail consists of gains. On the other hand, weights and charges near a cap
    are rare: the prediction for charges is lowered by the error of a small past, and truncated
    forms are not used where the past is too small to contain such weights.
    """
    n, columns = schedule.planned, form.columns
    if not as_charged:
        columns, coefficients = form.bet_columns, form.bet_coefficients(coefficients)
    square, _ = predicted_moments(columns, coefficients, schedule, level, _CHOICE_CAP)
    loss = -ndtri(level) * np.sqrt(square / n)
    if isinstance(form, TruncatedForm):
        if as_charged:
            loss = loss + _CAUTION * np.sqrt(square / schedule.epochs)
        fewest = _FEWEST_PER_WEIGHT if form.one_step else _FEWEST_OVER_STEPS
        loss[schedule.epochs < fewest * form.max_weight] = np.inf
    room = expected - lower_bounds
    loss = loss - math.log(level) * room / n
    if schedule.unfinished_fraction is not None:
        loss = loss + schedule.unfinished_fraction * room
    return np.asarray(expected - loss)


def _best_bets(
    form: AnyForm,
    past: Past,
    choices: Choices,
    schedule: Schedule,
    level: float,
    *,
    as_charged: bool,
) -> _Bets:
    n = schedule.planned[:, None, None]
    z, bound = choices.z, choices.bound[:, :, None]
    expected = choices.expected
    if len(past.weight) > 3:
        z = np.concatenate([z, bound], axis=2)  # the charged mass counts at the bound
        # By regression: the weight has a mean of 1, though not in a small past.
        surplus = (past.means @ past.weight)[:, None] - 1.0
        slopes = np.clip(past.slopes(z), 0.0, choices.bound)
        expected = choices.constant - past.mean_of(z) + slopes * surplus
    if math.isfinite(form.max_weight):
        slope = np.minimum(past.slopes(z), choices.bound)[:, :, None]
        short = (1.0 - _CONTROLS) * (bound - slope)  # of the bound; exactly 0 at the last
        q = bound - short
        # Rounding of q is multiplied by the largest weight, which can be 1e20.
        rounding = np.where(short > 0.0, _ROUNDING * (np.abs(bound) + np.abs(slope)), 0.0)
        lower_bound = choices.constant[:, :, None] - q - (short + rounding) * form.max_weight
    else:
        q = bound
        lower_bound = choices.constant[:, :, None] - q
    x = q[..., None] * past.weight - z[:, :, None, :]
    loss = -ndtri(level) * np.sqrt(past.squares(x) / n)
    room = expected[:, :, None] - lower_bound
    loss = loss - math.log(level) * room / n
    if schedule.unfinished_fraction is not None:
        loss = loss + schedule.unfinished_fraction[:, None, None] * room
    predicted = (expected[:, :, None] - loss).reshape(len(x), -1)
    choice = predicted.argmax(axis=1)
    epochs = np.arange(len(x))
    center, control = np.unravel_index(choice, q.shape[1:])
    at = epochs, center, control
    # Of a self-normalized mean: the weighted distance from it.
    own = (choices.constant - expected)[epochs, center]
    distance = z[epochs, center] - own[:, None] * past.weight
    return _Bets(
        predicted=predicted[epochs, choice],
        coefficients=x[at],
        constants=choices.constant[epochs, center] - q[at],
        lower_bounds=lower_bound[at],
        expected=(expected if as_charged else choices.expected)[epochs, center],
        errors=np.sqrt(past.squares(distance) / past.sizes),
    )
