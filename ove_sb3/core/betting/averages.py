"""Bounds on the mean of a bounded function of the return."""

from __future__ import annotations

import math

import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.core.sample import Sample

from .capital import BetTarget, Schedule, grid_around, last_rejected
from .forms import Form
from .targets import Choices, bet_against

BLOCKS = 400  # revisions of the bet sizes; more are tighter and slower


def value_form(
    sample: Sample, values: FloatArray, low: float, high: float, reference: float = 0.0
) -> Form:
    """Form of the mean of a function of the return with `values` in [low, high], (n,).

    Both are measured from `reference`. Values are in the order in which they are bet on.
    """
    w = sample.stats.weights[sample.order]
    y = values - reference
    columns = np.stack([w * y * y, w * y, w])
    return Form(columns, low - reference, high - reference, sample.limits.max_weight)


def mean_target(
    forms: list[Form], schedule: Schedule, level: float
) -> tuple[BetTarget, float, float]:
    """Bet target whose mean is that of the forms; also its pilot estimate and its scale.

    If the forms have different means, x has one of them in every epoch: a bound is then one on the
    largest.
    """

    def choices(form: Form, mean: FloatArray, _variance: FloatArray) -> Choices:
        d = np.clip(mean, form.low, form.high)[:, None]
        z = np.stack([np.zeros_like(d), -np.ones_like(d), d], axis=-1)
        return Choices(z, d - form.low, d, mean[:, None])

    return bet_against(forms, schedule, level, choices)


def mean_lower(
    forms: list[Form],
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
    target, center, unit = mean_target(forms, schedule, level)
    grid = grid_around(center, unit, low, high)
    grid = grid[: np.searchsorted(grid, enough) + 1]
    index = last_rejected(target, schedule, grid, level)
    return float(grid[index] if index >= 0 else low)
