"""Legends of charts: a sample of every line and shape, and its name."""

from __future__ import annotations

from collections.abc import Sequence

from ove_sb3._escape import escape

_LINE = '<path class="{}" d="M2 7 H28"/>'
_SAMPLES = {
    "candidate": _LINE.format("function candidate"),
    "behavior": _LINE.format("function behavior"),
    "band": '<rect class="band" x="2" y="1" width="26" height="12"/>',
    "mark": _LINE.format("mark") + '<circle class="mark" cx="15" cy="7" r="4"/>',
    "main": _LINE.format("bar main") + '<circle class="dot main" cx="15" cy="7" r="4"/>',
    "approximate": _LINE.format("bar approximate")
    + '<circle class="dot approximate" cx="15" cy="7" r="4"/>',
    "logged": '<path class="logged" d="M15 0 V14"/>',
    "equal": _LINE.format("equal"),
}

Entry = tuple[str, str]  # kind of line, and its name


def legend(entries: Sequence[Entry]) -> str:
    """Samples and names in a row, as HTML."""
    items = "".join(
        f'<span><svg class="sample" viewBox="0 0 30 14" aria-hidden="true">{_SAMPLES[kind]}</svg>'
        f"{escape(name)}</span>"
        for kind, name in entries
    )
    return f'<p class="legend">{items}</p>'
