"""Columns of a table with one row per step, with checks that name the row."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ove_sb3._validation import IntArray
from ove_sb3.errors import PLACE, InvalidInputError

from .exchange import Origin, is_mark
from .table_files import read_file, to_arrow

if TYPE_CHECKING:
    import pyarrow as pa


def placed(values: NDArray[Any], places: IntArray | None) -> NDArray[Any]:
    """Put the value of every row in its place."""
    if places is None:
        return values
    result = np.empty_like(values)
    result[places] = values  # with places in random order, faster than to look for the values
    return result


class TableSource:
    """Columns of a table, with checks that name the row."""

    def __init__(self, columns: pa.Table, path: Path | None, origin: Origin | None) -> None:
        self.columns, self.path, self.origin = columns, path, origin

    @classmethod
    def of(
        cls, table: Any, names: Sequence[str], optional: Sequence[str], progress: bool | None
    ) -> TableSource:
        """The columns `names` of a file, a data frame or an Arrow table.

        Those of `optional` are there too, if the table has them.
        """
        path = Path(table) if isinstance(table, (str, PathLike)) else None
        columns = to_arrow(table) if path is None else read_file(path, names, optional, progress)
        missing = [name for name in names if name not in columns.column_names]
        if missing:
            raise InvalidInputError(
                f"`table` must have a column {missing[0]!r}, got "
                f"{', '.join(map(repr, columns.column_names))}. Name the columns of your table: "
                "episode=..., step=..., propensity=..., reward=...",
                path=path,
            )
        _check_unique(columns.column_names, [*names, *optional], path)
        if not columns.num_rows:
            raise InvalidInputError("`table` must have at least one row, got 0.", path=path)
        origin = Origin.of(columns)
        if origin is not None:
            origin.check(columns.column_names, optional)
            names = [*names, *origin.columns]
        there = [name for name in optional if name in columns.column_names]
        used = columns.select(list(dict.fromkeys([*names, *there])))
        source = cls(_decoded(used, path), path, origin)
        for name in source.columns.column_names:
            source._check_complete(name)
        return source

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    def error(self, text: str, row: int) -> InvalidInputError:
        """Error about one row; rows count from 0."""
        return InvalidInputError(text, row=row, path=self.path)

    def _check_complete(self, name: str) -> None:
        column = self.columns.column(name)
        if column.null_count:
            missing = np.flatnonzero(column.is_null().to_numpy())
            raise self.error(
                f"column {name!r} must have no missing values, got one at {PLACE} "
                f"({missing.size} of {len(self)} rows). Drop or repair the whole episodes.",
                int(missing[0]),
            )

    def numbers(self, name: str) -> NDArray[Any]:
        """A numeric column, all finite."""
        values = self.columns.column(name).to_numpy()
        if values.dtype.kind not in "biuf":
            raise InvalidInputError(
                f"column {name!r} must hold numbers, got {self.columns.column(name).type}. Encode "
                "it as numbers first.",
                path=self.path,
            )
        if values.dtype.kind == "f":
            self._refuse(name, values, ~np.isfinite(values), "must be finite")
        if values.dtype == np.float16:  # logarithms and sums would be of half precision, too
            return np.asarray(values, np.float64)
        return np.asarray(values)

    def arranged(self, name: str, places: IntArray | None) -> NDArray[Any]:
        """A numeric column, the value of every row in its place."""
        values = self.numbers(name)
        if places is not None:
            return placed(values, places)
        return values.copy() if self.path is None else values  # nobody else has what was read

    def check_single_steps(self, step: str | None) -> None:
        """Refuse a column of step numbers that vary: each row is to be an episode of one step."""
        if step is None or step not in self.columns.column_names:
            return
        values = self.columns.column(step).to_numpy()
        other = np.flatnonzero(values != values[:1])
        if other.size:
            raise self.error(
                f"column {step!r} must have the same value in every row if `episode` is None, "
                f"which makes each row an episode of one step, got {values[other[0]]} at {PLACE}. "
                "Name the column of the episodes, or pass step=None if this one does not number "
                "steps.",
                int(other[0]),
            )

    def _refuse(self, name: str, values: NDArray[Any], bad: NDArray[np.bool_], rule: str) -> None:
        if bad.any():
            rows = np.flatnonzero(bad)
            raise self.error(
                f"column {name!r} {rule}, got {values[rows[0]]} at {PLACE} ({rows.size} of "
                f"{len(self)} rows).",
                int(rows[0]),
            )

    def integers(self, name: str) -> IntArray:
        """A column of whole numbers."""
        values = self.numbers(name)
        if values.dtype.kind == "f":
            self._refuse(name, values, values != np.floor(values), "must hold whole numbers")
        return values.astype(np.int64, copy=False)

    def propensities(self, name: str, density: bool) -> NDArray[Any]:
        """A column of probabilities in (0, 1], or of positive densities."""
        values = self.numbers(name)
        if density:
            self._refuse(name, values, values <= 0.0, "must hold densities greater than 0")
        else:
            rule = "must hold probabilities in (0, 1] (pass density=True for densities)"
            self._refuse(name, values, (values <= 0.0) | (values > 1.0), rule)
        return values

    def check_numbered(self, name: str) -> None:
        """Refuse names that need not be in the order of logging."""
        kind = self.columns.column(name).type
        if not str(kind).startswith(("int", "uint", "half", "float", "double")):
            raise InvalidInputError(
                f"column {name!r} must number the episodes in the order of logging if the behavior "
                f"learned (metadata adaptive=True), got {kind}: the order of other names, such as "
                "'1', '10', '2', is another one. Pass integers.",
                path=self.path,
            )

    def prepare_names(self, name: str) -> None:
        """Refuse names of episodes that may be mistaken; turn those that are floats to integers."""
        import pyarrow as pa

        column = self.columns.column(name)
        if pa.types.is_nested(column.type):
            raise InvalidInputError(
                f"column {name!r} must name every episode by a number or a string, got "
                f"{column.type}. Make one string of its entries.",
                path=self.path,
            )
        if not pa.types.is_floating(column.type):
            return
        values = column.to_numpy()
        self._refuse(name, values, np.isnan(values), "must have no missing values")
        exact = np.abs(values) < 2.0 ** (np.finfo(values.dtype).nmant + 1)
        rule = "must not hold such large numbers as floats, which round them (pass integers)"
        self._refuse(name, values, ~exact, rule)
        rule = (
            "must not name episodes by fractions, because names such as 0.1 and 0.10 become equal "
            "(pass strings or integers)"
        )
        self._refuse(name, values, values != np.floor(values), rule)
        place = self.columns.column_names.index(name)
        self.columns = self.columns.set_column(place, name, pa.array(values.astype(np.int64)))

    def lengths_in_order(self, episode: str, step: str | None) -> IntArray | None:
        """Lengths of the episodes if all rows are in order and all steps there, else None."""
        column = self.columns.column(episode)
        if not str(column.type).startswith(("int", "uint")):
            return None
        names = column.to_numpy()
        if (names[1:] < names[:-1]).any():
            return None
        new = names[1:] != names[:-1]
        begins = np.concatenate([[0], np.flatnonzero(new) + 1])
        if step is not None:
            steps = self.integers(step)
            numbered = ((np.diff(steps) == 1) | new).all()
            if not numbered or steps[0] not in (0, 1) or (steps[begins] != steps[0]).any():
                return None
        return np.diff(begins, append=len(self))

    def ends(
        self, name: str | None, places: IntArray | None, lengths: IntArray
    ) -> NDArray[np.bool_] | None:
        """Whether the last row of every episode is marked in a column; None without the column."""
        if name is None or name not in self.columns.column_names:
            return None
        values = self.numbers(name)
        self._refuse(name, values, (values != 0) & (values != 1), "must be true or false")
        marked = placed(values.astype(np.bool_), places)
        last = np.cumsum(lengths) - 1
        early = marked.copy()
        early[last] = False
        if early.any():
            place = int(np.flatnonzero(early)[0])
            raise self.error(
                f"column {name!r} must be true only in the last row of an episode, got true at "
                f"{PLACE}, after which the episode goes on. Give every episode a name of its own.",
                place if places is None else int(np.flatnonzero(places == place)[0]),
            )
        return np.asarray(marked[last])

    def episodes(self, name: str) -> tuple[IntArray, NDArray[Any]]:
        """Number of every row's episode, in the order of the episodes' names, and the names."""
        column = self.columns.column(name)
        if str(column.type).startswith(("int", "uint")):
            values = column.to_numpy()
            low, high = int(values.min()), int(values.max())
            if high - low < 4 * values.size and high < 1 << 62:  # counting is faster than hashing
                offsets = values.astype(np.int64, copy=False)
                offsets = offsets - low if low else offsets
                there = np.bincount(offsets) > 0
                names = np.flatnonzero(there) + low
                if there.all():
                    return offsets, names
                return (np.cumsum(there) - 1)[offsets], names
        encoded = column.combine_chunks().dictionary_encode()
        names = np.asarray(encoded.dictionary.to_numpy(zero_copy_only=False))
        order = np.argsort(names, kind="stable")
        rank = np.empty(order.size, np.int64)
        rank[order] = np.arange(order.size)
        return rank[encoded.indices.to_numpy()], names[order]


def _check_unique(there: Sequence[str], used: Sequence[str], path: Path | None) -> None:
    """Refuse a table in which a column that is used has the name of another one."""
    for name in dict.fromkeys([*used, *filter(is_mark, there)]):
        if (count := there.count(name)) > 1:
            raise InvalidInputError(
                f"`table` must have one column {name!r}, got {count}. Rename or drop the others.",
                path=path,
            )


def _decoded(columns: pa.Table, path: Path | None) -> pa.Table:
    """The table with plain values in place of numbers of categories.

    Categories may be unused, missing or there twice.
    """
    import pyarrow as pa

    for place, (name, column) in enumerate(zip(columns.column_names, columns.columns, strict=True)):
        if not pa.types.is_dictionary(column.type):
            continue
        try:
            plain = column.cast(column.type.value_type)
        except pa.ArrowException as error:
            raise InvalidInputError(
                f"column {name!r} must hold categories that are numbers or strings, got "
                f"{column.type}. Encode it as numbers or strings first.",
                path=path,
            ) from error
        columns = columns.set_column(place, name, plain)
    return columns
