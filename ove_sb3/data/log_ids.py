"""Identifiers of logs: which logs may share episodes, and which models depend on a log.

A log that is written step by step has a random identifier. Any other has a digest of its content,
so that the same data have the same identifier in every process. The two parts of a split are
``<id>/<split>/a`` and ``<id>/<split>/b``: they share no episode with each other, but may do so with
the parts of any other split of the same log.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ove_sb3.errors import InvalidInputError


def new_log_id() -> str:
    """Random identifier of a log that is about to be written."""
    return uuid.uuid4().hex


def content_log_id(*arrays: NDArray[Any]) -> str:
    """Identifier of data of unknown origin: a digest of their values."""
    return f"data-{digest_of(*arrays)}"


def is_content_id(log_id: str) -> bool:
    """Whether an identifier is a digest of the data, or of those that they are a part of."""
    return log_id.startswith("data-")


def root_of(log_id: str) -> str:
    """Identifier of the log that a part was split off."""
    return log_id.partition("/")[0]


def digest_of(*arrays: NDArray[Any]) -> str:
    """Digest of the values, types and shapes of arrays."""
    digest = hashlib.sha256()  # the fastest where the processor supports it
    for array in arrays:
        values = np.ascontiguousarray(array)
        digest.update(f"{values.dtype.str} {values.shape} ".encode())
        digest.update(values.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()[:24]


def split_log_ids(log_ids: Iterable[str], split: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Identifiers of the two parts of a log, cut in the way that `split` names."""
    first, second = (tuple(f"{one}/{split}/{part}" for one in log_ids) for part in "ab")
    return first, second


def may_share_episodes(ours: Iterable[str], theirs: Iterable[str]) -> bool:
    """Whether logs with these identifiers may have episodes in common."""
    theirs = list(theirs)
    return any(_related(one, other) for one in ours for other in theirs)


def _related(one: str, other: str) -> bool:
    # A path: the log, then pairs of a split and one of its two parts.
    for depth, (ours, theirs) in enumerate(zip(one.split("/"), other.split("/"), strict=False)):
        if ours != theirs:
            return depth % 2 == 1  # two splits of the same data overlap; two parts of one do not
    return True  # the same, or a part of it


def check_log_ids(log_ids: Any) -> tuple[str, ...]:
    """Identifiers without repetition, in order."""
    try:
        entries: list[Any] = [None] if isinstance(log_ids, (str, bytes)) else list(log_ids)
    except TypeError:
        entries = [None]  # a single object, such as an array without axes
    if not all(isinstance(entry, str) and entry for entry in entries):
        raise InvalidInputError(
            f"`log_ids` must be a sequence of identifiers, got {log_ids!r}. Pass those of the log "
            "that the episodes come from, data.metadata.log_ids."
        )
    return tuple(sorted(set(entries)))
