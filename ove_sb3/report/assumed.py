"""The assumptions of a report: each once, with how it was checked."""

from __future__ import annotations

from collections.abc import Mapping

from ove_sb3.core.interval import Interval
from ove_sb3.core.stated import how_checked

from . import html
from .numbers import label, number
from .views import EvaluationView


def assumptions_section(evaluations: Mapping[str, EvaluationView]) -> str:
    """Meaning of the intervals, given by candidate, and their assumptions."""
    intervals = {name: _least_guaranteed(result) for name, result in evaluations.items()}
    several = len(evaluations) > 1
    kinds: dict[str, None] = {}
    needed: dict[str, str] = {}
    reasons: dict[str, list[str]] = {}
    for name, of_candidate in intervals.items():
        for interval in of_candidate:
            kinds.setdefault(_promise(interval))
            for text in interval.assumptions:
                if text not in interval.reasons:
                    needed.setdefault(text, how_checked(text))
            for text in interval.reasons:
                owner = f"{name}, {interval.method}" if several else interval.method
                reasons.setdefault(text, []).append(owner)
    rows = [(_sentence(text), "", checked) for text, checked in needed.items()]
    parts = [html.bullets(list(kinds)), html.paragraph("They assume all of the following.")]
    parts.append(html.definitions(rows, "long"))
    if reasons:
        texts = [f"{_sentence(text)} ({_owners(owners)})." for text, owners in reasons.items()]
        parts.append(html.paragraph("Not guaranteed because") + html.bullets(texts))
    return "".join(parts)


def _least_guaranteed(result: EvaluationView) -> tuple[Interval, ...]:
    least = min(result.quantities.values(), key=lambda one: one.interval.guaranteed)
    return tuple(least.intervals)


def _promise(interval: Interval) -> str:
    word = label(interval).capitalize()
    if interval.guaranteed:
        return (
            f"{word} ({interval.method}): at this number of episodes, an interval misses with "
            f"probability at most {number(interval.delta)}."
        )
    if not interval.consistent:
        return f"{word} ({interval.method}): an assumption or the log is wrong."
    return (
        f"{word} ({interval.method}): an interval misses with probability about "
        f"{number(interval.delta)}; this is not proven."
    )


def _owners(names: list[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
