"""Logs with every kind of content, and damage done to single bytes of their files."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import ove_sb3 as ove
from ove_sb3.data.writer import EpisodeWriter
from ove_sb3.store.index import PAGE_BYTES

from .test_storage import same, some


def make_log(path: Path) -> ove.Trajectories:
    """A log with shards, and larger and smaller rows in the index; return what it holds."""
    data = some(24, kind="image", seed=5)
    for part in (data[:6], data[6:9]):
        with EpisodeWriter(path, part.metadata) as writer:
            writer.add(part)
    for part, every in ((data[9:18], 3), (data[18:], 1)):
        writer = EpisodeWriter(path, part.metadata, flush_every=every)
        for one in part:
            writer.add(one)
        writer.close(compact=False)
    return ove.Trajectories.load(path)


def make_hot(path: Path, target: Path) -> None:
    """Copy a log in the middle of a transaction, as a process killed there would leave it."""
    connection = sqlite3.connect(path / "log.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode = PERSIST")
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE writers SET steps = steps + 1")
    connection.execute("UPDATE state SET n_rows = n_rows + 1")
    rows = connection.execute("SELECT id, payload FROM batches").fetchall()
    for key, payload in rows:
        other = bytes(len(payload))
        connection.execute("UPDATE batches SET payload = ? WHERE id = ?", (other, key))
    shutil.copytree(path, target)
    connection.execute("ROLLBACK")
    connection.close()
    assert (target / "log.sqlite-journal").stat().st_size > 4096


class Patient:
    """A log directory that is damaged and restored again and again."""

    def __init__(self, path: Path, expected: ove.Trajectories) -> None:
        self.path, self.expected = path, expected
        self.files = {file: file.read_bytes() for file in sorted(path.iterdir())}
        self.errors = self.intact = 0

    def check(self, file: Path, content: bytes) -> None:
        """Put `content` into a file: the log is as before, or an error names what is wrong."""
        file.write_bytes(content)
        error = None
        try:
            data = ove.Trajectories.load(self.path)
        except ove.StorageError as caught:
            error = caught
        finally:
            self.restore()
        if error is None:
            same(self.expected, data)
            assert data.metadata == self.expected.metadata
            self.intact += 1
            return
        assert error.path is not None, error
        assert str(self.path) in str(error), error
        assert "must" in str(error)
        self.errors += 1

    def restore(self) -> None:
        """Restore all files."""
        for file in self.path.iterdir():
            if file not in self.files:
                file.unlink()
        for file, content in self.files.items():
            # A damaged journal can extend the index far beyond memory, as a hole.
            whole = file.exists() and file.stat().st_size == len(content)
            if not whole or file.read_bytes() != content:
                file.write_bytes(content)

    def flips(self, n: int, rng: np.random.Generator) -> Iterator[tuple[Path, int, int]]:
        """Files, positions and bits: equally many in structure, in used bytes, and anywhere."""
        for file, content in self.files.items():
            if not content:
                continue
            used = np.flatnonzero(np.frombuffer(content, np.uint8))  # most of a page is empty
            for k in range(n):
                at = structural_byte(file, content, rng) if k % 3 == 0 else None
                if at is None:
                    at = int(rng.choice(used) if k % 3 == 1 else rng.integers(len(content)))
                yield file, at, int(rng.integers(8))

    def flip(self, file: Path, at: int, bit: int) -> None:
        """Check the log with one bit flipped."""
        broken = bytearray(self.files[file])
        broken[at] ^= 1 << bit
        self.check(file, bytes(broken))

    def cut(self, file: Path, size: int) -> None:
        """Check the log with a file cut short."""
        self.check(file, self.files[file][:size])


def structural_byte(file: Path, content: bytes, rng: np.random.Generator) -> int | None:
    """A byte of a page header, cell pointer, file header, journal header, or Parquet footer."""
    if file.suffix == ".parquet":
        footer = int.from_bytes(content[-8:-4], "little") + 8
        return len(content) - int(rng.integers(1, footer + 1))
    if file.name.endswith("-journal"):
        return int(rng.integers(min(600, len(content))))
    page = int(rng.integers(max(len(content) // PAGE_BYTES, 1)))
    at = page * PAGE_BYTES + int(rng.integers(120 if page == 0 else 40))
    return at if at < len(content) else None
