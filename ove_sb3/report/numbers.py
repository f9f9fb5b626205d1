"""Numbers as plain text."""

from __future__ import annotations

import math

from ove_sb3.core.interval import Interval, bounds_text, label_word

_MOST_DECIMALS = 9  # of a confidence in percent


def number(value: float) -> str:
    """Four significant digits, without an exponent where that is readable; a dash for NaN."""
    if math.isnan(value):
        return "-"
    if 1e4 <= abs(value) < 1e7:
        return f"{value:.0f}"
    return f"{value:.4g}"


def about(value: float) -> str:
    """Three significant digits, for predictions; without an exponent where that is readable."""
    return number(float(f"{value:.3g}"))


def bounds(interval: Interval | None) -> str:
    """``[lower, upper]``, rounded outward, or a dash."""
    if interval is None:
        return "-"
    return bounds_text(interval.lower, interval.upper)


def label(*intervals: Interval) -> str:
    """Word for all the intervals: guaranteed, approximate, or contradictory."""
    if not all(interval.consistent for interval in intervals):
        return "contradictory"
    return label_word(all(interval.guaranteed for interval in intervals))


def count(value: float) -> str:
    """A number of episodes that need not be whole; a dash for NaN."""
    if math.isnan(value):
        return "-"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def percent(delta: float) -> str:
    """Confidence in percent, never rounded up."""
    missed = 100 * delta
    scale = 10.0 ** min(1 - math.floor(math.log10(missed)), _MOST_DECIMALS)
    return f"{100 - max(math.ceil(missed * scale - 1e-6), 1) / scale:.12g}%"
