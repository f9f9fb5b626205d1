"""Shards: Parquet files of whole episodes, with a checksum for every block of bytes.

Parquet has checksums of the data in its pages, not of the headers of pages. Therefore the index
holds the CRC-32 of every block of `BLOCK` bytes, and no byte reaches the decoder before the block
it is in has been checked.
"""

from __future__ import annotations

import os
import re
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ove_sb3._files import sync
from ove_sb3.errors import LogChangedError, StorageError

from . import messages
from .columns import Schema, arrow_schema, count_episodes
from .location import Location
from .tables import ShardRow, damaged

BLOCK = 1 << 16
_NAME = re.compile(r"part-\d{20}-[0-9a-f]{12}\.parquet")
_GROUP_STEPS, _GROUP_BYTES = 1 << 17, 1 << 25  # of a row group
_PARQUET: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": ["done"],
    "write_statistics": False,
    "write_page_checksum": True,
}
_ABANDONED_SECONDS = 3600.0


class ShardFile(NamedTuple):
    """A finished file that is not in the index yet, under a temporary name."""

    temporary: Path
    name: str
    steps: int
    episodes: int
    size: int
    blocks: bytes

    def publish(self) -> None:
        """Give the file its name; to be called within the transaction that adds its row."""
        os.rename(self.temporary, self.temporary.with_name(self.name))
        sync(self.temporary.parent)

    def discard(self) -> None:
        """Remove the file, under its temporary or its final name."""
        self.temporary.unlink(missing_ok=True)
        self.temporary.with_name(self.name).unlink(missing_ok=True)


def write_shard(directory: Path, tables: Iterable[pa.Table], schema: Schema) -> ShardFile:
    """Write a shard under a temporary name, and sync it to disk.

    Rows go to disk in groups of bounded size, so that neither writing nor reading a part needs the
    whole in memory.
    """
    name = f"part-{time.time_ns():020d}-{uuid.uuid4().hex[:12]}.parquet"
    temporary = directory / f".{name}.tmp"
    try:
        steps, episodes = _write(temporary, tables, schema)
        sync(temporary)
        blocks = _checksums(temporary)
        return ShardFile(temporary, name, steps, episodes, temporary.stat().st_size, blocks)
    except OSError as error:  # includes Arrow's I/O errors
        temporary.unlink(missing_ok=True)
        if isinstance(error, StorageError):
            raise
        raise messages.from_os(directory / name, error) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write(path: Path, tables: Iterable[pa.Table], schema: Schema) -> tuple[int, int]:
    pending: list[pa.Table] = []
    pending_bytes = n_steps = n_episodes = 0
    with pq.ParquetWriter(path, arrow_schema(schema), **_PARQUET) as writer:
        for table in tables:
            n_steps += table.num_rows
            n_episodes += count_episodes(table)
            pending.append(table)
            pending_bytes += table.nbytes
            if pending_bytes >= _GROUP_BYTES:
                _write_groups(writer, pending)
                pending, pending_bytes = [], 0
        if pending:
            _write_groups(writer, pending)
    return n_steps, n_episodes


def _write_groups(writer: pq.ParquetWriter, tables: list[pa.Table]) -> None:
    joined = pa.concat_tables(tables)
    per_step = joined.nbytes // joined.num_rows + 1
    writer.write_table(joined, max(1, min(_GROUP_STEPS, _GROUP_BYTES // per_step)))


def _checksums(path: Path) -> bytes:
    checksums = []
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            checksums.append(zlib.crc32(block))
    return np.array(checksums, dtype="<u4").tobytes()


def is_shard_name(name: str) -> bool:
    """Whether `name` is one that `write_shard` gives; it never leaves the directory."""
    return _NAME.fullmatch(name) is not None


def check_shard(location: Location, row: ShardRow, index: Path, sizes: Mapping[str, int]) -> None:
    """Check name, existence and size of a shard; `sizes` are those of all files."""
    if not is_shard_name(row.name):
        raise damaged(index, f"it names {row.name!r}, which is not the name of a shard", row=row.id)
    if row.size < 0 or len(row.blocks) != 4 * -(-row.size // BLOCK):
        raise damaged(index, f"it has too few checksums for {row.name}", row=row.id)
    size = sizes.get(row.name)
    if size is None:
        raise LogChangedError(
            f"`{location.path(row.name)}` must be there: {index.name} lists it as a shard of "
            f"{row.episodes} episodes. Restore it from a copy, or drop these episodes with "
            "`ove-sb3 repair`.",
            path=location.path(row.name),
        )
    if size != row.size:
        raise damaged(location.path(row.name), f"it has {size} bytes where {row.size} were written")


class CheckedFile:
    """Random access to a shard; every block is checked against its checksum when read."""

    def __init__(self, location: Location, row: ShardRow) -> None:
        self.path, self.size, self.closed = location.path(row.name), row.size, False
        self._checksums = np.frombuffer(row.blocks, "<u4")
        self._file = location.open(row.name)
        self._at = 0

    def read(self, n: int = -1) -> Any:
        """Up to `n` bytes from the current position."""
        end = self.size if n < 0 else min(self._at + n, self.size)
        start = min(self._at, end)
        self._at = end
        if start == end:
            return b""
        first, last = start // BLOCK, -(-end // BLOCK)
        begin = first * BLOCK
        content = self._read_at(begin, min(last * BLOCK, self.size))
        for k in range(first, last):
            block = content[k * BLOCK - begin : (k + 1) * BLOCK - begin]
            if zlib.crc32(block) != self._checksums[k]:
                raise damaged(self.path, f"bytes {k * BLOCK} to {k * BLOCK + BLOCK} are not")
        return content[start - begin : end - begin]

    def _read_at(self, begin: int, end: int) -> memoryview:
        try:
            return memoryview(self._file.read_at(end - begin, begin))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise messages.from_os(self.path, error) from error

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position."""
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        return self._at

    def tell(self) -> int:
        """Current position."""
        return self._at

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def writable(self) -> bool:
        """False."""
        return False

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        self._file.close()


def read_shard(
    location: Location,
    row: ShardRow,
    schema: Schema,
    names: list[str] | None,
    rows: tuple[int, int],
    batch: int,
) -> Iterator[pa.Table]:
    """Yield the given range of rows of a shard, at most `batch` of them at a time."""
    path, (begin, end) = location.path(row.name), rows
    try:
        with pa.PythonFile(CheckedFile(location, row), mode="r") as file:
            reader = pq.ParquetFile(file, page_checksum_verification=True, pre_buffer=False)
            if reader.metadata.num_rows != row.steps or not reader.schema_arrow.equals(
                arrow_schema(schema)
            ):
                raise damaged(path, "it does not have the columns and steps of its row")
            sizes = [reader.metadata.row_group(i).num_rows for i in range(reader.num_row_groups)]
            ends = np.cumsum(sizes)
            groups = [i for i, stop in enumerate(ends) if stop > begin and stop - sizes[i] < end]
            at = int(ends[groups[0]]) - sizes[groups[0]]
            for part in reader.iter_batches(
                batch, row_groups=groups, columns=names, use_threads=False
            ):
                first, last = max(begin - at, 0), min(end - at, part.num_rows)
                if first < last:
                    part.validate(full=True)
                    yield pa.Table.from_batches([part]).slice(first, last - first)
                at += part.num_rows
    except FileNotFoundError as error:
        raise messages.vanished(path) from error
    except StorageError:
        raise
    except (pa.ArrowException, OSError, MemoryError, ValueError) as error:
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise damaged(path, f"Parquet reports: {first_line}") from error


def remove_shards(directory: Path, names: set[str]) -> None:
    """Remove shards that the index no longer lists."""
    for name in names:
        if isinstance(name, str) and is_shard_name(name):
            (directory / name).unlink(missing_ok=True)


def remove_leftovers(directory: Path, kept: set[str]) -> None:
    """Remove shards that no index lists; to be called within a transaction that writes."""
    now = time.time()
    remove_shards(directory, {file.name for file in directory.glob("part-*.parquet")} - kept)
    for file in directory.glob(".part-*.tmp"):
        try:
            old = now - file.stat().st_mtime > _ABANDONED_SECONDS
        except FileNotFoundError:
            continue
        if old:
            file.unlink(missing_ok=True)
