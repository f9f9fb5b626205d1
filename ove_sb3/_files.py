"""Atomic file writes: a reader sees the old file or the new one, never half of it."""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from .errors import InvalidInputError


@contextmanager
def replacing(path: str | PathLike[str], *, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` on success, else remove it.

    Parameters
    ----------
    path : path
        Target file. The temporary name keeps its suffix.
    durable : bool
        Flush the file to the disk before renaming, so that it survives a power loss.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.stem}.{uuid.uuid4().hex[:8]}{target.suffix}")
    try:
        yield temporary
        if durable:
            sync(temporary)
        os.replace(temporary, target)
        if durable:
            sync(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: str | PathLike[str], content: bytes) -> None:
    """Write `content` to `path` atomically; its directory must exist."""
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        raise InvalidInputError(
            f"`path` must be a file in an existing directory, got {target}. Create "
            f"{target.parent} first, or choose another path."
        )
    with replacing(target) as temporary:
        temporary.write_bytes(content)


def new_directory(path: str | PathLike[str]) -> Path:
    """Create `path`, or ``path_2``, ``path_3``, ... if that exists, for the caller alone."""
    for k in itertools.count(1):
        directory = Path(path) if k == 1 else Path(f"{os.fspath(path)}_{k}")
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            continue
        return directory
    raise AssertionError("unreachable")


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write `text` as UTF-8 to `path` atomically; its directory must exist."""
    write_bytes(path, text.encode())


def sync(path: Path) -> None:
    """Flush a file or directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
