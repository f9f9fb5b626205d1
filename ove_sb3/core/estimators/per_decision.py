"""Per-decision estimates of the mean of any function of the return.

With S_t the discounted sum of rewards up to step t, and rho_t the product of ratios up to it,
``phi(0) + sum_t rho_t (phi(S_t) - phi(S_{t-1}))`` has the mean E[phi(G)] under the candidate. Its
terms have either sign, so it has no lower bound. It is used for estimates, not guaranteed bounds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.core.steps import Column, Steps, running_sums

from .base import Estimator, add


def per_decision(steps: Steps, phi: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Per-decision importance sampling of phi(G), one value per trajectory, (n,)."""
    n_steps = steps.rewards.size
    time = np.arange(n_steps) - np.repeat(steps.starts, steps.lengths)
    rho = np.exp(running_sums(steps.scores.log_ratios, steps.lengths))
    after = running_sums(steps.gamma**time * steps.rewards, steps.lengths)
    before = np.concatenate([[0.0], after[:-1]])
    before[steps.starts] = 0.0
    gained = rho * (phi(after) - phi(before))
    return np.asarray(phi(np.zeros(1))[0] + np.add.reduceat(gained, steps.starts))


def _column_name(x: float) -> str:
    return f"pdis_below:{x!r}"


def _columns(x: float) -> tuple[Column, ...]:
    def compute(steps: Steps) -> FloatArray:
        return per_decision(steps, lambda S: np.asarray(x >= S, dtype=np.float64))

    return (Column(_column_name(x), compute),)


def _probability(stats: TrajectoryStatistics, x: float) -> float:
    return float(stats[_column_name(x)].mean())


def _influence(stats: TrajectoryStatistics, x: float) -> FloatArray:
    values = stats[_column_name(x)]
    return np.asarray(values - values.mean())


add(
    Estimator(
        "pdis",
        "p_below",
        _probability,
        influence=_influence,
        unbiased=True,
        parametric=True,
        columns_of=_columns,
    )
)
