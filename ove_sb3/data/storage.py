"""Logs on disk: a directory of data files and a manifest, safe against crashes at any moment.

While logging, every writer appends to a file of its own (``part-*.segments``, see `segments`), a
few whole episodes at a time. On closing, its file is turned into Parquet. A Parquet file names the
files it replaces, and readers pass those over, so that a crash between the two leaves every episode
there exactly once. No two processes ever write the same file.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ove_sb3.core.errors import EmptyLogError, InvalidInputError, StorageError
from ove_sb3.core.validation import check_integer

from .columns import Arrays, to_arrays, to_batch, to_trajectories
from .metadata import Metadata, merge
from .segments import SegmentFile, is_abandoned, read_segments
from .trajectories import Trajectories

FORMAT = "ove_sb3 trajectories"
VERSION = 1
MANIFEST = "manifest.json"
_KEY = b"ove_sb3"
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
        batch = _with_header(to_batch(data), data.metadata)
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
    directory = Path(path)
    _read_manifest(directory)
    parts: list[Arrays] = []
    headers: list[dict[str, Any]] = []
    for file in _live_files(directory):
        for table in _tables(file):
            parts.append(_decode(table, file))
            headers.append(_header(table.schema, file))
    if not parts:
        raise EmptyLogError(
            f"`{directory}` must hold at least one complete episode, got none. Episodes are "
            "written when `flush_every` of them are complete, or when the logger is closed."
        )
    return to_trajectories(_join(parts, directory), _merge(headers))


def save(data: Trajectories, path: str | PathLike[str], *, overwrite: bool = False) -> None:
    """Write `data` as one Parquet file of a directory of its own."""
    if not len(data):
        raise InvalidInputError("`data` must hold at least one episode to be saved, got 0.")
    directory = Path(path)
    old = _data_files(directory) if directory.exists() else []
    if old and not overwrite:
        raise InvalidInputError(
            f"`path` must not hold a log already, got {directory} with {len(old)} files. Choose "
            "another directory, or pass overwrite=True."
        )
    if overwrite and (directory / MANIFEST).exists():
        _write_manifest(directory, data.metadata, replace=True)
    else:
        _prepare(directory, data.metadata)
    batch = _with_header(to_batch(data), data.metadata, replaces=[file.name for file in old])
    _write_parquet(pa.Table.from_batches([batch]), directory / f"{_stem()}.parquet")
    for file in old:
        file.unlink(missing_ok=True)


def compact(path: str | PathLike[str]) -> int:
    """Turn the files of finished or killed writers into Parquet; return how many there were.

    Files that a living process is still writing are left alone.
    """
    directory = Path(path)
    _read_manifest(directory)
    live = [file for file in _live_files(directory) if file.suffix == ".segments"]
    finished = [file for file in live if is_abandoned(file)]
    for file in finished:
        _compact(file)
    for file in set(_data_files(directory)) - set(_live_files(directory)):
        file.unlink(missing_ok=True)  # replaced, and left over by a crash
    return len(finished)


def _compact(file: Path) -> None:
    """Replace a file of segments by Parquet, in its place in the order of files."""
    tables = list(_tables(file))
    if tables:
        metadata = _merge([_header(table.schema, file) for table in tables])
        joined = pa.concat_tables([table.replace_schema_metadata(None) for table in tables])
        whole = _with_header(joined, metadata, replaces=[file.name])
        _write_parquet(whole, file.with_suffix(".parquet"))
    file.unlink(missing_ok=True)


def _stem() -> str:
    return f"part-{time.time_ns():020d}-{uuid.uuid4().hex[:12]}"


def _data_files(directory: Path) -> list[Path]:
    found = directory.glob("part-*")
    return sorted(file for file in found if file.suffix in (".segments", ".parquet"))


def _live_files(directory: Path) -> list[Path]:
    """The files that hold the log: all but those that a Parquet file replaces."""
    files = _data_files(directory)
    replaced: set[str] = set()
    for file in files:
        if file.suffix == ".parquet":
            replaced.update(_header(_parquet_schema(file), file).get("replaces", ()))
    return [file for file in files if file.name not in replaced]


def _tables(file: Path) -> Iterator[pa.Table]:
    if file.suffix == ".segments":
        yield from read_segments(file)
        return
    try:
        yield pq.read_table(file, page_checksum_verification=True, memory_map=True)
    except (pa.ArrowException, OSError) as error:
        raise StorageError(_damaged(file, error)) from error


def _parquet_schema(file: Path) -> pa.Schema:
    try:
        return pq.read_schema(file)
    except (pa.ArrowException, OSError) as error:
        raise StorageError(_damaged(file, error)) from error


def _damaged(file: Path, error: Exception) -> str:
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"`{file}` must be an intact Parquet file: {first}. Restore it from a copy."


def _write_parquet(table: pa.Table, path: Path) -> None:
    """Write beside, then rename: the file is there whole or not at all."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        pq.write_table(
            table,
            temporary,
            compression="zstd",
            compression_level=1,
            use_dictionary=["done"],
            write_statistics=False,
            write_page_checksum=True,
        )
        _sync(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _with_header(columns: Any, metadata: Metadata, replaces: Sequence[str] = ()) -> Any:
    header = {"version": VERSION, "metadata": metadata.to_dict(), "replaces": list(replaces)}
    return columns.replace_schema_metadata({_KEY: json.dumps(header)})


def _header(schema: pa.Schema, file: Path) -> dict[str, Any]:
    text = (schema.metadata or {}).get(_KEY)
    if text is None:
        raise StorageError(
            f"`{file}` must be written by ove_sb3, but it carries no description of itself. Move "
            "it out of the directory."
        )
    header: dict[str, Any] = json.loads(text)
    _check_version(header.get("version"), file)
    return header


def _check_version(found: object, file: Path) -> None:
    if found != VERSION:
        raise StorageError(
            f"`{file}` must have version {VERSION} of the format, got {found!r}. Read it with the "
            "version of ove_sb3 that wrote it."
        )


def _merge(headers: Sequence[dict[str, Any]]) -> Metadata:
    texts = {json.dumps(header["metadata"], sort_keys=True) for header in headers}
    return merge([Metadata.from_dict(json.loads(text)) for text in sorted(texts)])


def _decode(table: pa.Table, file: Path) -> Arrays:
    arrays = to_arrays(table)
    if not len(arrays["done"]) or arrays["done"][-1] == 0:
        raise StorageError(
            f"`{file}` must hold whole episodes, but its last one does not end. The file was "
            "changed after it was written: restore it from a copy."
        )
    return arrays


def _join(parts: Sequence[Arrays], directory: Path) -> Arrays:
    shared = set(parts[0]).intersection(*parts)
    required = {name for part in parts for name in part if not name.startswith("final_")}
    if not required <= shared:
        raise StorageError(
            f"`{directory}` must hold the same columns in all files, but "
            f"{sorted(required - shared)} are missing in some. Different environments?"
        )
    if len(parts) == 1:
        return dict(parts[0])
    return {
        name: np.concatenate([part[name] for part in parts]) for name in parts[0] if name in shared
    }


def _prepare(directory: Path, metadata: Metadata) -> None:
    """Make the directory and its manifest, or check that the one there fits."""
    directory.mkdir(parents=True, exist_ok=True)
    if not (directory / MANIFEST).exists():
        _write_manifest(directory, metadata, replace=False)
    there = _read_manifest(directory)
    for name in ("observation_space", "action_space"):
        ours, theirs = metadata.to_dict()[name], there.get(name)
        if ours is not None and theirs is not None and ours != theirs:
            raise InvalidInputError(
                f"`path` must hold logs of the same environment, got {directory} with the {name} "
                f"{theirs}, not {ours}. Choose another directory."
            )


def _write_manifest(directory: Path, metadata: Metadata, *, replace: bool) -> None:
    known = metadata.to_dict()
    names = ("env_id", "horizon", "observation_space", "action_space")
    manifest = {"format": FORMAT, "version": VERSION, **{name: known[name] for name in names}}
    temporary = directory / f".{MANIFEST}.{uuid.uuid4().hex[:8]}"
    temporary.write_text(json.dumps(manifest, indent=2) + "\n")
    _sync(temporary)
    try:
        if replace:
            os.replace(temporary, directory / MANIFEST)
        else:
            os.link(temporary, directory / MANIFEST)  # fails if another writer was first
    except FileExistsError:
        pass
    finally:
        temporary.unlink(missing_ok=True)


def _read_manifest(directory: Path) -> dict[str, Any]:
    file = directory / MANIFEST
    try:
        manifest = json.loads(file.read_text())
    except FileNotFoundError as error:
        raise StorageError(
            f"`{directory}` must be a directory of logged episodes, but {file} is not there. Check "
            "the path."
        ) from error
    except ValueError as error:
        raise StorageError(
            f"`{file}` must be JSON, got {error}. Restore it from a copy."
        ) from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise StorageError(f"`{file}` must describe a log of ove_sb3, but it does not.")
    _check_version(manifest.get("version"), file)
    return manifest
