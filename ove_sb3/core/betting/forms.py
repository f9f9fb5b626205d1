"""Forms of importance sampling whose columns are bet on.

All per-trajectory variables are of the form ``z = a u0 + b u1 + c u2`` with three columns per form,
measured from a reference return m0:

- full trajectory: w (G - m0)^2, w (G - m0), w;
- coupled or per decision: CDIS and PDIS of rewards less m0/c, and their weights B/c^2 or A/c.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.core.sample import Sample

from .capital import Schedule


@dataclass(frozen=True)
class Form:
    """One form of importance sampling: columns (3, n), limits relative to the reference."""

    columns: FloatArray
    low: float
    high: float
    max_weight: float


def reference_return(sample: Sample, schedule: Schedule) -> float:
    """Self-normalized mean of the pilot: the origin from which returns are measured."""
    stats = sample.stats
    pilot = sample.order[: schedule.epochs[0]]
    weights = stats.weights[pilot]
    if weights.any():
        return float(np.sum(weights * stats.returns[pilot]) / weights.sum())
    return sum(sample.limits.return_range) / 2


def whole_form(sample: Sample, reference: float) -> Form:
    """Full-trajectory importance sampling."""
    w = sample.stats.weights[sample.order]
    G = sample.stats.returns[sample.order] - reference
    low, high = sample.limits.return_range
    columns = np.stack([w * G * G, w * G, w])
    return Form(columns, low - reference, high - reference, sample.limits.max_weight)


def coupled_forms(sample: Sample, reference: float) -> list[Form]:
    """Forms of E[(G - m)^2]: full trajectory, and coupled decision where it differs."""
    stats, limits, order = sample.stats, sample.limits, sample.order
    forms = [whole_form(sample, reference)]
    if limits.scaled_reward_range is not None and stats.horizon != 1:
        low, high = limits.scaled_reward_range
        c = stats.effective_horizon
        r0 = reference / c
        X, E, B = stats.cdis[order], stats.cdis_cross[order], stats.cdis_ones[order]
        columns = np.stack([X - 2 * r0 * E + r0**2 * B, (E - r0 * B) / c, B / c**2])
        forms.append(Form(columns, low - reference, high - reference, limits.max_cdis_weight))
    return forms


def per_decision_forms(sample: Sample, reference: float, sign: float) -> list[Form]:
    """Forms of E[sign G]: full trajectory, and per decision where it differs."""
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
    return [_mirrored(form) for form in forms] if sign < 0 else forms


def _mirrored(form: Form) -> Form:
    """Form for -G."""
    return Form(form.columns * [[1.0], [-1.0], [1.0]], -form.high, -form.low, form.max_weight)
