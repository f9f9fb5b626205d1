"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import uuid
from os import PathLike
from pathlib import Path

from ove_sb3.core.errors import InvalidInputError


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write `text` as UTF-8, see `write_bytes`."""
    write_bytes(path, text.encode())


def write_bytes(path: str | PathLike[str], content: bytes) -> None:
    """Write beside, then rename: an interruption leaves the old file, or none."""
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        raise InvalidInputError(
            f"`path` must be a file in a directory that exists, got {target}. Make "
            f"{target.parent} first, or choose another path."
        )
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
