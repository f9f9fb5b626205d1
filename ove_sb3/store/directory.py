"""Contents of a log directory at the moment it is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ove_sb3.errors import StorageError

from . import files
from .columns import Arrays, field_kind, to_arrays
from .reader import Source
from .segments import list_segments


@dataclass(frozen=True)
class Contents:
    """Files of a log and their common properties.

    Attributes
    ----------
    sources : tuple of Source
    columns : dict of str to dtype
        All columns with an entry per step.
    headers : tuple of dict
        Metadata of every file, as plain values.
    n_episodes : tuple of int or None
        Of every file, where that is recorded.
    bytes_per_step : int
        Of observation and action.
    """

    sources: tuple[Source, ...]
    columns: dict[str, np.dtype[Any]]
    headers: tuple[files.Header, ...]
    n_episodes: tuple[int | None, ...]
    bytes_per_step: int


def list_sources(directory: Path) -> Contents:
    """List every file of the log, without reading its steps."""
    manifest = files.read_manifest(directory)
    entries = files.recorded(directory)
    sources: list[Source] = []
    headers: list[dict[str, Any]] = []
    n_episodes: list[int | None] = []
    schemas: list[tuple[Path, pa.Schema]] = []
    n_steps = 0
    for file in files.live_files(directory):
        source, found = _open(file, n_steps)
        if not source.n_steps:
            continue
        entry = entries.get(source.file.name)
        if entry is not None and entry.n_steps != source.n_steps:
            raise StorageError(
                f"`{source.file}` must hold the {entry.n_steps} steps that {files.RECORD} records, "
                f"got {source.n_steps}. Restore it from a copy."
            )
        for schema in found:
            headers.append(files.header_of(schema, source.file))
            files.check_spaces(headers[-1], manifest, source.file)
            schemas.append((source.file, schema))
        sources.append(source)
        n_episodes.append(None if entry is None else entry.n_episodes)
        n_steps = source.last
    if not sources:
        raise files.empty(directory)
    columns, bytes_per_step = _shared_columns(schemas)
    return Contents(
        tuple(sources),
        columns,
        tuple(header["metadata"] for header in headers),
        tuple(n_episodes),
        bytes_per_step,
    )


def _open(file: Path, first: int) -> tuple[Source, list[pa.Schema]]:
    """The file, and its different schemas."""
    if file.suffix == ".segments":
        try:
            segments, schemas = list_segments(file)
        except FileNotFoundError:  # finished by its writer a moment ago
            file = file.with_suffix(".parquet")
        else:
            n_steps = sum(segment.n_steps for segment in segments)
            return Source(file, first, n_steps, tuple(segments)), schemas
    reader = files.open_parquet(file)
    return Source(file, first, reader.metadata.num_rows), [reader.schema_arrow]


def _shared_columns(
    schemas: Sequence[tuple[Path, pa.Schema]],
) -> tuple[dict[str, np.dtype[Any]], int]:
    """Columns with an entry per step, and the bytes of observation and action together."""
    columns: dict[str, np.dtype[Any]] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    first_file = schemas[0][0]
    for file, schema in schemas:
        names = [name for name in schema.names if not name.startswith("final_")]
        differ = sorted(set(names) ^ set(columns)) if columns else []
        if differ:
            raise StorageError(
                f"`{file}` must hold the same columns as {first_file}, but only one of them has "
                f"{differ}. They belong to different environments: move one out of the directory."
            )
        for name in names:
            dtype, shape = field_kind(schema.field(name))
            if shapes.setdefault(name, shape) != shape:
                raise StorageError(
                    f"`{file}` must have the column {name} of shape {shapes[name]} as {first_file} "
                    f"has, got {shape}. They belong to different environments: move one out of the "
                    "directory."
                )
            columns[name] = np.result_type(columns.get(name, dtype), dtype)
    size = sum(
        columns[name].itemsize * int(np.prod(shapes[name], dtype=np.int64))
        for name in columns
        if name == "action" or name.split("/")[0] == "observation"
    )
    return columns, size


def read_all(sources: Sequence[Source]) -> Arrays:
    """All rows of the files, in memory."""
    parts: list[Arrays] = []
    for source in sources:
        for table in source.whole():
            parts.append(to_arrays(table))
        if parts[-1]["done"][-1] == 0:
            raise StorageError(files.unfinished(source.file))
    if len(parts) == 1:
        return parts[0]
    # Final observations that some files lack are left out.
    shared = set(parts[0]).intersection(*parts)
    return {
        name: np.concatenate([part[name] for part in parts]) for name in parts[0] if name in shared
    }
