"""Data of the charts, shared by the figure and the HTML page."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.core.diagnostics import missing_support
from ove_sb3.core.estimators.weighted_distribution import WeightedDistribution
from ove_sb3.core.interval import bounds_text, label_word
from ove_sb3.core.statistics import TrajectoryStatistics

from .numbers import label, number, percent
from .views import EvaluationView, QuantityView

# The colorblind-safe palette of Okabe and Ito.
BLUE, ORANGE, SKY = "#0072b2", "#d55e00", "#56b4e9"
_MOST_STEPS = 400
_MOST_POINTS = 200
_INVISIBLE = 0.015  # of the height of a picture


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
class Mark:
    """A quantile with its interval, at the height of its level."""

    level: float
    estimate: float
    lower: float
    upper: float
    label: str


@dataclass(frozen=True)
class DistributionChart:
    """Distribution functions of the return, as steps.

    Attributes
    ----------
    extent : (float, float)
        Range of returns to show.
    behavior, candidate : (ndarray, ndarray)
        Returns at which the function steps, and its value from each of them on; that of the
        candidate is empty where the log does not support an estimate.
    band : (ndarray, ndarray, ndarray) or None
        The same for a lower and an upper bound on the candidate's.
    band_label : str
    marks : tuple of Mark
    """

    extent: tuple[float, float]
    behavior: tuple[FloatArray, FloatArray]
    candidate: tuple[FloatArray, FloatArray]
    band: tuple[FloatArray, FloatArray, FloatArray] | None
    band_label: str
    marks: tuple[Mark, ...]

    def at(self, x: float, subject: str) -> str:
        """Shares of episodes at or below x, in words."""
        texts = []
        if self.candidate[0].size:
            texts.append(f"candidate {_share(_step(*self.candidate, x))}")
        if self.band is not None:
            places, lower, upper = self.band
            low, high = 100 * _step(places, lower, x), 100 * _step(places, upper, x)
            texts.append(f"band {bounds_text(low, high)}%")
        texts.append(f"behavior {_share(_step(*self.behavior, x))}")
        return f"{subject} at most {number(x)}: {', '.join(texts)}"

    @property
    def behavior_label(self) -> str:
        """Name of the line of the behavior, which may hide that of the candidate."""
        return f"behavior, as logged{' (the two lines coincide)' * self.coincide}"

    @property
    def coincide(self) -> bool:
        """Whether the two lines cannot be told apart in a picture."""
        if not self.candidate[0].size:
            return False
        places = np.union1d(self.candidate[0], self.behavior[0])
        gaps = [_step(*self.candidate, x) - _step(*self.behavior, x) for x in places.tolist()]
        return bool(np.abs(gaps).max() < _INVISIBLE)


def _step(places: FloatArray, levels: FloatArray, x: float) -> float:
    """Value at x of a step function that is 0 before the first place."""
    k = int(np.searchsorted(places, x, side="right")) - 1
    return float(levels[k]) if k >= 0 else 0.0


def _share(level: float) -> str:
    return f"{100 * level:.3g}%"


def distribution_chart(result: EvaluationView, stats: TrajectoryStatistics) -> DistributionChart:
    """Distribution functions of candidate and behavior, the band, and marks at the quantiles."""
    marks = tuple(
        Mark(float(p), one.estimate, one.interval.lower, one.interval.upper, one.quantity.label)
        for one in result.quantities.values()
        if one.quantity.kind == "quantile" and (p := one.quantity.parameter) is not None
    )
    band, weights = result.band, stats.weights
    unknown = missing_support(stats) is not None
    name = ""
    if band is not None:
        consistent = all(one.interval.consistent for one in result.quantities.values())
        word = label_word(band.guaranteed) if consistent and band.consistent else "contradictory"
        name = f"{percent(band.delta)} {word} band"
    return DistributionChart(
        extent=return_extent(result),
        behavior=_distribution(stats.returns, np.ones_like(stats.returns)),
        candidate=(np.empty(0), np.empty(0)) if unknown else _distribution(stats.returns, weights),
        band=None if band is None else band.steps(),
        band_label=name,
        marks=marks,
    )


def return_extent(result: EvaluationView) -> tuple[float, float]:
    """Range of returns to show: those logged, and the bounds tighter than the a priori range."""
    stats = result.stats
    values = [] if stats is None else [float(stats.returns.min()), float(stats.returns.max())]
    for one in location_results(result):
        values += [one.estimate, one.behavior]
        for interval in one.intervals:
            low, high = interval.a_priori
            values += [bound for bound in (interval.lower, interval.upper) if low < bound < high]
            values += [] if stats is not None else [low, high]
    finite = [value for value in values if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    margin = 0.04 * (high - low) or 0.5
    return low - margin, high + margin


def location_results(result: EvaluationView) -> list[QuantityView]:
    """Results that are places on the axis of the return."""
    return [one for one in result.quantities.values() if one.quantity.is_location]


def _distribution(returns: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Steps of a distribution function, thinned to what a picture resolves."""
    distribution = WeightedDistribution.of(returns, weights)
    last = np.append(np.diff(distribution.values) > 0.0, True)  # of equal returns
    values, levels = distribution.values[last], distribution.levels[last]
    if values.size > _MOST_STEPS:
        evenly = np.linspace(0, values.size - 1, _MOST_STEPS // 2).astype(int)
        by_level = np.searchsorted(levels, np.linspace(0.0, 1.0, _MOST_STEPS // 2, endpoint=False))
        picked = np.unique(np.concatenate([evenly, by_level]))
        values, levels = values[picked], levels[picked]
    return values, levels


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
