"""Location of a log: a directory of the local or of another file system."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Location:
    """Directory of a log.

    Attributes
    ----------
    root : Path
        Path of the directory in its file system.
    filesystem : pyarrow.fs.FileSystem, optional
        File system that holds the directory; None for the local one.
    """

    root: Path
    filesystem: Any = None

    def path(self, name: str) -> Path:
        """Path of a file."""
        return self.root / name

    def open(self, name: str) -> Any:
        """Open a file for random access."""
        if self.filesystem is None:
            return pa.OSFile(str(self.path(name)), "rb")
        return self.filesystem.open_input_file(self.path(name).as_posix())

    def size(self, name: str) -> int | None:
        """Size of a file in bytes; None if it does not exist."""
        if self.filesystem is None:
            try:
                return self.path(name).stat().st_size
            except FileNotFoundError:
                return None
        found = self.filesystem.get_file_info(self.path(name).as_posix())
        return None if found.size is None else int(found.size)
