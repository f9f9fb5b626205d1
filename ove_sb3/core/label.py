"""The label: the one place that decides whether an interval is guaranteed."""

from __future__ import annotations

from dataclasses import dataclass

INCONSISTENT = (
    "the lower bound exceeds the upper bound, so a bound or an assumption is wrong. Usual causes: "
    "logged probabilities that are not those of the executed actions, episodes selected by their "
    "outcome, or bad luck of probability at most delta"
)
UNFINISHED = (
    "the number of episodes was not fixed in advance, and those under way when logging stopped are "
    "left out, which the method does not account for: use method='betting', or fix the number of "
    "episodes (ove_sb3.collect)"
)
BEGINNINGS_UNKNOWN = (
    "it is not known of all episodes when they began, or the log was cut in a way that depends on "
    "how it went on: evaluate each log as it was logged"
)


@dataclass(frozen=True)
class Evidence:
    """Facts about the log and the candidate that decide the label.

    Attributes
    ----------
    adaptive : bool
        The behavior changed based on earlier episodes.
    candidate_depends_on_log : bool
        The candidate was trained on the logged episodes.
    """

    adaptive: bool = False
    candidate_depends_on_log: bool = False


@dataclass(frozen=True)
class Label:
    """Whether an interval is guaranteed, and if not, why.

    Attributes
    ----------
    guaranteed : bool
    reasons : tuple of str
        Why it is not; empty if it is.
    """

    guaranteed: bool
    reasons: tuple[str, ...]


def decide_label(
    evidence: Evidence,
    *,
    method_proven: bool,
    range_from_data: bool,
    consistent: bool,
    handles_unfinished: bool = True,
    beginnings_known: bool = True,
) -> Label:
    """Decide whether an interval is guaranteed.

    Parameters
    ----------
    evidence : Evidence
        Facts about the log and the candidate.
    method_proven : bool
        The method's coverage is proven at finite n.
    range_from_data : bool
        A range was taken from the data instead of being stated.
    consistent : bool
        The lower bound does not exceed the upper one.
    handles_unfinished : bool
        The method is valid for this number of trajectories, and for those that never ended.
    beginnings_known : bool
        It is known which trajectories were begun, and in which order.
    """
    reasons = []
    if not method_proven:
        reasons.append("the method is an approximation for large n")
    if range_from_data:
        reasons.append("the range of rewards was taken from the data instead of being stated")
    if evidence.candidate_depends_on_log:
        reasons.append("the candidate was trained on these trajectories, so coverage is unknown")
    if not handles_unfinished:
        reasons.append(UNFINISHED)
    if not beginnings_known:
        reasons.append(BEGINNINGS_UNKNOWN)
    if not consistent:
        reasons.append(INCONSISTENT)
    return Label(guaranteed=not reasons, reasons=tuple(reasons))
