"""Charts as inline SVG, colored by the style sheet of the page: light, dark and print."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ove_sb3._escape import escape
from ove_sb3._validation import FloatArray
from ove_sb3.core.statistics import TrajectoryStatistics

from .numbers import number
from .shapes import Bar, DistributionChart, IntervalChart, concentration, ticks

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 360, 46, 12, 12, 42
_WIDE, _WIDE_LEFT = 740, 150
_CHARACTER = 7.3  # width of a character of a wide font


class _Frame:
    """A plotting area with axes, from data to picture coordinates."""

    def __init__(
        self,
        x: tuple[float, float],
        y: tuple[float, float],
        height: int,
        left: int = _LEFT,
        width: int = _WIDTH,
    ) -> None:
        self.x_range, self.y_range, self.height = _open(x), _open(y), height
        self.left, self.width = left, width

    def x(self, value: float) -> float:
        low, high = self.x_range
        return self.left + (value - low) / (high - low) * (self.width - self.left - _RIGHT)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return self.height - _BOTTOM - (value - low) / (high - low) * (self.height - _TOP - _BOTTOM)

    def path(self, xs: FloatArray, ys: FloatArray) -> str:
        return _joined([(self.x(a), self.y(b)) for a, b in zip(xs, ys, strict=True)])

    def steps(self, xs: FloatArray, ys: FloatArray, end: float) -> list[tuple[float, float]]:
        """Corners of a step function that has the value y from x on, up to `end`."""
        corners = zip(np.append(np.repeat(xs, 2)[1:], end), np.repeat(ys, 2), strict=True)
        return [(self.x(a), self.y(b)) for a, b in corners]

    def x_axis(self, title: str) -> list[str]:
        bottom = self.height - _BOTTOM
        parts = [f'<path class="axis" d="M{self.left} {bottom} H{self.width - _RIGHT}"/>']
        for tick in ticks(*self.x_range):
            at = self.x(tick)
            parts.append(f'<path class="axis" d="M{at:.1f} {bottom} v4"/>')
            parts.append(_text(at, bottom + 17, number(tick), "middle"))
        middle = (self.left + self.width - _RIGHT) / 2
        parts.append(_text(middle, self.height - 6, title, "middle"))
        return parts

    def y_axis(self) -> list[str]:
        parts = []
        for tick in ticks(*self.y_range):
            at = self.y(tick)
            parts.append(f'<path class="grid" d="M{self.left} {at:.1f} H{self.width - _RIGHT}"/>')
            parts.append(_text(self.left - 6, at + 4, f"{100 * tick:g}%", "end"))
        return parts

    def svg(self, title: str, parts: Sequence[str]) -> str:
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{escape(title)}"><title>{escape(title)}</title>{"".join(parts)}</svg>'
        )


def distribution_svg(chart: DistributionChart, subject: str) -> str:
    """Distribution functions of behavior and candidate, the band, and marks at the quantiles."""
    frame = _Frame(chart.extent, (-0.06, 1.06), 320, _WIDE_LEFT, _WIDE)
    low, high = chart.extent
    parts = frame.y_axis()
    if chart.band is not None:
        x, lower, upper = chart.band
        x = np.clip(x, low, high)
        up, down = frame.steps(x, upper, high), frame.steps(x, lower, high)
        parts.append(f'<path class="band" d="{_joined(up)} L{_joined(down[::-1])[1:]} Z"/>')
    for kind, (values, levels) in (("behavior", chart.behavior), ("candidate", chart.candidate)):
        if values.size:
            outline = frame.steps(np.append(low, values), np.append(0.0, levels), high)
            parts.append(f'<path class="function {kind}" d="{_joined(outline)}"/>')
    for mark in chart.marks:
        y = frame.y(mark.level)
        x0, x1 = sorted(frame.x(min(max(end, low), high)) for end in (mark.lower, mark.upper))
        parts.append(f'<path class="mark" d="M{x0:.1f} {y:.1f} H{max(x1, x0 + 1):.1f}"/>')
        if math.isfinite(mark.estimate):
            middle = frame.x(mark.estimate)
            parts.append(f'<circle class="mark" cx="{middle:.1f}" cy="{y:.1f}" r="4"/>')
        # Below a rising curve to the right, above it to the left.
        place = (x1 + 8, y + 15, "start") if mark.level < 0.5 else (x0 - 8, y - 7, "end")
        parts.append(_text(*place[:2], mark.label, place[2], "note"))
    return frame.svg("Distribution of the return", [*parts, *frame.x_axis(subject)])


def locations_svg(
    charts: Sequence[tuple[str, IntervalChart]], extent: tuple[float, float], subject: str
) -> str:
    """Intervals of several quantities on the axis of the return, one below the other."""
    height = _TOP + _BOTTOM + 38 * len(charts)
    frame = _Frame(extent, (0.0, len(charts)), height, _WIDE_LEFT, _WIDE)
    parts = []
    for row, (name, chart) in enumerate(charts):
        y = frame.y(len(charts) - row - 0.5)
        offsets = (-6, 8) if len(chart.bars) > 1 else (0,)
        for offset, bar in zip(offsets, chart.bars, strict=True):
            parts += _bar(frame, bar, y + offset)
        at = frame.x(chart.behavior)
        parts.append(f'<path class="logged" d="M{at:.1f} {y - 15:.1f} v30"/>')
        parts.append(_text(_WIDE_LEFT - 8, y + 4, _short(name), "end"))
    return frame.svg("Intervals on the axis of the return", [*parts, *frame.x_axis(subject)])


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
        parts += _bar(frame, bar, y)
        parts.append(_text(left - 8, y + 4, _short(bar.label), "end"))
    return frame.svg(title, [*parts, *frame.x_axis(title)])


def _bar(frame: _Frame, bar: Bar, y: float) -> list[str]:
    """An interval, cut where the picture ends, and its estimate."""
    low, high = frame.x_range
    x0, x1 = sorted(frame.x(min(max(end, low), high)) for end in (bar.lower, bar.upper))
    parts = [f'<path class="bar {bar.kind}" d="M{x0:.1f} {y:.1f} H{max(x1, x0 + 1):.1f}"/>']
    if math.isfinite(bar.estimate):
        middle = frame.x(bar.estimate)
        parts.append(f'<circle class="dot {bar.kind}" cx="{middle:.1f}" cy="{y:.1f}" r="4"/>')
    return parts


def _joined(points: Sequence[tuple[float, float]]) -> str:
    return "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _short(label: str, most: int = 20) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"


def _text(x: float, y: float, content: str, anchor: str, kind: str = "tick") -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}'
        "</text>"
    )


def _open(pair: tuple[float, float]) -> tuple[float, float]:
    """A range of positive width."""
    low, high = float(pair[0]), float(pair[1])
    return (low, high) if high > low else (low - 0.5, high + 0.5)
