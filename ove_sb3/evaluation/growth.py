"""Logs that only grow at their end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ove_sb3.errors import InvalidInputError

Writers = Sequence[tuple[str, int]]
"""Writers of a log in their order, and the number of episodes of each."""


def check_growth(before: Writers, now: Writers, path: Path) -> None:
    """Refuse a log that did not only grow at its end."""
    for k, (name, n) in enumerate(before):
        writer = now[k] if k < len(now) else None
        if writer is None or writer[0] != name or writer[1] < n:
            raise InvalidInputError(
                "`path` must be the log that was watched before, with new episodes at its end, got "
                f"{path}, which was overwritten or lost episodes. Watch a log that is only added "
                "to.",
                path=path,
            )
        if writer[1] > n and k < len(before) - 1:
            raise InvalidInputError(
                f"`path` must be a log whose writers followed one another, got {path}, to which "
                "several were adding at the same time: the order of its episodes is not known. Log "
                "to a directory per process, and watch one of them.",
                path=path,
            )
