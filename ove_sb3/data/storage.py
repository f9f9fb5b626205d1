"""Logs on disk: a directory of data files and a manifest, safe against crashes at any moment.

While logging, every writer appends to a file of its own (``part-*.segments``, see `segments`), a
few whole episodes at a time. On closing, its file is turned into Parquet. A Parquet file names the
files it replaces, and readers pass those over, so that a crash between the two leaves every episode
there exactly once. No two processes ever write the same file.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Sequence
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ove_sb3._validation import check_integer
from ove_sb3.errors import InvalidInputError

from .columns import to_batch
from .files import (
    MANIFEST,
    SPACES,
    Entry,
    data_files,
    header_of,
    live_files,
    merge_headers,
    open_parquet,
    read_manifest,
    record,
    recorded,
    sync,
    with_header,
    write_manifest,
)
from .metadata import Metadata
from .segments import SegmentFile, is_abandoned, list_segments, read_segment
from .trajectories import Trajectories

_GROUP_STEPS, _GROUP_BYTES = 1 << 17, 1 << 25  # of a row group
_PARQUET: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": ["done"],
    "write_statistics": False,
    "write_page_checksum": True,
}
_MANY_BYTES = 512  # a step: compress while logging


class EpisodeWriter:
    """Appends episodes to a directory, a few at a time.

    Parameters
    ----------
    path : path
        Directory, made if need be. Several writers may share it.
    metadata : Metadata
    flush_every : int
        Number of episodes written together. If the process is killed, at most the episodes since
        the last flush are lost; `flush` writes at once.
    fsync : bool
        Wait until the disk has every flush, to survive a power failure as well.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        metadata: Metadata,
        *,
        flush_every: int = 64,
        fsync: bool = False,
    ) -> None:
        self.flush_every = check_integer(flush_every, "flush_every", 1)
        self.metadata = metadata
        self.path = Path(path)
        _prepare(self.path, metadata)
        self._pending: list[Trajectories] = []
        self._file = SegmentFile(self.path / f"{_stem()}.segments", fsync=fsync)
        self.n_written = 0

    def add(self, episodes: Trajectories) -> None:
        """Take over whole episodes; written by the next flush."""
        self._pending.append(episodes)
        if sum(map(len, self._pending)) >= self.flush_every:
            self.flush()

    def flush(self) -> None:
        """Write what is pending: from here on it is safe from a kill of the process."""
        if not self._pending:
            return
        data = Trajectories.concat(self._pending)
        batch = with_header(to_batch(data), data.metadata)
        compression = "lz4" if batch.nbytes > _MANY_BYTES * data.n_steps else None
        self._file.append(batch, pa.ipc.IpcWriteOptions(compression=compression))
        self.n_written += len(data)
        self._pending.clear()

    def close(self, *, compact: bool = True) -> None:
        """Flush, and turn the file into Parquet."""
        self.flush()
        self._file.close()
        path = self._file.path
        if path.exists() and path.stat().st_size == 0:
            path.unlink()
        elif compact and path.exists():
            _compact(path)


def load(path: str | PathLike[str]) -> Trajectories:
    """Read all complete episodes of a directory, in the order in which writers began."""
    from .log import DiskLog

    return DiskLog(path).load()


def save(data: Trajectories, path: str | PathLike[str], *, overwrite: bool = False) -> None:
    """Write `data` as one Parquet file of a directory of its own."""
    if not len(data):
        raise InvalidInputError("`data` must hold at least one episode to be saved, got 0.")
    directory = Path(path)
    old = data_files(directory) if directory.exists() else []
    if old and not overwrite:
        raise InvalidInputError(
            f"`path` must not hold a log already, got {directory} with {len(old)} files. Choose "
            "another directory, or pass overwrite=True."
        )
    if overwrite and (directory / MANIFEST).exists():
        write_manifest(directory, data.metadata, replace=True)
    else:
        _prepare(directory, data.metadata)
    table = pa.Table.from_batches([to_batch(data)])
    replaces = sorted({*(file.name for file in old), *recorded(directory)})
    _write_shard([table], directory / f"{_stem()}.parquet", data.metadata, replaces)
    for file in old:
        file.unlink(missing_ok=True)


def compact(path: str | PathLike[str]) -> int:
    """Turn the files of finished or killed writers into Parquet; return how many there were.

    Files that a living process is still writing are left alone. Shards that are not in the record
    of finished ones, as of earlier versions, are added to it.
    """
    directory = Path(path)
    read_manifest(directory)
    live = [file for file in live_files(directory) if file.suffix == ".segments"]
    finished = [file for file in live if is_abandoned(file)]
    for file in finished:
        _compact(file)
    for file in set(data_files(directory)) - set(live_files(directory)):
        file.unlink(missing_ok=True)  # replaced, and left over by a crash
    known = recorded(directory)
    for file in live_files(directory):
        if file.suffix == ".parquet" and file.name not in known:
            shard = open_parquet(file)
            episodes = _n_episodes(shard.read(columns=["done"]))
            record(file, Entry(shard.metadata.num_rows, episodes))
    return len(finished)


def _compact(file: Path) -> None:
    """Replace a file of segments by Parquet, in its place in the order of files."""
    segments, schemas = list_segments(file)
    if segments:
        metadata = merge_headers([header_of(schema, file) for schema in schemas])
        tables = (read_segment(file, segment) for segment in segments)
        _write_shard(tables, file.with_suffix(".parquet"), metadata, replaces=[file.name])
    file.unlink(missing_ok=True)


def _stem() -> str:
    return f"part-{time.time_ns():020d}-{uuid.uuid4().hex[:12]}"


def _write_shard(
    tables: Iterable[pa.Table], path: Path, metadata: Metadata, replaces: Sequence[str]
) -> None:
    """Write beside, then rename, then record: the file is there whole or not at all.

    Rows go to disk in groups of bounded size, so that neither writing nor reading a part needs the
    whole in memory.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    tables = iter(tables)
    first = next(tables)
    schema = with_header(first.schema, metadata, replaces)
    pending: list[pa.Table] = []
    n_steps = n_episodes = 0
    try:
        with pq.ParquetWriter(temporary, schema, **_PARQUET) as writer:
            for table in chain([first], tables):
                n_steps += table.num_rows
                n_episodes += _n_episodes(table)
                pending.append(table.replace_schema_metadata(None))
                if sum(part.nbytes for part in pending) >= _GROUP_BYTES:
                    _write_groups(writer, pending)
                    pending = []
            if pending:
                _write_groups(writer, pending)
        sync(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    record(path, Entry(n_steps, n_episodes))


def _write_groups(writer: pq.ParquetWriter, tables: list[pa.Table]) -> None:
    joined = pa.concat_tables(tables).cast(writer.schema)
    per_step = joined.nbytes // joined.num_rows + 1
    writer.write_table(joined, max(1, min(_GROUP_STEPS, _GROUP_BYTES // per_step)))


def _n_episodes(table: pa.Table) -> int:
    return int(np.count_nonzero(table.column("done").to_numpy()))


def _prepare(directory: Path, metadata: Metadata) -> None:
    """Make the directory and its manifest, or check that the one there fits."""
    directory.mkdir(parents=True, exist_ok=True)
    if not (directory / MANIFEST).exists():
        write_manifest(directory, metadata, replace=False)
    there = read_manifest(directory)
    for name in SPACES:
        ours, theirs = metadata.to_dict()[name], there.get(name)
        if ours is not None and theirs is not None and ours != theirs:
            raise InvalidInputError(
                f"`path` must hold logs of the same environment, got {directory} with the {name} "
                f"{theirs}, not {ours}. Choose another directory."
            )
