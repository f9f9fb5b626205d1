"""Bounds on the mean of a bounded function of the return."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.core.sample import Sample

from .capital import last_rejected
from .forms import AnyForm, Form, truncated_forms
from .grid import grid_around, whole_lanes
from .schedule import Schedule
from .targets import Choices, ChosenBets, bet_against

BLOCKS = 400  # revisions of the bet sizes; more are tighter and slower


def value_form(
    sample: Sample, values: FloatArray, low: float, high: float, reference: float = 0.0
) -> Form:
    """Form of the mean of a function of the return with `values` in [low, high], (n,).

    Both are measured from `reference`. Values are in the order in which they are bet on.
    """
    y = values - reference
    columns = np.empty((3, y.size))
    columns[2] = sample.weights
    np.multiply(columns[2], y, out=columns[1])
    np.multiply(columns[1], y, out=columns[0])
    return Form(columns, low - reference, high - reference, sample.limits.max_weight)


def value_forms(
    sample: Sample, values: FloatArray, low: float, high: float, reference: float = 0.0
) -> list[AnyForm]:
    """The form of `value_form`, and those with truncated weights if the behavior is known."""
    truncated = truncated_forms(sample, values - reference, low - reference, high - reference)
    return [value_form(sample, values, low, high, reference), *truncated]


def mean_target(
    forms: Sequence[AnyForm], schedule: Schedule, level: float, *, as_charged: bool = False
) -> ChosenBets:
    """Bets whose target has the mean of the forms.

    If the forms have different means, x has one of them in every epoch: a lower bound then holds
    for the largest. See `bet_against` for `as_charged`.
    """

    def choices(form: AnyForm, mean: FloatArray, _variance: FloatArray) -> Choices:
        d = np.clip(mean, form.low, form.high)[:, None]
        z = np.stack([np.zeros_like(d), -np.ones_like(d), d], axis=-1)
        return Choices(z, d - form.low, d, mean[:, None])

    return bet_against(forms, schedule, level, choices, as_charged=as_charged)


def mean_lower(
    forms: Sequence[AnyForm],
    schedule: Schedule,
    level: float,
    low: float,
    high: float,
    *,
    enough: float = math.inf,
) -> float:
    """Lower confidence bound on the mean of the forms, which is known to be in [low, high].

    A bound of at least `enough` need not be improved.
    """
    bets = mean_target(forms, schedule, level)
    return target_lower(bets, schedule, level, low, high, enough=enough)


def target_lower(
    bets: ChosenBets,
    schedule: Schedule,
    level: float,
    low: float,
    high: float,
    *,
    enough: float = math.inf,
) -> float:
    """Lower confidence bound on the mean of a bet target, on a grid around its center."""
    error = schedule.grid_error(bets.error)
    grid = grid_around(bets.center, bets.unit, low, high, error=error)
    grid = grid[: whole_lanes(int(np.searchsorted(grid, enough)) + 1)]
    index = last_rejected(bets.target, schedule, grid, level)
    return float(grid[index] if index >= 0 else low)
