"""Seeds that the environments of a log were started from, and states that actions were drawn from.

An entry is (identifier of the log, kind, first seed, last seed). Equal seeds of one kind give equal
random numbers. All parts of a log have its identifier, so that they are not taken for two logs.
Actions have an identifier of their own: several logs may share one batch of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np

from ove_sb3.errors import InvalidInputError

SeedRange = tuple[str, str, int, int]

_RESET, _COLLECT, _ACTIONS = "reset", "collect", "actions"  # kinds
_MOST_RANGES = 1000  # of one log


def reset_seeds(log_id: str, seeds: Iterable[int]) -> tuple[SeedRange, ...]:
    """Entries for seeds that were passed to ``reset``."""
    return tuple((log_id, _RESET, seed, seed) for seed in seeds)


def collect_seed(log_id: str, seed: int) -> tuple[SeedRange, ...]:
    """Entry for the seed that was passed to `collect`."""
    # A round of `collect` adds a number above 32 bits: round 1 of seed 5 has seed 5 + 2^32.
    seed %= 1 << 32
    return ((log_id, _COLLECT, seed, seed),)


def action_state(draw_id: str, state: int) -> SeedRange:
    """Entry for a state, as a number, of the generator that actions were drawn from."""
    return draw_id, _ACTIONS, state, state


def check_seeds(values: Any) -> tuple[SeedRange, ...]:
    """Entries in order; those of one log are disjoint, and not too many."""
    if not isinstance(values, (list, tuple)) or not all(map(_is_entry, values)):
        raise InvalidInputError(
            "`seeds` must be a sequence of entries (log id, 'reset', 'collect' or 'actions', first "
            f"seed, last seed), got {values!r}. Keep those of the log, data.metadata.seeds."
        )
    entries = sorted((log, kind, int(first), int(last)) for log, kind, first, last in values)
    if len(entries) < 2:
        return tuple(entries)
    joined = []
    for (log, kind), rows in groupby(entries, key=itemgetter(0, 1)):
        ranges = _joined([(first, last) for _, _, first, last in rows])
        joined += [(log, kind, first, last) for first, last in ranges]
    return tuple(joined)


def share_seeds(entries: Sequence[SeedRange]) -> bool:
    """Whether two logs have a seed in common; entries are those of `check_seeds`."""
    ends: dict[str, int] = {}
    for _, kind, first, last in sorted(entries, key=itemgetter(2)):
        if kind in ends and first <= ends[kind]:  # of two logs: those of one are disjoint
            return True
        ends[kind] = last
    return False


def _is_entry(value: Any) -> bool:
    if not isinstance(value, (list, tuple)) or len(value) != 4:
        return False
    log, kind, *ends = value
    return (
        isinstance(log, str)
        and kind in (_RESET, _COLLECT, _ACTIONS)
        and all(isinstance(end, (int, np.integer)) for end in ends)
        and ends[0] <= ends[1]
    )


def _joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges in order without overlaps and neighbors; beyond some number, gaps are closed."""
    joined = [ranges[0]]
    for first, last in ranges[1:]:
        begin, end = joined[-1]
        if first <= end + 1:
            joined[-1] = (begin, max(end, last))
        else:
            joined.append((first, last))
    if len(joined) <= _MOST_RANGES:
        return joined
    # The widest gaps stay. Too many seeds rather than too few: none that is shared is overlooked.
    gaps = [after[0] - before[1] for before, after in pairwise(joined)]
    widest = sorted(range(len(gaps)), key=gaps.__getitem__)[-(_MOST_RANGES - 1) :]
    cuts = [0, *(i + 1 for i in sorted(widest)), len(joined)]
    return [(joined[begin][0], joined[end - 1][1]) for begin, end in pairwise(cuts)]
