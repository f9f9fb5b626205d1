"""Which episodes of logs in memory are joined: none twice, and none left out one by one.

Equal values prove nothing where few outcomes are possible. So slices, splits and joins keep the
place of every episode in the log that it was taken from.
"""

from __future__ import annotations

import hashlib
import math
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ove_sb3._validation import IntArray
from ove_sb3.core.repetition import CHANCE, surprise
from ove_sb3.core.stopping import UNKNOWN_BEGIN
from ove_sb3.errors import InvalidInputError

from .beginnings import counts_missing
from .log_ids import is_content_id, may_share_episodes, root_of


@dataclass(frozen=True)
class Source:
    """A log in memory.

    Attributes
    ----------
    log_ids : tuple of str
    n : int
        Number of its episodes.
    """

    log_ids: tuple[str, ...]
    n: int


@dataclass(frozen=True, eq=False)
class Places:
    """Logs in memory that episodes were taken from, and the place of each in its log.

    Attributes
    ----------
    sources : dict of int to Source
        By a random number.
    source : ndarray of uint64, (n,)
        Number of every episode's log.
    index : ndarray of int64, (n,)
        Its place there.
    one_by_one : bool
        Some were taken by an integer, as in a loop over the episodes.
    """

    sources: Mapping[int, Source]
    source: NDArray[np.uint64] = field(repr=False)
    index: IntArray = field(repr=False)
    one_by_one: bool = False

    @classmethod
    def of_all(cls, log_ids: tuple[str, ...], n: int) -> Places:
        """All places of a log that nothing was taken from so far."""
        number = uuid.uuid4().int >> 64
        return cls({number: Source(log_ids, n)}, np.full(n, number, np.uint64), np.arange(n))

    def take(self, chosen: IntArray, *, one_by_one: bool) -> Places:
        """The places of some of the episodes."""
        return replace(
            self,
            source=self.source[chosen],
            index=self.index[chosen],
            one_by_one=self.one_by_one or one_by_one,
        )

    @classmethod
    def join(cls, parts: Sequence[Places]) -> Places:
        """The places of several parts, in order."""
        return cls(
            {number: log for part in parts for number, log in part.sources.items()},
            np.concatenate([part.source for part in parts]),
            np.concatenate([part.index for part in parts]),
            any(part.one_by_one for part in parts),
        )

    def __len__(self) -> int:
        return self.index.size

    def of(self, source: int) -> IntArray:
        """Which of the episodes are from this log."""
        return np.flatnonzero(self.source == np.uint64(source))

    def in_log(self, source: int) -> IntArray:
        """Places, in this log, of the episodes that are from it."""
        return self.index if len(self.sources) == 1 else self.index[self.of(source)]


def places_of(log: Any) -> Places:
    """Where the episodes of a log come from: other logs in memory, or itself."""
    if log.places is None:
        object.__setattr__(log, "places", Places.of_all(log.metadata.log_ids, len(log)))
    places: Places = log.places
    return places


class Taken:
    """Episodes that were joined so far.

    Attributes
    ----------
    repeated : bool
        Some were joined more than once.
    selected : bool
        They were taken one by one, and not one after the other. Several parts of one episode
        each count as that.
    """

    def __init__(self, argument: str) -> None:
        """Begin without episodes; `argument` is the name by which the caller passes them."""
        self.repeated = self.selected = False
        self._argument = argument
        self._seen: dict[int, NDArray[np.bool_]] = {}
        self._last: dict[int, int] = {}
        self._with_gaps: set[int] = set()
        self._one_by_one: set[int] = set()
        self._single: set[int] = set()

    def add(self, log: Any) -> None:
        """Join further episodes; those of a behavior that learned must come in order."""
        places = places_of(log)
        parts = [
            (number, source.n, index)
            for number, source in places.sources.items()
            if (index := places.in_log(number)).size
        ]
        if log.metadata.adaptive and not log.metadata.repeated_episodes:
            for number, _, index in parts:
                self._check_order(number, index)
        counted = counts_missing(log.begins, log.metadata.begun)
        for number, n, index in parts:
            seen = self._seen.setdefault(number, np.zeros(n, np.bool_))
            self.repeated |= bool(seen[index].any())
            seen[index] = True
            follows = index[0] == self._last.get(number, index[0] - 1) + 1
            if not follows or (np.diff(index) != 1).any():
                self._with_gaps.add(number)
            if places.one_by_one or (len(log) == 1 < n and not counted and self._again(number)):
                self._one_by_one.add(number)
            self._last[number] = int(index[-1])
            self.selected |= number in self._with_gaps and number in self._one_by_one

    def _again(self, number: int) -> bool:
        """Whether a single episode of this log was joined before; note that one is."""
        again = number in self._single
        self._single.add(number)
        return again

    def _check_order(self, number: int, index: IntArray) -> None:
        """Refuse new episodes that were logged before those that were joined last."""
        last, first = self._last.get(number, -1), int(index.min())
        if first < last and not self._seen[number][index].any():  # repeated ones are marked
            raise InvalidInputError(
                f"`{self._argument}` must keep the order of logging, because the behavior of this "
                f"log learned, got its episode {first} after episode {last}. Join the parts in the "
                "order in which they were logged."
            )

    @property
    def flags(self) -> dict[str, bool]:
        """Metadata of the joined log that follow."""
        flags = {"repeated_episodes": self.repeated, "selected_episodes": self.selected}
        return {name: value for name, value in flags.items() if value}


def may_repeat(parts: Iterable[Any]) -> bool:
    """Whether logs that were made apart, such as by loading twice, may share episodes.

    Only those are compared whose identifiers say that they may be parts of one log. They share
    episodes if some are equal. Identifiers that are digests of few episodes may agree by chance:
    then that must be out of the question.
    """
    pieces: dict[tuple[int, tuple[str, ...]], list[tuple[Any, IntArray]]] = defaultdict(list)
    for part in parts:
        for number in part.places.sources:
            key = number, part.metadata.log_ids
            pieces[key].append((part, part.places.of(number)))
    by_root = defaultdict(list)
    for (number, log_ids), of_log in pieces.items():
        source = of_log[0][0].places.sources[number]
        for root in {root_of(one) for one in source.log_ids}:
            by_root[root].append((number, log_ids, source.log_ids, of_log))
    for root, group in by_root.items():
        for (one, ids, first_ids, ours), (other, their_ids, second_ids, theirs) in combinations(
            group, 2
        ):
            related = may_share_episodes(first_ids, second_ids)
            if one == other or not (related and may_share_episodes(ids, their_ids)):
                continue
            numbered = ids == their_ids and _numbered(ours) and _numbered(theirs)
            first, second = (_names(one_log, numbered=numbered) for one_log in (ours, theirs))
            if set(first).isdisjoint(second):
                continue
            if not is_content_id(root) or _beyond_chance(first, second, len(group)):
                return True
    return False


def _numbered(pieces: Sequence[tuple[Any, IntArray]]) -> bool:
    """Whether every episode has the number that it was given when it began."""
    return all(
        part.begins is not None and (part.begins[at] != UNKNOWN_BEGIN).all() for part, at in pieces
    )


def _names(pieces: Sequence[tuple[Any, IntArray]], *, numbered: bool) -> list[Any]:
    """What identifies the episodes: their numbers, or a digest of what happened in them."""
    if numbered:
        return [number for part, at in pieces for number in part.begins[at].tolist()]
    return [name for part, at in pieces for name in _digests(part, at)]


def _digests(part: Any, episodes: IntArray) -> list[bytes]:
    observations = part.observations
    if not isinstance(observations, dict):
        observations = {"": observations}
    arrays = [part.rewards, part.actions, *(observations[name] for name in sorted(observations))]
    # Probabilities change in the last digit in a table; types differ from file to file.
    columns = [np.ascontiguousarray(array, dtype=np.float32) for array in arrays]
    starts, ends = part.starts, part.starts + part.lengths
    names = []
    for begin, end in zip(starts[episodes].tolist(), ends[episodes].tolist(), strict=True):
        digest = hashlib.sha256()
        for column in columns:
            digest.update(column[begin:end].tobytes())
        names.append(digest.digest())
    return names


def _beyond_chance(first: Sequence[Any], second: Sequence[Any], n_logs: int) -> bool:
    """Whether independent logs would not have as many equal episodes as one of these has."""
    needed = math.log(n_logs * n_logs / 2 / CHANCE)
    numbers: dict[Any, int] = {}
    fewer = min(first, second, key=len)
    return surprise(np.array([numbers.setdefault(name, len(numbers)) for name in fewer])) >= needed
