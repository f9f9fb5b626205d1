"""The label: the one place that decides whether an interval is guaranteed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

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
    "the order in which episodes began is not known for all of them, or this is a part of a log "
    "whose end depends on what followed, as `split` gives where the behavior learned: evaluate the "
    "whole log"
)
ASSIGNED = (
    "episodes were assigned to several policies, which the method does not account for, or their "
    "number was not fixed in advance: use method='betting' on a number of episodes fixed in advance"
)
ARMS_UNKNOWN = (
    "episodes were assigned to several policies, and it is not known which one acted in each of "
    "them: call ove_sb3.as_mixture on the episodes that are evaluated, after joining them"
)
_ANOTHER_LOG = (
    "hold episodes out with Trajectories.split and evaluate on those, or log new ones with "
    "ove_sb3.collect"
)
_AGAINST = {
    "candidate_depends_on_log": (
        f"the candidate was trained on these trajectories, so coverage is unknown: {_ANOTHER_LOG}"
    ),
    "candidate_selected_on_log": (
        "the candidate was selected by its evaluations on these trajectories, so coverage is "
        f"unknown: {_ANOTHER_LOG}"
    ),
    "candidate_of_unknown_origin": (
        "the behavior of the log learned, and nothing shows that the candidate did not learn from "
        "it: pass the model, such as PPO.load(...), instead of its policy, and log training with "
        "VecLogActionProbability instead of reading a rollout buffer"
    ),
    "deterministic_actions": (
        "the logged actions were not drawn from the logged probabilities, but are the most "
        "probable ones: log again with predict(..., deterministic=False), or with ove_sb3.collect"
    ),
    "lost_episodes": (
        "some episodes of the log were damaged and dropped by `ove-sb3 repair`, and nothing shows "
        "that this had nothing to do with their outcomes: log again"
    ),
    "shared_exploration": (
        "the behavior decided once for all of its environments whether to explore, so that their "
        "episodes are dependent: log with one environment, or with ove_sb3.collect, which decides "
        "for each of them"
    ),
    "repeated_seeds": (
        "environments or policies were started from the same seed more than once, so that their "
        "episodes share random numbers and are dependent: pass a seed to the first reset only, and "
        "another seed to every log. A process that logs with a loaded model needs another seed "
        "every time it is started: call model.set_random_seed(k) after loading, and give built-in "
        "policies no fixed `rng`"
    ),
    "repeated_episodes": (
        "some episodes are in the log more than once, so the trajectories are not independent: "
        "keep every episode once"
    ),
    "selected_episodes": (
        "episodes were picked one by one after logging, and nothing shows that this had nothing to "
        "do with their outcomes: evaluate the whole log, a slice of it, or a part of "
        "Trajectories.split"
    ),
    "interrupted": (
        "the environment raised an error while episodes were under way, and these were run again: "
        "those that lead to errors are missing. Log again"
    ),
    "changing_environment": (
        "a wrapper of the environment makes every episode depend on earlier ones (running "
        "statistics that are updated, or EpisodicLifeEnv): log the environment without it, or with "
        "its statistics fixed"
    ),
}


@dataclass(frozen=True)
class Evidence:
    """Facts about the log and the candidate that decide the label.

    Attributes
    ----------
    adaptive : bool
        The behavior changed based on earlier episodes.
    candidate_depends_on_log : bool
        The candidate was trained on the logged episodes.
    candidate_selected_on_log : bool
        The candidate was selected among others by evaluations on the logged episodes.
    candidate_of_unknown_origin : bool
        It is not known whether the candidate was trained on the logged episodes.
    deterministic_actions : bool
        Logged actions were not drawn from the logged probabilities.
    shared_exploration : bool
        The behavior decided once for several environments whether to explore.
    lost_episodes : bool
        Damaged episodes were dropped from the log.
    assigned : bool
        Episodes were assigned to several policies, as in an A/B test.
    repeated_seeds : bool
        Several episodes were started from the same seed.
    repeated_episodes : bool
        Some episodes are in the log more than once.
    selected_episodes : bool
        Episodes were picked one by one after logging.
    interrupted : bool
        Episodes in which the environment raised an error were run again.
    changing_environment : bool
        The environment depends on earlier episodes.
    """

    adaptive: bool = False
    candidate_depends_on_log: bool = False
    candidate_selected_on_log: bool = False
    candidate_of_unknown_origin: bool = False
    deterministic_actions: bool = False
    shared_exploration: bool = False
    lost_episodes: bool = False
    assigned: bool = False
    repeated_seeds: bool = False
    repeated_episodes: bool = False
    selected_episodes: bool = False
    interrupted: bool = False
    changing_environment: bool = False

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why no interval from this log is guaranteed for this candidate."""
        return tuple(text for name, text in _AGAINST.items() if getattr(self, name))

    def __or__(self, other: Evidence) -> Evidence:
        """What either of them states."""
        names = [field.name for field in fields(self)]
        return Evidence(**{name: getattr(self, name) or getattr(other, name) for name in names})


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
    n_repeated: int = 0,
    handles_assigned: bool = True,
    arms_known: bool = True,
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
        All trajectories that were begun are known, and their order.
    n_repeated : int
        Trajectories that are in the log more than once.
    handles_assigned : bool
        The method is valid for trajectories that were assigned to several policies.
    arms_known : bool
        It is known which policy each of them was assigned to.
    """
    reasons = []
    if not method_proven:
        reasons.append("the method is an approximation for large n")
    if range_from_data:
        reasons.append("the range of rewards was taken from the data instead of being stated")
    if not handles_unfinished:
        reasons.append(UNFINISHED)
    if not beginnings_known:
        reasons.append(BEGINNINGS_UNKNOWN)
    if not arms_known:
        reasons.append(ARMS_UNKNOWN)
    elif not handles_assigned:
        reasons.append(ASSIGNED)
    reasons += evidence.reasons
    if n_repeated:
        reasons.append(
            f"{n_repeated} trajectories repeat earlier ones exactly, far beyond chance: a log, or "
            "a part of it, was joined to itself, so the trajectories are not independent. Keep "
            "every episode once"
        )
    if not consistent:
        reasons.append(INCONSISTENT)
    return Label(guaranteed=not reasons, reasons=tuple(reasons))


def joint_label(reasons: Iterable[str], *, consistent: bool) -> Label:
    """Label of a statement that holds if several intervals do.

    Parameters
    ----------
    reasons : iterable of str
        Why any of the intervals is not guaranteed.
    consistent : bool
        The intervals do not contradict each other.
    """
    reasons = list(dict.fromkeys(reasons))
    if not consistent:
        reasons.append(INCONSISTENT)
    return Label(guaranteed=not reasons, reasons=tuple(reasons))
