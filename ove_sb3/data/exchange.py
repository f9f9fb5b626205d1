"""Columns in which a table carries the metadata of the log that it was written from.

Files such as CSV have no place for metadata, and rows are shuffled, filtered and joined. So every
row is marked with a digest of the metadata, and one of them holds the metadata themselves. Numbers
per episode and action masks have columns of their own.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ove_sb3._validation import IntArray
from ove_sb3.errors import InvalidInputError, StorageError

from .arrays import EPISODE_COUNTS
from .metadata import Metadata

if TYPE_CHECKING:
    import pyarrow as pa

METADATA = "ove_metadata"
_COUNTS = {name: f"ove_{name}" for name in EPISODE_COUNTS}
_MASK = "ove_action_mask"
_EPISODE = "ove_episode"
_NAMES = re.compile("|".join([METADATA, _EPISODE, *_COUNTS.values(), rf"{_MASK}_\d+"]))
_REMEDY = (
    f"Read a table that to_table wrote as it is, and take slices of the result (data[:1000]). "
    f"To use it as a table of your own, whose origin you know, drop its column {METADATA!r}."
)


def marked_columns(fields: Mapping[str, Any], metadata: Metadata) -> dict[str, NDArray[Any]]:
    """Columns that say where the steps come from, one row per step."""
    lengths = fields["lengths"]
    columns: dict[str, NDArray[Any]] = {
        column: np.repeat(fields[name], lengths)
        for name, column in _COUNTS.items()
        if fields[name] is not None
    }
    if fields["action_masks"] is not None:
        columns[_MASK] = fields["action_masks"]
    columns[_EPISODE] = np.repeat(np.arange(lengths.size), lengths)
    n_steps = int(lengths.sum())
    content = {
        "metadata": metadata.to_dict(),
        "n_episodes": int(lengths.size),
        "n_steps": n_steps,
        "counts": [name for name in _COUNTS if fields[name] is not None],
        "n_choices": columns[_MASK].shape[1] if _MASK in columns else 0,
        "numbered": True,
    }
    text = json.dumps(content)
    marks = np.array([f"{_mark(text)} {text}", *[_mark(text)] * (n_steps - 1)], dtype=object)
    return {**columns, METADATA: marks[:n_steps]}


def is_mark(name: str) -> bool:
    """Whether this column may say where the steps come from."""
    return _NAMES.fullmatch(name) is not None


def _mark(text: str) -> str:
    return f"log-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Origin:
    """Log that a table was written from.

    Attributes
    ----------
    metadata : Metadata
    n_episodes, n_steps : int
        Size of the log when it was written.
    counts : tuple of str
        Fields with a number per episode that it has.
    n_choices : int
        Number of choices that its action masks are about; 0 without masks.
    numbered : bool
        Every row has the number of its episode in the log.
    """

    metadata: Metadata
    n_episodes: int
    n_steps: int
    counts: tuple[str, ...]
    n_choices: int
    numbered: bool

    @classmethod
    def of(cls, table: pa.Table) -> Origin | None:
        """Origin from the marks of a table; None for one that was not written by `to_table`."""
        if METADATA not in table.column_names:
            if _had_marks(table.schema.metadata or {}):
                raise InvalidInputError(
                    f"`table` must keep the column {METADATA!r} that to_table wrote, got none. To "
                    "use it as a table of your own, whose origin you know, clear the data frame's "
                    "`attrs`, too."
                )
            return None
        marks = [mark.as_py() for mark in table.column(METADATA).unique()]
        if not all(isinstance(mark, str) and mark for mark in marks):
            raise _refused(f"must have column {METADATA!r} filled in every row, got empty ones")
        names = sorted({mark.partition(" ")[0] for mark in marks})
        if len(names) > 1:
            raise InvalidInputError(
                f"`table` must hold the rows of one log, got those of {len(names)} in column "
                f"{METADATA!r}. Read the tables one by one, and join the logs by "
                "Trajectories.concat."
            )
        texts = [text for _, space, text in (mark.partition(" ") for mark in marks) if space]
        if not texts:
            raise _refused(f"must hold the row of column {METADATA!r} with the metadata, got none")
        return cls._parse(names[0], texts)

    @classmethod
    def _parse(cls, name: str, texts: Sequence[str]) -> Origin:
        if any(_mark(text) != name for text in texts):
            raise StorageError(
                f"column {METADATA!r} must hold the metadata that to_table wrote, but they were "
                "changed. Write the table again."
            )
        content = json.loads(texts[0])
        return cls(
            Metadata.from_stored(content["metadata"]),
            int(content["n_episodes"]),
            int(content["n_steps"]),
            tuple(content["counts"]),
            int(content["n_choices"]),
            bool(content.get("numbered", False)),
        )

    @property
    def columns(self) -> Sequence[str]:
        """Columns with numbers per episode and action masks."""
        number = [_EPISODE] if self.numbered else []
        return [*(_COUNTS[name] for name in self.counts), *self._masks, *number]

    @property
    def _masks(self) -> Sequence[str]:
        return [f"{_MASK}_{i}" for i in range(self.n_choices)]

    def check(self, there: Sequence[str], ends: Sequence[str]) -> None:
        """Refuse a table without some of the columns that the evaluation depends on."""
        missing = [name for name in self.columns if name not in there]
        if missing:
            raise _refused(f"must keep the column {missing[0]!r} that to_table wrote, got none")
        if not set(ends) & set(there):
            raise _refused(
                "must keep the column 'terminated' or 'truncated' that to_table wrote, under the "
                "name that is passed, got neither"
            )

    def fields(
        self, rows: Callable[[str], NDArray[Any]], episodes: NDArray[Any], lengths: IntArray
    ) -> dict[str, Any]:
        """Fields of the log, from its columns in order, if all of its episodes are there."""
        n, n_steps = lengths.size, int(lengths.sum())
        if (n, n_steps) != (self.n_episodes, self.n_steps):
            raise _refused(
                f"must hold all {self.n_episodes} episodes, {self.n_steps} steps, of the log that "
                f"to_table wrote, got {n} episodes, {n_steps} steps"
            )
        if episodes.dtype.kind not in "iu" or episodes.min() != 0 or episodes.max() != n - 1:
            raise _refused(
                f"must number its episodes from 0 to {n - 1} as to_table did, in the order of "
                f"logging, got {episodes.min()!s} to {episodes.max()!s}"
            )
        self._check_order(rows, lengths)
        starts = np.cumsum(lengths) - lengths
        masks = [rows(name) for name in self._masks]
        return {
            **{name: _whole(rows(_COUNTS[name]), name)[starts] for name in self.counts},
            "action_masks": np.stack(masks, axis=1).astype(np.bool_) if masks else None,
        }

    def _check_order(self, rows: Callable[[str], NDArray[Any]], lengths: IntArray) -> None:
        """Refuse a table whose episodes have other numbers than in the log."""
        if not self.numbered:
            if self.metadata.adaptive:
                raise StorageError(
                    f"`table` must have the column {_EPISODE!r} with the order of logging, because "
                    "the behavior of its log learned, got one of an earlier version of ove_sb3 "
                    "without it. Write the table again."
                )
            return
        expected = np.repeat(np.arange(lengths.size), lengths)
        wrong = np.flatnonzero(rows(_EPISODE) != expected)
        if wrong.size:
            raise _refused(
                "must keep the numbers that to_table gave to its episodes, in the order of "
                f"logging, got number {expected[wrong[0]]} for episode "
                f"{rows(_EPISODE)[wrong[0]]} of column {_EPISODE!r}"
            )

    def stated(self, metadata: object, reward: str) -> Metadata:
        """Metadata of the log; `metadata` is what the caller passed."""
        if metadata is not None:
            raise _refused("must not be given metadata where it holds those of its log")
        if reward == "reward":
            return self.metadata
        return replace(self.metadata, reward_range=None)  # that of another signal


def _whole(values: NDArray[Any], name: str) -> NDArray[Any]:
    if values.dtype.kind not in "iu":
        raise _refused(f"must hold whole numbers in column {_COUNTS[name]!r}, got {values.dtype}")
    return values


def _had_marks(schema_metadata: Mapping[bytes, bytes]) -> bool:
    """Whether the data frame that a table was made from had the metadata of a log in ``attrs``."""
    attributes = json.loads(schema_metadata.get(b"pandas", b"{}")).get("attributes") or {}
    stored = attributes.get("metadata")
    return isinstance(stored, Mapping) and "log_ids" in stored


def _refused(problem: str) -> InvalidInputError:
    return InvalidInputError(f"`table` {problem}. {_REMEDY}")
