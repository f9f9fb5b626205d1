"""Steps from a table: a file or a data frame."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ove_sb3._progress import tracked
from ove_sb3._validation import IntArray, check_progress
from ove_sb3.errors import PLACE, InvalidInputError

from .exchange import Origin
from .table_files import read_file, to_arrow

if TYPE_CHECKING:
    import pyarrow as pa


def read_steps(
    table: Any,
    *,
    episode: str | None,
    step: str | None,
    propensity: str,
    reward: str,
    action: str | Sequence[str] | None,
    observations: str | Sequence[str],
    density: bool,
    keep: Sequence[str],
    terminated: str | None,
    truncated: str | None,
    metadata: Any,
    progress: bool | None,
) -> dict[str, Any]:
    """Arguments of `Trajectories.from_arrays`, from a table with one row per step."""
    progress = check_progress(progress)
    actions = [action] if isinstance(action, str) else list(_names(action or (), "action"))
    kept = list(_names(keep, "keep"))
    single = isinstance(observations, str)
    observed = (
        [observations]
        if isinstance(observations, str)
        else list(_names(observations, "observations"))
    )
    number = None if episode is None else step
    wanted = [*(name for name in (episode, number) if name is not None), propensity, reward]
    optional = [terminated, truncated, *([step] if episode is None else [])]
    there = [name for name in optional if name is not None]
    source = _Source.of(table, [*wanted, *actions, *observed, *kept], there, progress)
    if episode is None and source.origin is None:
        source.check_single_steps(step)
    places, lengths = _places(source, episode, number)
    origin = source.origin
    used = [reward, *actions, *observed, *kept, *([] if origin is None else origin.columns)]
    columns = {
        name: source.arranged(name, places)
        for name in tracked(dict.fromkeys(used), progress, total=len(set(used)), unit="column")
    }
    written: dict[str, Any] = {"metadata": metadata}
    if origin is not None:
        if episode is None:
            raise InvalidInputError(
                "`episode` must name the column of the episodes in a table that `to_table` wrote, "
                "got None.",
                path=source.path,
            )
        written = origin.fields(
            columns.__getitem__, source.columns.column(episode).to_numpy(), lengths
        )
        written["metadata"] = origin.stated(metadata, reward)
    n_steps = len(source)
    propensities = source.propensities(propensity, density)
    if actions:
        components = [columns[name] for name in actions]
        taken = components[0] if isinstance(action, str) else np.stack(components, axis=1)
        if density:
            taken = taken.astype(np.float64)
    else:
        taken = np.zeros(n_steps, np.float32 if density else np.int8)
    seen = [columns[name] for name in observed] or [np.zeros((n_steps, 0), np.float32)]
    return {
        "observations": np.stack(seen, axis=1) if observed and not single else seen[0],
        "actions": taken,
        "log_probs": _placed(np.log(propensities), places),
        "rewards": columns[reward].astype(np.float64, copy=False),
        "lengths": lengths,
        "terminated": source.ends(terminated, places, lengths),
        "truncated": source.ends(truncated, places, lengths),
        "columns": {name: columns[name] for name in kept},
        **written,
    }


def _placed(values: NDArray[Any], places: IntArray | None) -> NDArray[Any]:
    """Put the value of every row in its place."""
    if places is None:
        return values
    placed = np.empty_like(values)
    placed[places] = values  # with places in random order, faster than to look for the values
    return placed


class _Source:
    """Columns of a table, with checks that name the row."""

    def __init__(self, columns: pa.Table, path: Path | None, origin: Origin | None) -> None:
        self.columns, self.path, self.origin = columns, path, origin

    @classmethod
    def of(
        cls, table: Any, names: Sequence[str], optional: Sequence[str], progress: bool | None
    ) -> _Source:
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
        if not columns.num_rows:
            raise InvalidInputError("`table` must have at least one row, got 0.", path=path)
        origin = Origin.of(columns)
        if origin is not None:
            origin.check(columns.column_names, optional)
            names = [*names, *origin.columns]
        there = [name for name in optional if name in columns.column_names]
        source = cls(columns.select(list(dict.fromkeys([*names, *there]))), path, origin)
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
        return np.asarray(values)

    def arranged(self, name: str, places: IntArray | None) -> NDArray[Any]:
        """A numeric column, the value of every row in its place."""
        values = self.numbers(name)
        if places is not None:
            return _placed(values, places)
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
        marked = _placed(values.astype(np.bool_), places)
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
        if names.dtype.kind == "f":
            values = column.to_numpy()
            self._refuse(name, values, np.isnan(values), "must have no missing values")
            exact = np.abs(values) < 2.0 ** (np.finfo(values.dtype).nmant + 1)
            rule = "must not hold such large numbers as floats, which round them (pass integers)"
            self._refuse(name, values, ~exact, rule)
        order = np.argsort(names, kind="stable")
        rank = np.empty(order.size, np.int64)
        rank[order] = np.arange(order.size)
        return rank[encoded.indices.to_numpy()], names[order]


def _places(
    source: _Source, episode: str | None, step: str | None
) -> tuple[IntArray | None, IntArray]:
    """Places of the rows by episode and step, None if they are in order; and the lengths."""
    if episode is None:
        return None, np.ones(len(source), dtype=np.int64)
    if (lengths := source.lengths_in_order(episode, step)) is not None:
        return None, lengths
    number, name_of = source.episodes(episode)
    if step is None:
        return _adjacent(source, number, episode, name_of)
    return _sorted(source, number, source.integers(step), step, name_of)


def _sorted(
    source: _Source, number: IntArray, steps: IntArray, name: str, name_of: NDArray[Any]
) -> tuple[IntArray | None, IntArray]:
    """Places of the rows by episode and step, None if they are in order; and the lengths."""
    n = number.size
    lengths = np.bincount(number)
    begins = np.cumsum(lengths) - lengths
    lowest = int(steps.min())
    first = 1 if lowest == 1 else 0
    places = (begins - first)[number]
    places += steps
    # No step lies before its episode. If all places are taken, none lies behind it either: those
    # of the last episode are taken by its own steps, then those of the last but one, and so on.
    taken = np.zeros(n, np.bool_)
    if lowest >= first and steps.max() <= n and places.max() < n:
        taken[places] = True
    if not taken.all():
        raise _bad_steps(source, number, steps, first, name, name_of)
    in_order = places[0] == 0 and bool((np.diff(places) == 1).all())
    return None if in_order else places, lengths


def _bad_steps(
    source: _Source, number: IntArray, steps: IntArray, first: int, name: str, name_of: NDArray[Any]
) -> InvalidInputError:
    """Error about the first step, in order, that is missing or duplicated."""
    order = np.lexsort((steps, number))
    number, steps = number[order], steps[order]
    begins = np.flatnonzero(np.concatenate([[True], np.diff(number) != 0]))
    lengths = np.diff(np.append(begins, number.size))
    expected = np.arange(number.size) - np.repeat(begins, lengths) + first
    at = int(np.flatnonzero(steps != expected)[0])
    here = int(steps[at])
    if at > 0 and number[at] == number[at - 1] and here == steps[at - 1]:
        problem = f"step {here} is there twice"
    else:
        problem = f"step {int(expected[at])} is missing before step {here}"
    return source.error(
        f"column {name!r} must number the steps of an episode {first}, {first + 1}, "
        f"{first + 2}, ..., but in episode {_plain(name_of[number[at]])!r} {problem}, at "
        f"{PLACE}. Every episode must be complete and have a name of its own.",
        int(order[at]),
    )


def _adjacent(
    source: _Source, number: IntArray, name: str, name_of: NDArray[Any]
) -> tuple[IntArray | None, IntArray]:
    """Places of the rows of episodes that follow one another, and the lengths."""
    begins = np.flatnonzero(np.concatenate([[True], np.diff(number) != 0]))
    lengths = np.diff(np.append(begins, number.size))
    run = number[begins]
    order = np.argsort(run, kind="stable")
    if (again := np.flatnonzero(np.diff(run[order]) == 0)).size:
        at = int(begins[order[again[0] + 1]])
        raise source.error(
            f"column {name!r} must keep the rows of an episode together where there is no column "
            f"`step`, but episode {_plain(name_of[number[at]])!r} begins again at {PLACE}. Name a "
            "column that numbers the steps, or give every episode a name of its own.",
            at,
        )
    if (np.diff(run) > 0).all():
        return None, lengths
    sizes = lengths[order]
    shift = np.empty_like(begins)
    shift[order] = np.cumsum(sizes) - sizes - begins[order]
    return np.arange(number.size) + np.repeat(shift, lengths), sizes


def _names(names: object, argument: str) -> Sequence[str]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InvalidInputError(f"`{argument}` must be a sequence of column names, got {names!r}.")
    return names


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
