"""Writing log directories, safe against crashes at any moment.

While logging, every writer appends to a file of its own (``part-*.segments``, see `segments`), a
few whole episodes at a time. On closing, its file is turned into Parquet. A Parquet file names the
files it replaces, and readers ignore those, so that a crash between the two leaves every episode
there exactly once. No two processes ever write the same file.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ove_sb3._files import replacing
from ove_sb3.errors import InvalidInputError

from .files import (
    MANIFEST,
    SPACES,
    Entry,
    Header,
    data_files,
    header_of,
    live_files,
    open_parquet,
    read_manifest,
    record,
    recorded,
    with_header,
    write_manifest,
)
from .segments import SegmentFile, is_abandoned, list_segments, read_segment

_GROUP_STEPS, _GROUP_BYTES = 1 << 17, 1 << 25  # of a row group
_PARQUET: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": ["done"],
    "write_statistics": False,
    "write_page_checksum": True,
}
_MANY_BYTES = 512  # a step: compress while logging
Merge = Callable[[Sequence[Header]], Header]
"""Joint metadata of several files."""


class BatchWriter:
    """Appends batches of whole episodes to a directory.

    Parameters
    ----------
    directory : Path
        Created if need be. Several writers may share it.
    metadata : dict
        Metadata as plain values.
    fsync : bool
        Wait until the disk has every batch, to survive a power failure.
    """

    def __init__(self, directory: Path, metadata: Header, *, fsync: bool = False) -> None:
        _prepare(directory, metadata)
        self._file = SegmentFile(directory / f"{_stem()}.segments", fsync=fsync)

    def append(self, batch: pa.RecordBatch, metadata: Header) -> None:
        """Write a batch: from here on it is safe from a kill of the process."""
        compression = "lz4" if batch.nbytes > _MANY_BYTES * batch.num_rows else None
        options = pa.ipc.IpcWriteOptions(compression=compression)
        self._file.append(with_header(batch, metadata), options)

    def close(self, merge: Merge | None) -> None:
        """Close the file, and turn it into Parquet if `merge` is given."""
        self._file.close()
        path = self._file.path
        if path.exists() and path.stat().st_size == 0:
            path.unlink()
        elif merge is not None and path.exists():
            _compact(path, merge)


def write_log(
    batch: pa.RecordBatch, metadata: Header, directory: Path, *, overwrite: bool = False
) -> None:
    """Write one batch as the only shard of a directory."""
    old = data_files(directory) if directory.exists() else []
    if old and not overwrite:
        raise InvalidInputError(
            f"`path` must not hold a log already, got {directory} with {len(old)} files. Choose "
            "another directory, or pass overwrite=True."
        )
    if overwrite and (directory / MANIFEST).exists():
        write_manifest(directory, metadata, replace=True)
    else:
        _prepare(directory, metadata)
    table = pa.Table.from_batches([batch])
    replaces = sorted({*(file.name for file in old), *recorded(directory)})
    _write_shard([table], directory / f"{_stem()}.parquet", metadata, replaces)
    for file in old:
        file.unlink(missing_ok=True)


def compact_directory(directory: Path, merge: Merge) -> int:
    """Turn the files of finished or killed writers into Parquet; return how many there were.

    Files that a living process is still writing are left alone. Shards that are not in the record
    of finished ones, as of earlier versions, are added to it.
    """
    read_manifest(directory)
    live = [file for file in live_files(directory) if file.suffix == ".segments"]
    finished = [file for file in live if is_abandoned(file)]
    for file in finished:
        _compact(file, merge)
    for file in set(data_files(directory)) - set(live_files(directory)):
        file.unlink(missing_ok=True)  # replaced, and left over by a crash
    known = recorded(directory)
    for file in live_files(directory):
        if file.suffix == ".parquet" and file.name not in known:
            shard = open_parquet(file)
            episodes = _n_episodes(shard.read(columns=["done"]))
            record(file, Entry(shard.metadata.num_rows, episodes))
    return len(finished)


def _compact(file: Path, merge: Merge) -> None:
    """Replace a file of segments by Parquet, in its place in the order of files."""
    segments, schemas = list_segments(file)
    if segments:
        metadata = merge([header_of(schema, file)["metadata"] for schema in schemas])
        tables = (read_segment(file, segment) for segment in segments if segment.n_steps)
        _write_shard(tables, file.with_suffix(".parquet"), metadata, replaces=[file.name])
    file.unlink(missing_ok=True)


def _stem() -> str:
    return f"part-{time.time_ns():020d}-{uuid.uuid4().hex[:12]}"


def _write_shard(
    tables: Iterable[pa.Table], path: Path, metadata: Header, replaces: Sequence[str]
) -> None:
    """Write a shard atomically, then record it.

    Rows go to disk in groups of bounded size, so that neither writing nor reading a part needs the
    whole in memory.
    """
    tables = iter(tables)
    first = next(tables)
    schema = with_header(first.schema, metadata, replaces)
    pending: list[pa.Table] = []
    n_steps = n_episodes = 0
    with (
        replacing(path, durable=True) as temporary,
        pq.ParquetWriter(temporary, schema, **_PARQUET) as writer,
    ):
        for table in chain([first], tables):
            n_steps += table.num_rows
            n_episodes += _n_episodes(table)
            pending.append(table.replace_schema_metadata(None))
            if sum(part.nbytes for part in pending) >= _GROUP_BYTES:
                _write_groups(writer, pending)
                pending = []
        if pending:
            _write_groups(writer, pending)
    record(path, Entry(n_steps, n_episodes))


def _write_groups(writer: pq.ParquetWriter, tables: list[pa.Table]) -> None:
    joined = pa.concat_tables(tables).cast(writer.schema)
    per_step = joined.nbytes // joined.num_rows + 1
    writer.write_table(joined, max(1, min(_GROUP_STEPS, _GROUP_BYTES // per_step)))


def _n_episodes(table: pa.Table) -> int:
    return int(np.count_nonzero(table.column("done").to_numpy()))


def _prepare(directory: Path, metadata: Header) -> None:
    """Make the directory and its manifest, or check that the one there fits."""
    directory.mkdir(parents=True, exist_ok=True)
    if not (directory / MANIFEST).exists():
        write_manifest(directory, metadata, replace=False)
    there = read_manifest(directory)
    for name in SPACES:
        ours, theirs = metadata[name], there.get(name)
        if ours is not None and theirs is not None and ours != theirs:
            raise InvalidInputError(
                f"`path` must hold logs of the same environment, got {directory} with the {name} "
                f"{theirs}, not {ours}. Choose another directory."
            )
