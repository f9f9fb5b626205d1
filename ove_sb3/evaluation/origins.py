"""Where the log and the candidate of an evaluation come from."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from ove_sb3.data.log import Log, LogLike
from ove_sb3.report.origin import Origin

from .candidates import Candidate, ComponentCandidate, KnownLogProbs, PolicyCandidate
from .result import Evaluation


def origin_of(log: LogLike, candidate: Candidate) -> Origin:
    """Files and fingerprint, as they are when the candidate is evaluated."""
    return Origin(
        log=str(log.path) if isinstance(log, Log) else None,
        log_ids=log.metadata.log_ids,
        candidate_file=getattr(candidate, "file", None),
        fingerprint=_fingerprint(candidate),
    )


def from_files(result: Evaluation, log: object, candidate: object) -> Evaluation:
    """The result, for a log and a candidate that the caller read from these files."""
    origin = replace(result.origin, log=str(log))
    if candidate is not None:
        origin = replace(origin, candidate_file=str(candidate))
    return replace(result, origin=origin)


def _fingerprint(candidate: Candidate) -> str | None:
    if isinstance(candidate, KnownLogProbs):
        return hashlib.sha256(np.ascontiguousarray(candidate.log_probs).tobytes()).hexdigest()
    if isinstance(candidate, ComponentCandidate):
        return _digest(candidate.policy)
    if not isinstance(candidate, PolicyCandidate):
        return None
    from ove_sb3.policies.deterministic import Deterministic

    return _digest(Deterministic(candidate.policy) if candidate.deterministic else candidate.policy)


def _digest(policy: object) -> str | None:
    fingerprint: str | None = policy.fingerprint()  # type: ignore[attr-defined]
    return fingerprint
