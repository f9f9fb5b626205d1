"""Where the log and the candidate of an evaluation come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Origin:
    """Files and identifiers by which a result can be traced.

    Attributes
    ----------
    log : str or None
        Path of the log; None if it was in memory.
    log_ids : tuple of str
        Identifiers of the logs that the episodes come from.
    candidate_file : str or None
        Path of the candidate; None if it was in memory.
    fingerprint : str or None
        Digest of everything the candidate's action distribution depends on, or of its
        log-probabilities; None if a part of it cannot be described.
    """

    log: str | None = None
    log_ids: tuple[str, ...] = ()
    candidate_file: str | None = None
    fingerprint: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON."""
        return {
            "log": self.log,
            "log_ids": list(self.log_ids),
            "candidate_file": self.candidate_file,
            "fingerprint": self.fingerprint,
        }
