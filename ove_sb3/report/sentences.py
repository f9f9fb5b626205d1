"""The answer in a sentence, and the facts behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ove_sb3.core.interval import lower_text, upper_text

from .numbers import bounds, label, number, percent
from .views import ComparisonView, EvaluationView, VerdictView


@dataclass(frozen=True)
class Answer:
    """Opening of a report.

    Attributes
    ----------
    title : str
    details : tuple of str
    tone : str
        ``"good"``, ``"bad"`` or ``""``: never the only carrier of the meaning.
    """

    title: str
    details: tuple[str, ...]
    tone: str


def evaluation_answer(result: EvaluationView, verdicts: Sequence[VerdictView]) -> Answer:
    """Whether the requirements are proven; without requirements, a summary of the intervals."""
    if not verdicts:
        return _finding(result)
    details = [str(verdict) for verdict in verdicts]
    statuses = {verdict.status for verdict in verdicts}
    if statuses == {"proven"}:
        confidence = percent(_delta(result))
        return Answer(
            f"All requirements are proven with {confidence} confidence.", tuple(details), "good"
        )
    if "refuted" in statuses:
        return Answer("Not all requirements are met.", tuple(details), "bad")
    details.append(
        "Undecided does not mean violated: more episodes, or a behavior closer to the candidate, "
        "may decide it."
    )
    return Answer("Not all requirements are proven.", tuple(details), "bad")


def tail_sentence(result: EvaluationView) -> str | None:
    """Sentence about the worst episodes from a guaranteed bound; None if there is none."""
    verb = "return" if result.subject == "return" else f"have a {result.subject} of"
    for one in result.quantities.values():
        interval = one.interval
        low, high = interval.a_priori
        meaning = one.quantity.meaning(
            lower_text(interval.lower) if interval.lower > low else None,
            upper_text(interval.upper) if interval.upper < high else None,
            verb,
        )
        if meaning is not None and interval.guaranteed:
            return f"With {percent(interval.delta)} confidence {meaning}."
    return None


def _delta(result: EvaluationView) -> float:
    return result.interval_delta if result.joint_delta is None else result.joint_delta


def next_steps(advice: Sequence[str], verdicts: Sequence[VerdictView]) -> list[str]:
    """Next steps that the verdicts call for, then advice on narrower intervals."""
    statuses = {verdict.status for verdict in verdicts}
    steps = []
    if statuses == {"proven"}:
        steps.append("Nothing is missing: all requirements are proven.")
    if "refuted" in statuses:
        steps.append(
            "More episodes will not prove a requirement that is refuted: change the candidate "
            "or the requirement."
        )
    if "undecided" in statuses:
        below = ", or follow the advice below" if advice else ""
        steps.append(
            f"An undecided requirement needs narrower intervals: log more episodes{below}."
        )
    return [*steps, *advice]


def _finding(result: EvaluationView) -> Answer:
    shown = [r for r in result.quantities.values() if r.quantity.name in ("mean", "variance")]
    details = [
        f"{_capital(r.quantity.label)}: {bounds(r.interval)}, {label(r.interval)}. Behavior: "
        f"{number(r.behavior)}."
        for r in shown or list(result.quantities.values())[:1]
    ]
    tail = tail_sentence(result)
    details += [tail] if tail is not None else []
    confidence = percent(result.interval_delta)
    main = [r.interval for r in result.quantities.values()]
    if not all(interval.consistent for interval in main):
        title = "The bounds contradict each other: an assumption or the log is wrong."
        return Answer(title, tuple(details), "bad")
    if not any(interval.informative for interval in main):
        title = "The log says too little about the candidate to bound its return."
        return Answer(title, tuple(details), "bad")
    variance = result.quantities.get("variance")
    title = f"What the log shows, with {confidence} confidence for each interval:"
    if variance is not None and variance.interval.guaranteed:
        if variance.interval.upper < variance.behavior:
            title = f"Less variable than the logged returns, with {confidence} confidence."
        elif variance.interval.lower > variance.behavior:
            title = f"More variable than the logged returns, with {confidence} confidence."
    return Answer(title, tuple(details), "")


def comparison_answer(comparison: ComparisonView) -> Answer:
    """Which candidate is best, and what is proven about the order."""
    return Answer(comparison.answer, tuple(comparison.findings), "")


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
