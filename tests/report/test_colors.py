"""The colors of reports and figures can be told apart, also with a color vision deficiency."""

from __future__ import annotations

import re

import pytest

from ove_sb3.report.shapes import BLUE, ORANGE, SKY
from ove_sb3.report.style import STYLE

from .vision import DEFICIENCIES, contrast, distance


def palette(rule: str) -> dict[str, str]:
    """Colors that a part of the style sheet defines."""
    return dict(re.findall(r"--(\w+): (#\w+);", STYLE.partition(rule)[2].partition("}")[0]))


SCHEMES = {
    "light": palette(":root {"),
    "dark": palette("(prefers-color-scheme: dark) {"),
    "print": palette("@media print {"),
}


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
@pytest.mark.parametrize("deficiency", sorted(set(DEFICIENCIES) - {"no colors"}))
def test_lines_and_bars_differ(scheme: str, deficiency: str) -> None:
    colors = SCHEMES[scheme]
    assert len(colors) >= 9
    for first, second in (("candidate", "behavior"), ("candidate", "sky"), ("sky", "behavior")):
        assert distance(colors[first], colors[second], deficiency) > 20, (first, second)


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
def test_text_is_readable(scheme: str) -> None:
    colors = SCHEMES[scheme]
    for name in ("ink", "faint", "good", "bad"):
        for ground in ("paper", "panel"):
            assert contrast(colors[name], colors[ground]) >= 4.5, (name, ground)
    for name in ("candidate", "behavior"):
        assert contrast(colors[name], colors["paper"]) >= 3.0, name


def test_nothing_is_told_by_color_alone() -> None:
    """Without colors, lines differ by dashes and bars by their thickness."""
    assert ".function.behavior { stroke: var(--behavior); stroke-dasharray" in STYLE
    assert ".logged { stroke: var(--behavior); stroke-dasharray" in STYLE
    widths = [
        float(re.findall(pattern, STYLE)[0])
        for pattern in (r"\.bar \{ stroke-width: (\d+)", r"bar\.approximate .*?stroke-width: (\d+)")
    ]
    assert widths[0] > 1.5 * widths[1]
    light = SCHEMES["light"]
    assert (light["candidate"], light["sky"], light["behavior"]) == (BLUE, SKY, ORANGE)


def test_the_check_would_notice_red_and_green() -> None:
    assert distance("#d62728", "#2ca02c", "none") > 100
    assert min(distance("#b5651d", "#6b8e23", name) for name in DEFICIENCIES) < 20
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
