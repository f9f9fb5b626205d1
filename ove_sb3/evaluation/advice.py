"""Advice: how many episodes are needed, and how to make an interval narrower."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ove_sb3.core.diagnostics import Diagnostics
from ove_sb3.core.interval import Interval
from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.errors import OveError

_FEWEST = 40  # episodes, below which halves give no rate of convergence
_SLOWEST, _FASTEST = 0.25, 1.0  # of the exponent r in width ~ n^-r
_MOST_DIGITS = 15  # of a number of episodes
_LITTLE_OVERLAP = 0.1  # effective sample size, relative to n


def half_intervals(
    stats: TrajectoryStatistics,
    interval_of: Callable[[TrajectoryStatistics], Interval],
    *,
    seed: int,
    in_order: bool,
) -> list[Interval]:
    """Intervals from the two halves of the data; none if they cannot be computed.

    The halves are random, or consecutive if the log must be taken `in_order`. These are auxiliary
    figures: an error in a half never ends an evaluation.
    """
    n = len(stats)
    if n < _FEWEST:
        return []
    order = np.arange(n) if in_order else np.random.default_rng(seed).permutation(n)
    try:
        return [interval_of(stats.select(np.sort(half))) for half in np.array_split(order, 2)]
    except (OveError, ArithmeticError, ValueError):
        return []


def convergence_rate(whole: Interval, halves: Sequence[Interval]) -> float | None:
    """Estimate r in ``width ~ n^-r`` from the two halves of the data; None if that fails."""
    if not halves or not whole.informative or whole.width <= 0.0:
        return None
    rate = math.log2(max(sum(half.width for half in halves) / 2 / whole.width, 1.0))
    return min(max(rate, _SLOWEST), _FASTEST) if math.isfinite(rate) else None


def episodes_for(n: int, shrink: float, rate: float | None) -> int | None:
    """About how many episodes shrink a width by the factor `shrink` < 1, to two digits."""
    if rate is None or not 0.0 < shrink < 1.0:
        return None
    log_total = math.log10(n) - math.log10(shrink) / rate
    if log_total > _MOST_DIGITS:
        return None
    unit = int(10 ** max(math.floor(log_total) - 1, 0))
    rounded = round(10**log_total / unit) * unit
    return rounded if rounded > n else (n // unit + 1) * unit


def advise(
    diagnostics: Diagnostics,
    episodes_to_halve: int | None,
    narrower: Sequence[object],
    share: float | None = None,
) -> tuple[str, ...]:
    """Sentences on how to make the intervals narrower: the suggestions `narrower` come first.

    `share` is that of the candidate in the mixture that wrote the log, None if it had none.
    """
    advice = [str(suggestion) for suggestion in narrower]
    if episodes_to_halve is not None:
        advice.append(
            f"About {episodes_to_halve} episodes would halve the interval for the variance."
        )
    ess, n = diagnostics.effective_sample_size, diagnostics.n_trajectories
    if ess < _LITTLE_OVERLAP * n:
        text = f"The log is worth about {ess:.3g} of {n} episodes"
        if share is not None:
            advice.append(f"{text}, as the candidate acted in {share:.3g} of them.")
        else:
            advice.append(
                f"{text}: log with a behavior closer to the candidate, such as a MixturePolicy "
                "that contains it."
            )
    return tuple(advice)
