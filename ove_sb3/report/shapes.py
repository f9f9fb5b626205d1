"""Data of the charts, shared by the figure and the HTML page."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.core.statistics import TrajectoryStatistics

from .numbers import label
from .views import QuantityView

# The colorblind-safe palette of Okabe and Ito.
BLUE, ORANGE, SKY = "#0072b2", "#d55e00", "#56b4e9"
_MOST_BINS = 40
_MOST_POINTS = 200


@dataclass(frozen=True)
class Bar:
    """One interval of a chart.

    Attributes
    ----------
    label : str
    lower, upper, estimate : float
    kind : {"main", "approximate"}
    """

    label: str
    lower: float
    upper: float
    estimate: float
    kind: str


@dataclass(frozen=True)
class IntervalChart:
    """Intervals of one quantity, and its value for the behavior."""

    title: str
    bars: tuple[Bar, ...]
    behavior: float

    @property
    def extent(self) -> tuple[float, float]:
        """Smallest and largest number shown."""
        values = [v for bar in self.bars for v in (bar.lower, bar.upper, bar.estimate)]
        finite = [value for value in (*values, self.behavior) if math.isfinite(value)]
        return (min(finite), max(finite)) if finite else (0.0, 1.0)


def quantity_chart(result: QuantityView) -> IntervalChart:
    """Chart of all intervals of a quantity."""
    bars = tuple(
        Bar(
            label(interval) if interval is result.interval else interval.method,
            interval.lower,
            interval.upper,
            result.estimate,
            "main" if interval is result.interval else "approximate",
        )
        for interval in result.intervals
    )
    return IntervalChart(result.quantity.title, bars, result.behavior)


@dataclass(frozen=True)
class Histogram:
    """Shares of the logged returns per bin, and of the same returns weighted for the candidate."""

    edges: FloatArray
    behavior: FloatArray
    candidate: FloatArray


def histogram(stats: TrajectoryStatistics) -> Histogram:
    """Bins over the logged returns; the candidate's shares are self-normalized."""
    returns = stats.returns
    n_bins = int(min(_MOST_BINS, max(8, round(2 * len(stats) ** (1 / 3)))))
    edges = np.histogram_bin_edges(returns, bins=n_bins)
    behavior, _ = np.histogram(returns, edges)
    total = stats.weights.sum()
    weighted, _ = np.histogram(returns, edges, weights=stats.weights)
    candidate = weighted / total if total > 0.0 else np.zeros(n_bins)
    return Histogram(edges, behavior / returns.size, candidate)


def concentration(weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Share of the heaviest episodes, and the share of the total weight that they carry."""
    ordered = np.sort(weights)[::-1]
    total = ordered.sum()
    carried = np.cumsum(ordered) / total if total > 0.0 else np.zeros(ordered.size)
    share = np.arange(ordered.size + 1) / ordered.size
    carried = np.concatenate([[0.0], carried])
    # Dense where the curve bends: at the heaviest episodes.
    picked = np.unique((np.linspace(0.0, 1.0, _MOST_POINTS) ** 2 * ordered.size).astype(int))
    return share[picked], carried[picked]


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers from `low` to `high`, at most `most` of them."""
    span = high - low
    if not (span > 0.0 and math.isfinite(span)):
        return [low]
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * m for m in (1, 2, 5, 10, 20) if span / (power * m) <= most)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]
