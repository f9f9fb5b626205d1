"""Numbers and tables as plain text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ove_sb3.core.results import Interval


def number(value: float) -> str:
    """Four significant digits, without an exponent where that is readable."""
    if 1e4 <= abs(value) < 1e7:
        return f"{value:.0f}"
    return f"{value:.4g}"


def bounds(interval: Interval | None) -> str:
    """``[lower, upper]``, or a dash."""
    if interval is None:
        return "-"
    return f"[{number(interval.lower)}, {number(interval.upper)}]"


def count(value: float) -> str:
    """A number of episodes that need not be whole."""
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def percent(delta: float) -> str:
    """Confidence in percent, never rounded up."""
    missed = 100 * delta
    scale = 10.0 ** (1 - math.floor(math.log10(missed)))
    return f"{100 - math.ceil(missed * scale - 1e-6) / scale:.12g}%"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned lines: the first column to the left, the others to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]
        lines.append("   ".join(cells).rstrip())
    return lines
