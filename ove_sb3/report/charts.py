"""Charts as inline SVG, colored by the style sheet of the page: light, dark and print.

A wide chart comes twice, for a page and for a phone; the style sheet shows one of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ove_sb3.core.interval import bounds_text
from ove_sb3.core.statistics import TrajectoryStatistics

from .frame import BOTTOM, CHARACTER, NARROW, TOP, WIDE, Frame, joined, short, text, titled
from .numbers import number
from .shapes import Bar, DistributionChart, IntervalChart, Mark, concentration

_WIDE_LEFT = 150
_STRIPS = {WIDE: 60, NARROW: 30}
_SIZES = (("wide-only", WIDE), ("narrow-only", NARROW))


def distribution_svg(chart: DistributionChart, subject: str) -> str:
    """Distribution functions of behavior and candidate, the band, and marks at the quantiles."""
    return "".join(_distribution(chart, subject, kind, width) for kind, width in _SIZES)


def _distribution(chart: DistributionChart, subject: str, kind: str, width: int) -> str:
    low, high = chart.extent
    left = _WIDE_LEFT if width == WIDE else 46
    frame = Frame(chart.extent, (-0.06, 1.06), 320 if width == WIDE else 260, left, width)
    parts = frame.y_axis()
    if chart.band is not None:
        x, lower, upper = chart.band
        x = np.clip(x, low, high)
        up, down = frame.steps(x, upper, high), frame.steps(x, lower, high)
        parts.append(f'<path class="band" d="{joined(up)} L{joined(down[::-1])[1:]} Z"/>')
    # The dashed line last: where the two coincide, both are seen.
    for policy, (values, levels) in (("candidate", chart.candidate), ("behavior", chart.behavior)):
        if values.size:
            outline = frame.steps(np.append(low, values), np.append(0.0, levels), high)
            parts.append(f'<path class="function {policy}" d="{joined(outline)}"/>')
    edges = np.linspace(low, high, _STRIPS[width] + 1)
    parts += frame.strips(
        edges, [chart.at(float(x), subject) for x in (edges[:-1] + edges[1:]) / 2]
    )
    parts += _marks(frame, chart.marks)
    return frame.svg("Distribution of the return", [*parts, *frame.x_axis(subject)], kind)


def _marks(frame: Frame, marks: Sequence[Mark]) -> list[str]:
    """Quantiles with their intervals; a name is left out where it would cover another."""
    parts: list[str] = []
    taken: list[tuple[float, float, float]] = []
    for mark in marks:
        y = frame.y(mark.level)
        x0, x1 = sorted((frame.x(mark.lower), frame.x(mark.upper)))
        shown = [f'<path class="mark" d="M{x0:.1f} {y:.1f} H{max(x1, x0 + 1):.1f}"/>']
        if math.isfinite(mark.estimate):
            middle = frame.x(mark.estimate)
            shown.append(f'<circle class="mark" cx="{middle:.1f}" cy="{y:.1f}" r="4"/>')
        interval = bounds_text(mark.lower, mark.upper)
        parts.append(titled(f"{mark.label}: estimate {number(mark.estimate)}, {interval}", *shown))
        begin, at, anchor = _name_place(frame, mark, x0, x1, y)
        end = begin + CHARACTER * len(mark.label)
        if any(begin < other_end and end > x and abs(at - h) < 13 for x, other_end, h in taken):
            continue
        taken.append((begin, end, at))
        parts.append(text(end if anchor == "end" else begin, at, mark.label, anchor, "note"))
    return parts


def _name_place(
    frame: Frame, mark: Mark, x0: float, x1: float, y: float
) -> tuple[float, float, str]:
    """Where the name of a mark from x0 to x1 begins, its height, and the end that is exact.

    Below a rising curve to the right, or above it to the left; in the middle if there is no room.
    """
    length = CHARACTER * len(mark.label)
    left, right = x0 - 8 - length, x1 + 8
    fits_left, fits_right = left >= frame.left, right + length <= frame.right
    at = y + 15 if mark.level < 0.5 else y - 7
    if fits_right and (mark.level < 0.5 or not fits_left):
        return right, at, "start"
    if fits_left:
        return left, at, "end"
    return (x0 + x1 - length) / 2, y - 7, "start"


def locations_svg(
    charts: Sequence[tuple[str, IntervalChart]], extent: tuple[float, float], subject: str
) -> str:
    """Intervals of several quantities on the axis of the return, one below the other."""
    return "".join(_locations(charts, extent, subject, kind, width) for kind, width in _SIZES)


def _locations(
    charts: Sequence[tuple[str, IntervalChart]],
    extent: tuple[float, float],
    subject: str,
    kind: str,
    width: int,
) -> str:
    height = TOP + BOTTOM + 38 * len(charts)
    left = _WIDE_LEFT if width == WIDE else _margin([name for name, _ in charts])
    frame = Frame(extent, (0.0, len(charts)), height, left, width)
    parts = []
    for row, (name, chart) in enumerate(charts):
        y = frame.y(len(charts) - row - 0.5)
        offsets = (-6, 8) if len(chart.bars) > 1 else (0,)
        for offset, bar in zip(offsets, chart.bars, strict=True):
            parts.append(_bar(frame, bar, y + offset, f"{name}, "))
        parts.append(_logged(frame, chart.behavior, y - 15, y + 15, name))
        parts.append(text(left - 8, y + 4, short(name), "end"))
    title = "Intervals on the axis of the return"
    return frame.svg(title, [*parts, *frame.x_axis(subject)], kind)


def weights_chart(stats: TrajectoryStatistics) -> str:
    """How much of the weight the heaviest episodes carry."""
    share, carried = concentration(stats.weights)
    frame = Frame((0.0, 100.0), (0.0, 1.0), 220)
    equal = frame.path(np.array([0.0, 100.0]), np.array([0.0, 1.0]))
    edges = np.linspace(0.0, 100.0, 21)
    titles = [
        f"The heaviest {number(float(x))}% of episodes carry "
        f"{100 * float(np.interp(x / 100, share, carried)):.3g}% of the weight"
        for x in edges[1:]
    ]
    parts = [
        *frame.y_axis(),
        f'<path class="equal" d="{equal}"/>',
        f'<path class="line candidate" d="{frame.path(100 * share, carried)}"/>',
        *frame.strips(edges, titles),
        *frame.x_axis("% of episodes, heaviest first"),
    ]
    return frame.svg("Concentration of the weight", parts)


def intervals_chart(chart: IntervalChart) -> str:
    """Intervals one below the other, and the behavior's value as a dashed line."""
    bars, title = chart.bars, chart.title
    low, high = chart.extent
    margin = 0.05 * (high - low)
    left = _margin([bar.label for bar in bars])
    height = TOP + BOTTOM + 30 * len(bars)
    frame = Frame((low - margin, high + margin), (0.0, len(bars)), height, left)
    parts = [_logged(frame, chart.behavior, TOP, frame.bottom, "")]
    for row, bar in enumerate(reversed(bars)):
        y = frame.y(row + 0.5)
        parts.append(_bar(frame, bar, y))
        parts.append(text(left - 8, y + 4, short(bar.label), "end"))
    return frame.svg(title, [*parts, *frame.x_axis(title)])


def _margin(labels: Sequence[str]) -> int:
    return 16 + round(CHARACTER * max(len(short(label)) for label in labels))


def _bar(frame: Frame, bar: Bar, y: float, prefix: str = "") -> str:
    """An interval, with a triangle where it continues beyond the picture, and its estimate."""
    low, high = frame.x_range
    x0, x1 = sorted((frame.x(bar.lower), frame.x(bar.upper)))
    parts = [f'<path class="bar {bar.kind}" d="M{x0:.1f} {y:.1f} H{max(x1, x0 + 1):.1f}"/>']
    if min(bar.lower, bar.upper) < low:
        parts.append(f'<path class="more {bar.kind}" d="M{x0:.1f} {y - 6:.1f} l-9 6 l9 6 Z"/>')
    if max(bar.lower, bar.upper) > high:
        parts.append(f'<path class="more {bar.kind}" d="M{x1:.1f} {y - 6:.1f} l9 6 l-9 6 Z"/>')
    estimate = ""
    if math.isfinite(bar.estimate):
        middle = frame.x(bar.estimate)
        parts.append(f'<circle class="dot {bar.kind}" cx="{middle:.1f}" cy="{y:.1f}" r="4"/>')
        estimate = f", estimate {number(bar.estimate)}"
    interval = bounds_text(bar.lower, bar.upper)
    return titled(f"{prefix}{bar.label}: {interval}{estimate}", *parts)


def _logged(frame: Frame, value: float, top: float, bottom: float, name: str) -> str:
    """The behavior's value, with room around it to point at."""
    at = frame.x(value)
    line = f'd="M{at:.1f} {top:.1f} V{bottom:.1f}"/>'
    title = f"{name}, behavior as logged" if name else "behavior, as logged"
    shown = [f'<path class="around" {line}', f'<path class="logged" {line}']
    return titled(f"{title}: {number(value)}", *shown)
