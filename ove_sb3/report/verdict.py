"""The answer in a sentence, and the facts behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ove_sb3.evaluation.text import number, percent

if TYPE_CHECKING:
    from ove_sb3.evaluation.many import Comparison
    from ove_sb3.evaluation.result import Evaluation


@dataclass(frozen=True)
class Verdict:
    """What the report says first.

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


def evaluation_verdict(
    result: Evaluation, *, max_variance: float | None, min_mean: float | None
) -> Verdict:
    """Whether the requirements are proven; without any, what is proven."""
    if max_variance is None and min_mean is None:
        return _finding(result)
    details = []
    if max_variance is not None:
        met = result.satisfies(max_variance=max_variance)
        upper = result.intervals["guaranteed"].upper
        details.append(
            f"Variance at most {number(max_variance)}: {_word(met)}, its guaranteed upper bound is "
            f"{number(upper)}."
        )
    if min_mean is not None:
        met = result.satisfies(min_mean=min_mean)
        lower = result.mean_intervals["guaranteed"].lower
        details.append(
            f"Mean at least {number(min_mean)}: {_word(met)}, its guaranteed lower bound is "
            f"{number(lower)}."
        )
    confidence = percent(result.settings.interval_delta)
    if result.satisfies(max_variance=max_variance, min_mean=min_mean):
        title = f"Yes: the requirements are met, with {confidence} confidence."
        return Verdict(title, tuple(details), "good")
    details.append("Not proven does not mean violated: more or better matching data may prove it.")
    return Verdict("Not proven: the requirements are not all met.", tuple(details), "bad")


def _finding(result: Evaluation) -> Verdict:
    variance, mean = result.intervals["guaranteed"], result.mean_intervals["guaranteed"]
    deviation = result.std_intervals["guaranteed"]
    confidence = percent(result.settings.interval_delta)
    details = (
        f"The variance lies between {number(variance.lower)} and {number(variance.upper)}: a "
        f"standard deviation of {number(deviation.lower)} to {number(deviation.upper)}.",
        f"The mean lies between {number(mean.lower)} and {number(mean.upper)}.",
        f"The behavior's own returns have mean {number(result.behavior_mean)} and variance "
        f"{number(result.behavior_variance)}.",
    )
    if not variance.informative:
        title = "The log says too little about the candidate to bound its variance."
        return Verdict(title, details[1:], "bad")
    if variance.upper < result.behavior_variance:
        title = f"Less variable than what was logged, with {confidence} confidence."
    elif variance.lower > result.behavior_variance:
        title = f"More variable than what was logged, with {confidence} confidence."
    else:
        title = f"What the log proves, with {confidence} confidence each:"
    return Verdict(title, details, "")


def comparison_verdict(found: Comparison) -> Verdict:
    """Who comes first, and what is proven about the order."""
    first = found[found.best]
    if found.rank_by == "variance":
        limit = f"variance at most {number(first.intervals['guaranteed'].upper)}"
        better = "a smaller variance than"
    else:
        limit = f"mean at least {number(first.mean_intervals['guaranteed'].lower)}"
        better = "a larger mean than"
    details = [f"Proven: {a} has {better} {b}." for a, b in found.proven]
    if not details:
        details = ["The order itself is not proven: the guaranteed intervals overlap."]
    title = f"{found.best} has the best bound: {limit}, with {percent(found.delta)} confidence."
    return Verdict(title, tuple(details), "")


def _word(met: bool) -> str:
    return "proven" if met else "not proven"
