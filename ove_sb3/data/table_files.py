"""Tables of files and data frames, as Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ove_sb3._progress import ProgressBar, progress_bar, tracked
from ove_sb3.errors import InvalidInputError

from .exchange import is_mark

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_SUFFIXES = (".csv", ".parquet", ".feather")


def read_file(
    path: Path, names: Sequence[str], optional: Sequence[str], progress: bool | None
) -> pa.Table:
    """Read a table from a file, as few columns as possible."""
    import pyarrow as pa
    import pyarrow.feather

    kind = path.suffix.lower()
    if kind not in TABLE_SUFFIXES:
        raise InvalidInputError(
            f"`table` must be a file ending in {', '.join(TABLE_SUFFIXES)}, got {path}. Load other "
            "formats with pandas and pass the data frame."
        )
    try:
        if kind == ".csv":
            return _read_csv(path, progress)
        if kind == ".feather":
            return pyarrow.feather.read_table(path)
        return _read_parquet(path, names, optional, progress)
    except FileNotFoundError as error:
        raise InvalidInputError(f"`table` must be a file, but {path} does not exist.") from error
    except (pa.ArrowException, OSError) as error:
        raise InvalidInputError(
            f"`table` must be a readable {path.suffix} file, but {path} cannot be read: {error}."
        ) from error


def _read_csv(path: Path, progress: bool | None) -> pa.Table:
    import pyarrow.csv

    with (
        path.open("rb") as file,
        closing(progress_bar(progress, total=path.stat().st_size, unit="B", scale=True)) as bar,
    ):
        return pyarrow.csv.read_csv(_CountedFile(file, bar))


class _CountedFile:
    """A file whose bytes are counted by a progress bar as they are read."""

    def __init__(self, file: BinaryIO, bar: ProgressBar) -> None:
        self._file, self._bar = file, bar

    def read(self, size: int = -1) -> bytes:
        """Read some bytes."""
        content = self._file.read(size)
        self._bar.update(len(content))
        return content

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._file.closed

    def close(self) -> None:
        """Do nothing: the caller closes the file."""


def _read_parquet(
    path: Path, names: Sequence[str], optional: Sequence[str], progress: bool | None
) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(path)
    there = set(file.schema_arrow.names)
    marks = filter(is_mark, there)
    wanted = [name for name in dict.fromkeys([*names, *optional, *marks]) if name in there]
    columns = wanted if there.issuperset(names) else None
    if not file.num_row_groups:
        return file.read(columns=columns)
    groups = tracked(
        range(file.num_row_groups),
        progress,
        total=file.metadata.num_rows,
        unit="row",
        size=lambda group: int(file.metadata.row_group(group).num_rows),
        scale=True,
    )
    return pa.concat_tables([file.read_row_group(group, columns=columns) for group in groups])


def to_arrow(table: Any) -> pa.Table:
    """Convert an Arrow table, a pandas data frame or an object with Arrow's protocol."""
    import pyarrow as pa

    try:
        if isinstance(table, pa.Table):
            return table
        if hasattr(table, "iloc") and hasattr(table, "columns"):
            return pa.Table.from_pandas(table, preserve_index=False)
        if hasattr(table, "__arrow_c_stream__"):
            return pa.table(table)
        if isinstance(table, Mapping):
            arrays = [pa.array(values) for values in table.values()]
            return pa.Table.from_arrays(arrays, names=list(map(str, table)))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"`table` must hold columns of one kind each, but it cannot be converted: {error}."
        ) from error
    raise InvalidInputError(
        "`table` must be a data frame, an Arrow table or the path of a .csv, .parquet or .feather "
        f"file, got {type(table).__name__}."
    )
