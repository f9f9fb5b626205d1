"""Summaries of the answers, and Markdown tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

Triple = Sequence[float | None]


@dataclass(frozen=True)
class Summary:
    """One method on one problem at one n.

    Parameters
    ----------
    trials : int
        Number of data sets.
    rmse : float or None
        Root mean square error of the estimate, in units of the scale.
    coverage, width : float or None
        Fraction of the intervals that contain the truth, and mean width in units of the scale. An
        interval that is not finite is a miss and has no width.
    seconds : float
        Median CPU time of one call.
    """

    trials: int
    rmse: float | None
    coverage: float | None
    width: float | None
    seconds: float


# Two sums of the same rewards may differ in the last digits: a bound at the truth is not a miss.
_TOLERANCE = 1e-9


def summarize(
    answers: Sequence[Triple],
    times: Sequence[float],
    truth: float,
    scale: float,
    *,
    has_interval: bool,
) -> Summary:
    """Summarize (estimate, lower, upper) of every trial; errors and widths are divided by scale."""
    estimates = [estimate for estimate, _, _ in answers if estimate is not None]
    rmse = None
    if estimates:
        rmse = math.sqrt(fmean(((estimate - truth) / scale) ** 2 for estimate in estimates))
    coverage = width = None
    if has_interval:
        intervals = [(low, high) for _, low, high in answers if None not in (low, high)]
        finite = [(low, high) for low, high in intervals if low is not None and high is not None]
        slack = _TOLERANCE * scale
        hits = sum(low - slack <= truth <= high + slack for low, high in finite)
        coverage = hits / len(answers)
        width = fmean((high - low) / scale for low, high in finite) if finite else math.inf
    return Summary(len(answers), rmse, coverage, width, median(times))


def number(value: float | None, scale: float = 1.0) -> str:
    """Three digits, or a dash for None."""
    if value is None:
        return "-"
    return f"{scale * value:.0f}" if scale * value >= 1000 else f"{scale * value:.3g}"
