"""Append-only files of checked segments: what is appended is there whole or not at all.

A file is a sequence of frames: 8 bytes of magic, the length of the payload (8 bytes) and its CRC-32
(4 bytes), both little-endian, then the payload: an Arrow IPC stream. A process that is killed while
it appends leaves a last frame that is too short, which readers pass over; any other deviation is
damage and is reported.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from ove_sb3.errors import StorageError

_MAGIC = b"OVESEG01"
_HEADER = struct.Struct("<8sQI")


class SegmentFile:
    """A file of this process's own to which segments are appended.

    The file is locked while it is open, so that others can tell it from an abandoned one.
    """

    def __init__(self, path: Path, *, fsync: bool = False) -> None:
        self.path, self.fsync = path, fsync
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND
        self._descriptor = os.open(path, flags, 0o644)
        _try_lock(self._descriptor)
        self._size = 0

    def append(self, batch: pa.RecordBatch, options: pa.ipc.IpcWriteOptions) -> None:
        """Append one segment; when this returns, killing the process no longer harms it."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
            writer.write_batch(batch)
        payload = sink.getvalue()
        header = _HEADER.pack(_MAGIC, payload.size, zlib.crc32(payload))
        frame = memoryview(header + payload.to_pybytes())
        try:
            written = 0
            while written < len(frame):
                written += os.write(self._descriptor, frame[written:])
            if self.fsync:
                os.fsync(self._descriptor)
        except BaseException:
            os.ftruncate(self._descriptor, self._size)  # a full disk must not leave half a frame
            raise
        self._size += len(frame)

    def close(self) -> None:
        """Close and unlock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@dataclass(frozen=True)
class Segment:
    """Where a segment begins in its file, and how many steps it holds."""

    at: int
    n_steps: int


def list_segments(path: Path) -> tuple[list[Segment], list[pa.Schema]]:
    """The complete segments of a file, each checked, and the different schemas they have."""
    found: list[Segment] = []
    schemas: list[pa.Schema] = []
    for at, table in _segments(path, 0):
        found.append(Segment(at, table.num_rows))
        if not any(schema.equals(table.schema, check_metadata=True) for schema in schemas):
            schemas.append(table.schema)
    return found, schemas


def read_segments(path: Path) -> Iterator[pa.Table]:
    """The complete segments of a file, in order, each checked against its checksum."""
    for _, table in _segments(path, 0):
        yield table


def read_segment(path: Path, segment: Segment) -> pa.Table:
    """One of the segments, checked against its checksum."""
    for _, table in _segments(path, segment.at):
        if table.num_rows == segment.n_steps:
            return table
        break
    raise StorageError(_damage(path, segment.at, f"no segment of {segment.n_steps} steps begins"))


def _segments(path: Path, at: int) -> Iterator[tuple[int, pa.Table]]:
    """Segments from byte `at` on, and where they begin."""
    size = path.stat().st_size
    if size == 0:
        return
    with pa.memory_map(str(path)) as source:
        whole = memoryview(source.read_buffer(size))
        while size - at >= _HEADER.size:
            magic, length, checksum = _HEADER.unpack(whole[at : at + _HEADER.size])
            if magic != _MAGIC:
                raise StorageError(_damage(path, at, "no segment begins there"))
            payload = whole[at + _HEADER.size : at + _HEADER.size + length]
            if len(payload) < length:
                return  # the writer was killed here
            if zlib.crc32(payload) != checksum:
                raise StorageError(_damage(path, at, "the checksum does not match"))
            yield at, pa.ipc.open_stream(pa.py_buffer(payload)).read_all()
            at += _HEADER.size + length


def is_abandoned(path: Path) -> bool:
    """Whether no living process is writing the file."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return _try_lock(descriptor)
    finally:
        os.close(descriptor)


def _damage(path: Path, at: int, what: str) -> str:
    return (
        f"`{path}` must be an intact file of segments, but at byte {at} {what}. The file was "
        "changed or damaged after it was written: restore it from a copy, or move it away to read "
        "the rest of the directory."
    )


def _try_lock(descriptor: int) -> bool:
    try:
        import fcntl
    except ImportError:  # no advisory locks on Windows
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
