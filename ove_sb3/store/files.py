"""The files of a log directory: manifest, shards, headers, and the record of finished shards.

=====================  ==========================================================================
``manifest.json``      format, version, and the spaces that all files share
``part-*.segments``    a writer's file while it logs, see `segments`
``part-*.parquet``     a finished shard; its header names the files it replaces
``shards.jsonl``       one line per finished shard: its numbers of steps and episodes
=====================  ==========================================================================

The record ``shards.jsonl`` is only ever appended to, one line in one write, after the shard itself
is safely there. So a shard that is recorded but not there was lost. A process that is killed
while it appends leaves half a line, which is ignored; logs without a record stay readable.
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ove_sb3._files import sync
from ove_sb3.errors import EmptyLogError, StorageError

FORMAT = "ove_sb3 trajectories"
VERSION = 1
MANIFEST = "manifest.json"
RECORD = "shards.jsonl"
_KEY = b"ove_sb3"
SPACES = ("observation_space", "action_space")
Header = dict[str, Any]
"""Metadata of a log as plain values that JSON can hold, by name."""


@dataclass(frozen=True)
class Entry:
    """Entry of a finished shard in the record."""

    n_steps: int
    n_episodes: int


def data_files(directory: Path) -> list[Path]:
    """All files with episodes, in the order in which their writers began."""
    found = directory.glob("part-*")
    return sorted(file for file in found if file.suffix in (".segments", ".parquet"))


def live_files(directory: Path) -> list[Path]:
    """The files that hold the log: all but those that a Parquet file replaces."""
    files = data_files(directory)
    entries = recorded(directory)
    replaced: set[str] = set()
    for file in files:
        if file.suffix == ".parquet":
            replaced.update(header_of(open_parquet(file).schema_arrow, file)["replaces"])
    there = {file.name for file in files}
    missing = sorted(set(entries) - replaced - there)
    if missing:
        raise StorageError(
            f"`{directory / missing[0]}` must be there: {RECORD} records it as a finished shard of "
            f"{entries[missing[0]].n_episodes} episodes ({len(missing)} of {len(entries)} recorded "
            f"shards are missing). Restore it from a copy, or take its line out of "
            f"{directory / RECORD} to do without these episodes."
        )
    return [file for file in files if file.name not in replaced]


def record(file: Path, entry: Entry) -> None:
    """Record a shard that is finished and safely on disk."""
    line = {"shard": file.name, "steps": entry.n_steps, "episodes": entry.n_episodes}
    # The line break comes first as well: half a line of a killed process ends there.
    text = f"\n{json.dumps(line)}\n".encode()
    descriptor = os.open(file.parent / RECORD, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, text)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def recorded(directory: Path) -> dict[str, Entry]:
    """All shards that were ever finished, by name; others may have replaced them since."""
    try:
        text = (directory / RECORD).read_text(errors="replace")
    except FileNotFoundError:
        return {}
    entries: dict[str, Entry] = {}
    for line in text.splitlines():
        try:
            found = json.loads(line)
            entries[str(found["shard"])] = Entry(int(found["steps"]), int(found["episodes"]))
        except (ValueError, TypeError, KeyError):
            continue  # empty, or half a line of a process that was killed
    return entries


def open_parquet(file: Path) -> pq.ParquetFile:
    """The file, with its footer read."""
    try:
        return pq.ParquetFile(file, page_checksum_verification=True)
    except FileNotFoundError as error:
        raise StorageError(vanished(file)) from error
    except (pa.ArrowException, OSError) as error:
        raise StorageError(damaged(file, error)) from error


def damaged(file: Path, error: Exception) -> str:
    """Message about a Parquet file that cannot be read."""
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"`{file}` must be an intact Parquet file: {first}. Restore it from a copy."


def vanished(file: Path) -> str:
    """Message about a missing file."""
    return (
        f"`{file}` must be there until the log is read, but on {socket.gethostname()} it is not. "
        "If it was removed after the log was opened, restore it or open the log again; on a "
        "cluster, every worker must see the log under the same path."
    )


def changed(file: Path) -> str:
    """Message about a file that changed since the log was opened."""
    return (
        f"`{file}` must stay as it was when the log was opened, but it holds other steps now. Open "
        "the log again."
    )


def unfinished(file: Path) -> str:
    """Message about a file that ends within an episode."""
    return (
        f"`{file}` must hold whole episodes, but its last one does not end. The file was changed "
        "after it was written: restore it from a copy."
    )


def with_header(columns: Any, metadata: Header, replaces: Sequence[str] = ()) -> Any:
    """Columns or a schema with a header."""
    header = {"version": VERSION, "metadata": metadata, "replaces": list(replaces)}
    entry = {_KEY: json.dumps(header)}
    if isinstance(columns, pa.Schema):
        return columns.with_metadata(entry)
    return columns.replace_schema_metadata(entry)


def header_of(schema: pa.Schema, file: Path) -> Header:
    """Header of a file."""
    text = (schema.metadata or {}).get(_KEY)
    if text is None:
        raise StorageError(
            f"`{file}` must be written by ove_sb3, but it carries no description of itself. Move "
            "it out of the directory."
        )
    header: Header = {"replaces": [], **json.loads(text)}
    _check_version(header.get("version"), file)
    return header


def check_spaces(header: Header, manifest: Header, file: Path) -> None:
    """Refuse a file of another environment than the manifest describes."""
    for name in SPACES:
        ours, theirs = header["metadata"].get(name), manifest.get(name)
        if ours is not None and theirs is not None and ours != theirs:
            raise StorageError(
                f"`{file}` must have the {name.replace('_', ' ')} of {MANIFEST}, {theirs}, got "
                f"{ours}. It belongs to another environment: move it out of the directory."
            )


def _check_version(found: object, file: Path) -> None:
    if found != VERSION:
        raise StorageError(
            f"`{file}` must have version {VERSION} of the format, got {found!r}. Read it with the "
            "version of ove_sb3 that wrote it."
        )


def write_manifest(directory: Path, metadata: Header, *, replace: bool) -> None:
    """Write the manifest atomically; an existing one is replaced only if `replace` is True."""
    names = ("env_id", "horizon", *SPACES)
    manifest = {"format": FORMAT, "version": VERSION, **{name: metadata[name] for name in names}}
    temporary = directory / f".{MANIFEST}.{uuid.uuid4().hex[:8]}"
    temporary.write_text(json.dumps(manifest, indent=2) + "\n")
    sync(temporary)
    try:
        if replace:
            os.replace(temporary, directory / MANIFEST)
        else:
            os.link(temporary, directory / MANIFEST)  # fails if another writer was first
    except FileExistsError:
        pass
    finally:
        temporary.unlink(missing_ok=True)


def read_manifest(directory: Path) -> dict[str, Any]:
    """The manifest, checked."""
    file = directory / MANIFEST
    try:
        manifest = json.loads(file.read_text())
    except (FileNotFoundError, NotADirectoryError) as error:
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


def empty(directory: Path) -> EmptyLogError:
    """Error about a directory without episodes."""
    return EmptyLogError(
        f"`{directory}` must hold at least one complete episode, got none. Episodes are written "
        "when `flush_every` of them are complete, or when the logger is closed."
    )
