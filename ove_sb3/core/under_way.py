"""Episodes under way when a number of them have ended."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ove_sb3._validation import IntArray
from ove_sb3.errors import InvalidInputError

from .statistics import TrajectoryStatistics
from .stopping import Logging


def _none() -> IntArray:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class UnderWay:
    """Episodes that had begun, but not ended, when n episodes had ended.

    Attributes
    ----------
    least, most : ndarray of int64, (m,)
        Least and largest number of episodes that can have ended when each of them began.
    lost : ndarray of int64, (m,)
        Number of episodes that had ended when it was known that each would never end, because
        another writer went on; n for those that may still end.
    sequential : bool
        Episodes ran one after another.
    n_expected : int
        Number of episodes expected to be under way at any time, known before the first.
    """

    least: IntArray = field(default_factory=_none)
    most: IntArray = field(default_factory=_none)
    lost: IntArray = field(default_factory=_none)
    sequential: bool = True
    n_expected: int = 0

    def __len__(self) -> int:
        return int(self.least.size)


def under_way(stats: TrajectoryStatistics, n: int, n_envs: int = 1) -> UnderWay:
    """Episodes under way when the first n of `stats` had ended.

    They are known from those that ended later, and from the records of the log; without records,
    `n_envs` were under way at any time.
    """
    if stats.has_beginnings:
        return _in_log(stats, n)
    if stats.overlaps is None:
        return UnderWay()
    began = np.arange(len(stats)) - stats.overlaps
    later = began[n:][began[n:] <= n]
    unknown = n_envs - later.size
    if unknown < 0:
        raise InvalidInputError(
            "`n_envs` must be the number of environments that ran at the same time, got "
            f"{n_envs}, but {later.size} episodes were under way when {n} had ended, according to "
            "`overlaps`."
        )
    return UnderWay(
        np.concatenate([later, np.zeros(unknown, np.int64)]),
        np.concatenate([later, np.full(unknown, n)]),
        np.full(n_envs, n),
        sequential=False,
        n_expected=n_envs,
    )


def _in_log(stats: TrajectoryStatistics, n: int) -> UnderWay:
    logging, begins = stats.logging, stats.begins
    assert logging is not None
    assert begins is not None
    first = next(iter(logging.records.values()))
    least, most = logging.begun_between(begins, stats.overlaps)
    if first.n_envs == 1:
        _check_sequential(logging)
        # Those that ended later had not begun; the next one began when the last had ended.
        most = most[most < n]
        return UnderWay(most, most, most)
    began = np.arange(len(stats)) - (0 if stats.overlaps is None else stats.overlaps)
    later = began[n:][began[n:] <= n]
    begun = least <= n
    return UnderWay(
        np.concatenate([later, least[begun]]),
        np.concatenate([later, np.minimum(most[begun], n)]),
        np.concatenate([np.full(later.size, n), np.minimum(logging.lost_at(begins)[begun], n)]),
        sequential=False,
        n_expected=first.n_envs,
    )


def _check_sequential(logging: Logging) -> None:
    if not logging.sequential:
        most = max(record.n_envs for record in logging.records.values())
        raise InvalidInputError(
            "`n_envs` must be 1 for all writers of a log that one environment began, got a writer "
            f"with {most}: bounds that hold at every number of episodes are proven for logs of one "
            "environment, or of several from the beginning on. Use a log of its own for each."
        )
