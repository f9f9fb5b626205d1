"""The plotting area of a chart in SVG: axes, text and coordinates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ove_sb3._escape import escape
from ove_sb3._validation import FloatArray

from .numbers import number
from .shapes import ticks

NARROW, WIDE = 360, 740  # widths: of a phone, and of a page
TOP, BOTTOM, RIGHT = 12, 42, 12
CHARACTER = 7.3  # width of a character of a wide font


class Frame:
    """A plotting area with axes, from data to picture coordinates.

    Parameters
    ----------
    x, y : (float, float)
        Ranges of the data.
    height, width, left : int
        Size of the picture, and of the margin on the left.
    """

    def __init__(
        self,
        x: tuple[float, float],
        y: tuple[float, float],
        height: int,
        left: int = 46,
        width: int = NARROW,
    ) -> None:
        self.x_range, self.y_range, self.height = _open(x), _open(y), height
        self.left, self.width = left, width

    @property
    def right(self) -> int:
        """Right end of the plotting area."""
        return self.width - RIGHT

    @property
    def bottom(self) -> int:
        """Lower end of the plotting area."""
        return self.height - BOTTOM

    def x(self, value: float) -> float:
        """Horizontal place of a value, at an end of the area if it lies outside."""
        low, high = self.x_range
        inside = min(max(value, low), high)
        return self.left + (inside - low) / (high - low) * (self.right - self.left)

    def y(self, value: float) -> float:
        """Vertical place of a value."""
        low, high = self.y_range
        return self.bottom - (value - low) / (high - low) * (self.bottom - TOP)

    def path(self, xs: FloatArray, ys: FloatArray) -> str:
        """Line through points."""
        return joined([(self.x(a), self.y(b)) for a, b in zip(xs, ys, strict=True)])

    def steps(self, xs: FloatArray, ys: FloatArray, end: float) -> list[tuple[float, float]]:
        """Corners of a step function that has the value y from x on, up to `end`."""
        corners = zip(np.append(np.repeat(xs, 2)[1:], end), np.repeat(ys, 2), strict=True)
        return [(self.x(a), self.y(b)) for a, b in corners]

    def x_axis(self, title: str) -> list[str]:
        """Axis with ticks and a title."""
        bottom = self.bottom
        parts = [f'<path class="axis" d="M{self.left} {bottom} H{self.right}"/>']
        for tick in ticks(*self.x_range):
            at = self.x(tick)
            parts.append(f'<path class="axis" d="M{at:.1f} {bottom} v4"/>')
            parts.append(text(at, bottom + 17, number(tick), "middle"))
        middle = (self.left + self.right) / 2
        parts.append(text(middle, self.height - 6, title, "middle"))
        return parts

    def y_axis(self) -> list[str]:
        """Horizontal lines at round percentages."""
        parts = []
        for tick in ticks(*self.y_range):
            at = self.y(tick)
            parts.append(f'<path class="grid" d="M{self.left} {at:.1f} H{self.right}"/>')
            parts.append(text(self.left - 6, at + 4, f"{100 * tick:g}%", "end"))
        return parts

    def strips(self, edges: FloatArray, titles: Sequence[str]) -> list[str]:
        """Invisible columns between `edges` of the x-axis, each with a text on hover."""
        places = [self.x(float(edge)) for edge in edges]
        return [
            f'<rect class="hover" x="{x0:.1f}" y="{TOP}" width="{x1 - x0:.1f}" '
            f'height="{self.bottom - TOP}"><title>{escape(title)}</title></rect>'
            for x0, x1, title in zip(places[:-1], places[1:], titles, strict=True)
        ]

    def svg(self, title: str, parts: Sequence[str], kind: str = "") -> str:
        """The whole picture."""
        shown = f' class="{kind}"' if kind else ""
        return (
            f'<svg{shown} viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{escape(title)}">{"".join(parts)}</svg>'
        )


def joined(points: Sequence[tuple[float, float]]) -> str:
    """Path through places of the picture."""
    return "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def short(label: str, most: int = 20) -> str:
    """A label of at most that many characters."""
    return label if len(label) <= most else f"{label[: most - 1]}…"


def text(x: float, y: float, content: str, anchor: str, kind: str = "tick") -> str:
    """Text of a chart."""
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}'
        "</text>"
    )


def titled(title: str, *parts: str) -> str:
    """Parts of a picture that show `title` on hover."""
    return f"<g><title>{escape(title)}</title>{''.join(parts)}</g>"


def _open(pair: tuple[float, float]) -> tuple[float, float]:
    """A range of positive width."""
    low, high = float(pair[0]), float(pair[1])
    return (low, high) if high > low else (low - 0.5, high + 0.5)
