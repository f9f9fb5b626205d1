"""Facts about a report: when it was written, by whom, what for, and from which files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from ove_sb3._versions import library_versions
from ove_sb3.errors import InvalidInputError

from .views import EvaluationView

_MOST_IDS = 3
Row = tuple[str, str, str]  # name, value, explanation


@dataclass(frozen=True)
class About:
    """Facts about a report that its reader needs, and the result does not hold.

    Attributes
    ----------
    author, purpose : str or None
        As the caller passed them.
    written : datetime
        By default now.
    """

    author: str | None = None
    purpose: str | None = None
    written: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

    def __post_init__(self) -> None:
        for name in ("author", "purpose"):
            value = getattr(self, name)
            if not isinstance(value, (str, type(None))):
                raise InvalidInputError(
                    f"`{name}` must be a string or None, got {type(value).__name__}."
                )

    def rows(self, evaluations: Mapping[str, EvaluationView]) -> list[Row]:
        """Names and values to show, for candidates by name that share a log."""
        first = next(iter(evaluations.values()))
        version = f"{self.written:%Y-%m-%d %H:%M %Z}, ove-sb3 {library_versions()['ove-sb3']}"
        rows: list[Row] = [("date", version, "")]
        given = {"author": self.author, "purpose": self.purpose}
        rows += [(name, text, "") for name, text in given.items() if text]
        rows.append(("log", _log(first), ""))
        if first.origin.log_ids:
            rows.append(("identifier of the log", _some(first.origin.log_ids), ""))
        for name, result in evaluations.items():
            alone = len(evaluations) == 1
            rows.append(("candidate" if alone else name, *_candidate(result, alone)))
        return rows


def _log(result: EvaluationView) -> str:
    where = result.origin.log or "in memory"
    size = f"{result.n_trajectories} episodes, {result.n_steps} steps"
    behavior = f", logged by {result.behavior}" if result.behavior else ""
    return f"{where}: {size}{behavior}"


def _candidate(result: EvaluationView, named: bool) -> tuple[str, str]:
    origin = result.origin
    where = origin.candidate_file or (f"{result.candidate}, in memory" if named else "in memory")
    if origin.fingerprint is None:
        return where, "no fingerprint: a part of it cannot be described"
    return where, f"fingerprint {origin.fingerprint}"


def _some(names: tuple[str, ...]) -> str:
    shown, more = names[:_MOST_IDS], len(names) - _MOST_IDS
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
