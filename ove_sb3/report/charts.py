"""Charts as inline SVG, colored by the style sheet of the page: light, dark and print."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.core.statistics import TrajectoryStatistics

from .escape import escape
from .numbers import number
from .shapes import IntervalChart, concentration, histogram, ticks

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 360, 46, 12, 12, 42
_CHARACTER = 7.3  # width of a character of a wide font


class _Frame:
    """A plotting area with axes, from data to picture coordinates."""

    def __init__(
        self, x: tuple[float, float], y: tuple[float, float], height: int, left: int = _LEFT
    ) -> None:
        self.x_range, self.y_range, self.height, self.left = _open(x), _open(y), height, left

    def x(self, value: float) -> float:
        low, high = self.x_range
        return self.left + (value - low) / (high - low) * (_WIDTH - self.left - _RIGHT)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return self.height - _BOTTOM - (value - low) / (high - low) * (self.height - _TOP - _BOTTOM)

    def path(self, xs: FloatArray, ys: FloatArray) -> str:
        points = (f"{self.x(a):.1f} {self.y(b):.1f}" for a, b in zip(xs, ys, strict=True))
        return "M" + " L".join(points)

    def x_axis(self, title: str) -> list[str]:
        bottom = self.height - _BOTTOM
        parts = [f'<path class="axis" d="M{self.left} {bottom} H{_WIDTH - _RIGHT}"/>']
        for tick in ticks(*self.x_range):
            at = self.x(tick)
            parts.append(f'<path class="axis" d="M{at:.1f} {bottom} v4"/>')
            parts.append(_text(at, bottom + 17, number(tick), "middle"))
        middle = (self.left + _WIDTH - _RIGHT) / 2
        parts.append(_text(middle, self.height - 6, title, "middle"))
        return parts

    def y_axis(self) -> list[str]:
        parts = []
        for tick in ticks(*self.y_range, most=4):
            at = self.y(tick)
            parts.append(f'<path class="grid" d="M{self.left} {at:.1f} H{_WIDTH - _RIGHT}"/>')
            parts.append(_text(self.left - 6, at + 4, f"{100 * tick:g}%", "end"))
        return parts

    def svg(self, title: str, parts: Sequence[str]) -> str:
        return (
            f'<svg viewBox="0 0 {_WIDTH} {self.height}" role="img" aria-label="{escape(title)}">'
            f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
        )


def returns_chart(stats: TrajectoryStatistics) -> str:
    """Distribution of the return: as logged, and reweighted for the candidate."""
    shape = histogram(stats)
    top = float(max(shape.behavior.max(), shape.candidate.max()))
    frame = _Frame((shape.edges[0], shape.edges[-1]), (0.0, 1.05 * top), 220)
    parts = frame.y_axis()
    for values, kind in ((shape.behavior, "behavior"), (shape.candidate, "candidate")):
        outline = frame.path(
            np.repeat(shape.edges, 2), np.concatenate([[0.0], np.repeat(values, 2), [0.0]])
        )
        parts.append(f'<path class="stairs {kind}" d="{outline}"/>')
    return frame.svg("Distribution of the return", [*parts, *frame.x_axis("return")])


def weights_chart(stats: TrajectoryStatistics) -> str:
    """How much of the weight the heaviest episodes carry."""
    share, carried = concentration(stats.weights)
    frame = _Frame((0.0, 100.0), (0.0, 1.0), 220)
    equal = frame.path(np.array([0.0, 100.0]), np.array([0.0, 1.0]))
    parts = [
        *frame.y_axis(),
        f'<path class="equal" d="{equal}"/>',
        f'<path class="line candidate" d="{frame.path(100 * share, carried)}"/>',
        *frame.x_axis("% of episodes, heaviest first"),
    ]
    return frame.svg("Concentration of the weight", parts)


def intervals_chart(chart: IntervalChart) -> str:
    """Intervals one below the other, and the behavior's value as a dashed line."""
    bars, logged, title = chart.bars, chart.behavior, chart.title
    low, high = chart.extent
    margin = 0.05 * (high - low)
    left = 16 + round(_CHARACTER * max(len(_short(bar.label)) for bar in bars))
    height = _TOP + _BOTTOM + 30 * len(bars)
    frame = _Frame((low - margin, high + margin), (0.0, len(bars)), height, left)
    at = frame.x(logged)
    parts = [f'<path class="logged" d="M{at:.1f} {_TOP} V{height - _BOTTOM}"/>']
    for row, bar in enumerate(reversed(bars)):
        y = frame.y(row + 0.5)
        x0, x1 = sorted((frame.x(bar.lower), frame.x(bar.upper)))
        parts.append(f'<path class="bar {bar.kind}" d="M{x0:.1f} {y:.1f} H{max(x1, x0 + 1):.1f}"/>')
        if math.isfinite(bar.estimate):
            middle = frame.x(bar.estimate)
            parts.append(f'<circle class="dot {bar.kind}" cx="{middle:.1f}" cy="{y:.1f}" r="4"/>')
        parts.append(_text(left - 8, y + 4, _short(bar.label), "end"))
    return frame.svg(title, [*parts, *frame.x_axis(title)])


def _short(label: str, most: int = 20) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"


def _text(x: float, y: float, content: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'


def _open(pair: tuple[float, float]) -> tuple[float, float]:
    """A range of positive width."""
    low, high = float(pair[0]), float(pair[1])
    return (low, high) if high > low else (low - 0.5, high + 0.5)
