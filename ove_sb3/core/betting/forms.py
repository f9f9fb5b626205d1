"""Forms of importance sampling whose columns are bet on.

All per-trajectory variables are of the form ``z = a u0 + b u1 + c u2`` with three columns per form,
measured from a reference return m0:

- full trajectory: w (G - m0)^2, w (G - m0), w;
- coupled or per decision: CDIS and PDIS of rewards less m0/c, and their weights B/c^2 or A/c.

A truncated form (see `truncation`) has the truncated weight w' in place of w and a fourth column,
its charge k. The mass that was cut off counts at the largest value of z: the bet is against
``z + bound k``, and the weight with a mean of 1 is M = w' + k. With f = bound - z/w >= 0 the target
is ``w' f - c (M - 1)``, up to a constant; the bet is then made with w in place of w' before f,
which is never less and has the same lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.core.sample import Sample
from ove_sb3.core.truncation import CAPS, column_names

from .schedule import Schedule

_FEWEST_PER_CAP = 4  # trajectories per unit of a cap: with fewer its bound is uninformative


@dataclass(frozen=True)
class Form:
    """One form of importance sampling: columns (3, n), limits relative to the reference."""

    columns: FloatArray
    low: float
    high: float
    max_weight: float
    n_columns = 3

    @property
    def bet_columns(self) -> FloatArray:
        """Columns that are bet on, (3, n)."""
        return self.columns

    def bet_coefficients(self, coefficients: FloatArray) -> FloatArray:
        """Coefficients of the columns that are bet on, (..., 3) -> (..., 3)."""
        return coefficients


@dataclass(frozen=True)
class TruncatedForm:
    """Full-trajectory importance sampling with truncated weights of a known behavior.

    Its columns (4, n) are computed when they are asked for: there is a form for every cap, and few
    of them are bet on. `values` are in the order in which they are bet on, relative to the
    reference, like their limits.
    """

    sample: Sample
    values: FloatArray
    low: float
    high: float
    max_weight: float
    n_columns = 4

    @property
    def one_step(self) -> bool:
        """Whether all trajectories have one step."""
        return self.sample.stats.horizon == 1

    @property
    def columns(self) -> FloatArray:
        """Columns w' v^2, w' v, w' and k of the values v, (4, n)."""
        w, k = self._truncated
        v = self.values
        return np.stack([w * v * v, w * v, w, k])

    @property
    def bet_columns(self) -> FloatArray:
        """Columns w v^2, w v, w and M = w' + k, (4, n)."""
        w, v = self.sample.weights, self.values
        return np.stack([w * v * v, w * v, w, sum(self._truncated)])

    def bet_coefficients(self, coefficients: FloatArray) -> FloatArray:
        """Coefficients of `bet_columns` from those of `columns`, (..., 4) -> (..., 4)."""
        c = coefficients.copy()
        c[..., 2] -= c[..., 3]
        return c

    @property
    def _truncated(self) -> tuple[FloatArray, FloatArray]:
        stats, order = self.sample.stats, self.sample.order
        w, k = (stats[name][order] for name in column_names(self.max_weight))
        return w, k


AnyForm = Form | TruncatedForm


def reference_return(sample: Sample, schedule: Schedule) -> float:
    """Self-normalized mean before the first bet: the origin from which returns are measured.

    It must not depend on what is bet on: where the past says nothing, such as without any weight,
    or where differences are mere rounding, bets depend on the origin.
    """
    stats = sample.stats
    first = sample.order[: schedule.epochs[0]]
    weights = stats.weights[first]
    if weights.any():
        return float(np.sum(weights * stats.returns[first]) / weights.sum())
    return sum(sample.limits.return_range) / 2


def whole_form(sample: Sample, reference: float) -> Form:
    """Full-trajectory importance sampling."""
    w = sample.stats.weights[sample.order]
    G = sample.stats.returns[sample.order] - reference
    low, high = sample.limits.return_range
    columns = np.stack([w * G * G, w * G, w])
    return Form(columns, low - reference, high - reference, sample.limits.max_weight)


def truncated_forms(
    sample: Sample, values: FloatArray, low: float, high: float
) -> list[TruncatedForm]:
    """Forms of the mean of `values` in [low, high], (n,), with truncated weights.

    For caps that could be of use; none if the behavior is not known.
    """
    stats = sample.stats
    if column_names(CAPS[0])[0] not in stats.columns:
        return []
    most = sample.limits.max_weight
    if sample.open_end is None:  # otherwise the number of trajectories must not matter
        most = min(most, max(CAPS[0], len(stats) / _FEWEST_PER_CAP))
    return [TruncatedForm(sample, values, low, high, cap) for cap in CAPS if cap <= most]


def truncated_returns(sample: Sample, reference: float, sign: float = 1.0) -> list[TruncatedForm]:
    """Forms of the mean of sign G with truncated weights; none if the behavior is not known."""
    values = sign * (sample.stats.returns[sample.order] - reference)
    low, high = sorted(sign * (end - reference) for end in sample.limits.return_range)
    return truncated_forms(sample, values, low, high)


def coupled_forms(sample: Sample, reference: float) -> list[AnyForm]:
    """Forms of E[(G - m)^2]: full trajectory, coupled decision where it differs, truncated."""
    stats, limits, order = sample.stats, sample.limits, sample.order
    forms: list[AnyForm] = [whole_form(sample, reference)]
    if limits.scaled_reward_range is not None and stats.horizon != 1:
        low, high = limits.scaled_reward_range
        c = stats.effective_horizon
        r0 = reference / c
        X, E, B = stats.cdis[order], stats.cdis_cross[order], stats.cdis_ones[order]
        columns = np.stack([X - 2 * r0 * E + r0**2 * B, (E - r0 * B) / c, B / c**2])
        forms.append(Form(columns, low - reference, high - reference, limits.max_cdis_weight))
    return [*forms, *truncated_returns(sample, reference)]


def per_decision_forms(sample: Sample, reference: float, sign: float) -> list[AnyForm]:
    """Forms of E[sign G]: full trajectory, per decision where it differs, truncated."""
    stats, limits, order = sample.stats, sample.limits, sample.order
    whole = whole_form(sample, reference)
    forms = [whole]
    if limits.scaled_reward_range is not None and stats.horizon != 1:
        low, high = limits.scaled_reward_range
        c = stats.effective_horizon
        first = stats.pdis[order] - reference / c * stats.pdis_ones[order]
        weight = stats.pdis_ones[order] / c
        columns = np.stack([whole.columns[0], first, weight])
        forms.append(Form(columns, low - reference, high - reference, limits.max_pdis_weight))
    signed = [_mirrored(form) for form in forms] if sign < 0 else forms
    return [*signed, *truncated_returns(sample, reference, sign)]


def _mirrored(form: Form) -> Form:
    """Form for -G."""
    return Form(form.columns * [[1.0], [-1.0], [1.0]], -form.high, -form.low, form.max_weight)
