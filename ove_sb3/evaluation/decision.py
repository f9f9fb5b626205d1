"""Outcome of watching a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .requirements import Status, Verdict


@dataclass(frozen=True)
class Decision:
    """Outcome of watching a log.

    Attributes
    ----------
    status : {"proven", "refuted", "undecided"}
        ``"proven"``: all requirements are; ``"refuted"``: at least one is; ``"undecided"``: time or
        episodes were used up before.
    verdicts : tuple of Verdict
        One per requirement.
    n : int
        Number of episodes that the verdicts are based on.
    n_unfinished : int
        Number of further episodes that had begun, and were under way or lost.
    assumptions : tuple of str
        Assumptions of the bounds, in words.
    """

    status: Status
    verdicts: tuple[Verdict, ...]
    n: int
    n_unfinished: int = 0
    assumptions: tuple[str, ...] = ()

    @property
    def proven(self) -> bool:
        """Whether all requirements are proven."""
        return self.status == "proven"

    @property
    def progress(self) -> str:
        """One line: episodes, bounds, and what is missing."""
        running = f" ({self.n_unfinished} unfinished)" if self.n_unfinished else ""
        texts = (str(verdict).rstrip(".") for verdict in self.verdicts)
        return f"{self.n} episodes{running}: {'; '.join(texts) or 'too few for bounds'}."

    def __str__(self) -> str:
        lines = [f"{self.status} after {self.n} episodes"]
        return "\n".join([*lines, *(f"  {verdict}" for verdict in self.verdicts)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON."""
        return {
            "status": self.status,
            "verdicts": [verdict.to_dict() for verdict in self.verdicts],
            "n": self.n,
            "n_unfinished": self.n_unfinished,
            "assumptions": list(self.assumptions),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Decision:
        """Inverse of `to_dict`."""
        verdicts = tuple(Verdict(**verdict) for verdict in values["verdicts"])
        assumptions = tuple(values["assumptions"])
        return cls(values["status"], verdicts, values["n"], values["n_unfinished"], assumptions)
