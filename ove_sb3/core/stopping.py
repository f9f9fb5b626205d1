"""How logging stopped: which episodes were begun, and which of them never ended.

Episodes that are under way when logging stops are missing from the log, and they are the long ones.
So every episode gets a number when it begins, and the log knows how many were begun: the numbers
that are missing are those of the unfinished episodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ove_sb3._validation import IntArray, check_flag, check_integer
from ove_sb3.errors import InvalidInputError

_NUMBER_BITS = 32
_NUMBERS = (1 << _NUMBER_BITS) - 1
UNKNOWN_BEGIN = -1


@dataclass(frozen=True)
class LoggingRecord:
    """Record of the episodes that one writer began.

    Attributes
    ----------
    begun : int
        Number of episodes that were begun, those that never ended included.
    ended : int
        Number of them that ended and were logged.
    n_envs : int
        Environments that ran at the same time.
    n_steps : int
        Steps logged, of all environments together.
    planned_steps : int or None
        Number of steps that was expected in advance. If it equals `n_steps`, logging stopped there.
    cut : bool
        A part of a log, cut at a place that depends on how the log continued.
    """

    begun: int
    ended: int = 0
    n_envs: int = 1
    n_steps: int = 0
    planned_steps: int | None = None
    cut: bool = False

    def __post_init__(self) -> None:
        for name, least in (("begun", 0), ("ended", 0), ("n_envs", 1), ("n_steps", 0)):
            object.__setattr__(self, name, check_integer(getattr(self, name), name, least))
        if self.planned_steps is not None:
            planned = check_integer(self.planned_steps, "planned_steps", 1)
            object.__setattr__(self, "planned_steps", planned)
        check_flag(self.cut, "cut")
        if self.ended > self.begun:
            raise InvalidInputError(
                f"`ended` must be at most the number of episodes begun, {self.begun}, got "
                f"{self.ended}."
            )

    @property
    def stopped_by_steps(self) -> bool:
        """Whether logging stopped exactly where it was planned to."""
        return self.planned_steps == self.n_steps


def latest_record(records: Sequence[LoggingRecord]) -> LoggingRecord:
    """Record of a writer's whole log, from the records of its parts: counts only grow."""
    planned = {record.planned_steps for record in records} - {None}
    return LoggingRecord(
        begun=max(record.begun for record in records),
        ended=max(record.ended for record in records),
        n_envs=max(record.n_envs for record in records),
        n_steps=max(record.n_steps for record in records),
        planned_steps=planned.pop() if len(planned) == 1 else None,
        cut=any(record.cut for record in records),
    )


def begin_key(writer: int, number: int) -> int:
    """Identify an episode by its writer, below 2^31, and its number there."""
    return (writer << _NUMBER_BITS) | number


def writer_of(begins: IntArray) -> IntArray:
    """Writer of every episode."""
    return begins >> _NUMBER_BITS


def number_of(begins: IntArray) -> IntArray:
    """Number of every episode among those that its writer began."""
    return begins & _NUMBERS


@dataclass(frozen=True)
class Logging:
    """The records of all writers of a log, by writer.

    Attributes
    ----------
    records : dict of int to LoggingRecord
        In the order in which the writers started. That of their episodes would not do: it leaves
        out the writers of which no episode ended, and those are the ones whose episodes are long.
    """

    records: Mapping[int, LoggingRecord]

    @property
    def begun(self) -> int:
        """Number of episodes that were begun."""
        return sum(record.begun for record in self.records.values())

    @property
    def n_envs(self) -> int:
        """Number of environments."""
        return sum(record.n_envs for record in self.records.values())

    @property
    def planned_steps(self) -> int | None:
        """Steps planned in advance; None if some writer had no plan."""
        total = 0
        for record in self.records.values():
            if record.planned_steps is None:
                return None
            total += record.planned_steps
        return total

    @property
    def stopped_by_steps(self) -> bool:
        """Whether every writer stopped exactly where it was planned to."""
        return all(record.stopped_by_steps for record in self.records.values())

    @property
    def sequential(self) -> bool:
        """Whether every writer ran one episode after another."""
        return all(record.n_envs == 1 for record in self.records.values())

    @property
    def cut(self) -> bool:
        """Whether the log was cut at a place that depends on how it continued."""
        return any(record.cut for record in self.records.values())

    def n_unfinished(self, begins: IntArray) -> int:
        """Number of episodes that were begun but are not among those that began at `begins`."""
        return max(self.begun - begins.size, 0)

    def known(self, begins: IntArray) -> NDArray[np.bool_]:
        """Whether each episode is one of a writer with a record, (n,)."""
        writers = np.array(sorted(self.records), dtype=np.int64)
        return np.asarray(np.isin(writer_of(begins), writers))

    def places(self, begins: IntArray) -> IntArray:
        """Place of every known episode among all that were begun, writer after writer."""
        keys = begins[self.known(begins)]
        if np.unique(keys).size < keys.size:
            raise InvalidInputError(
                "`data` must hold every episode once, got the same logged episode several times. "
                "Join each log once."
            )
        places = np.empty(keys.size, dtype=np.int64)
        first = 0
        for writer, record in self.records.items():
            own, begun = writer_of(keys) == writer, record.begun
            numbers = number_of(keys[own])
            if numbers.size and int(numbers.max()) >= begun:
                raise InvalidInputError(
                    f"`begins` must be below the number of episodes begun, {begun}, got "
                    f"{int(numbers.max())}. Keep the metadata of a log together with its episodes."
                )
            places[own] = first + numbers
            first += begun
        return places

    def in_order_of_beginning(self, begins: IntArray) -> IntArray:
        """Indices of the episodes in the order of beginning; n for those that never ended."""
        order = np.full(self.begun, begins.size, dtype=np.int64)
        order[self.places(begins)] = np.flatnonzero(self.known(begins))
        return order

    def begun_between(
        self, begins: IntArray, overlaps: IntArray | None
    ) -> tuple[IntArray, IntArray]:
        """For every unfinished episode, least and largest number that had ended when it began.

        Episodes are in the order in which they ended, and writers followed one another. When an
        episode began, at least as many had ended as when an earlier one of its writer began, and
        at most as many as when a later one did. Those of a writer of one environment of which none
        ended began when the writer before it had stopped.
        """
        positions = np.flatnonzero(self.known(begins))
        places = self.places(begins)
        began = positions if overlaps is None else positions - overlaps[positions]
        least = np.zeros(self.begun, dtype=np.int64)
        most = np.full(self.begun, begins.size, dtype=np.int64)
        least[places] = most[places] = np.maximum(began, 0)
        writers, first, ended = writer_of(begins[positions]), 0, 0
        for writer, record in self.records.items():
            own = slice(first, first + record.begun)
            logged = positions[writers == writer]
            if logged.size:
                least[own] = np.maximum(least[own], logged[0])
                most[own] = np.minimum(most[own], logged[-1] + 1)
                ended = int(logged[-1]) + 1
            elif self.sequential:
                least[own] = most[own] = ended
            least[own] = np.maximum.accumulate(least[own])
            most[own] = np.minimum.accumulate(most[own][::-1])[::-1]
            first = own.stop
        missing = np.ones(self.begun, dtype=np.bool_)
        missing[places] = False
        return least[missing], np.maximum(most, least)[missing]

    def lost_at(self, begins: IntArray) -> IntArray:
        """For every unfinished episode, number of those that had ended when the next writer began.

        Number of all episodes for those of the last writer.
        """
        positions = np.flatnonzero(self.known(begins))
        writers = writer_of(begins[positions])
        lost = np.full(self.begun, begins.size, dtype=np.int64)
        first = 0
        for writer, record in self.records.items():
            last = first + record.begun
            later = positions[writers == writer]
            if later.size:
                lost[first:last] = later[-1] + 1
            first = last
        missing = np.ones(self.begun, dtype=np.bool_)
        missing[self.places(begins)] = False
        return lost[missing]
