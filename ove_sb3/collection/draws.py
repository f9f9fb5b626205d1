"""States of the random generators that models draw their actions from.

A process that is restarted may draw the same numbers again: `load` of a model with a seed sets it
once more, and torch's generator starts from the same state in every process.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ove_sb3.data.log_ids import new_log_id
from ove_sb3.data.seeds import SeedRange, action_state
from ove_sb3.policies.fingerprint import digest, value_parts

_MOST_GENERATORS = 1000
# Generator, last state that was seen and its entry, by the identity of the generator.
_SEEN: dict[int, tuple[Any, str, SeedRange]] = {}


def see_states(generators: Iterable[tuple[Any, Any]]) -> tuple[SeedRange, ...]:
    """Entries of `Metadata.seeds` for generators and their states now.

    A generator that has not moved since it was last seen has the same entry, with the same
    identifier: several wrappers may log one batch of actions. A generator that was set back, and
    another one in the same state, have entries of their own.
    """
    return tuple(_entry(generator, state) for generator, state in generators)


def _entry(generator: Any, state: Any) -> SeedRange:
    state_digest = digest("generator", value_parts(state), complete=False)
    assert state_digest is not None
    _, last, entry = _SEEN.pop(id(generator), (None, None, None))
    if entry is None or state_digest != last:
        entry = action_state(new_log_id(), int(state_digest[:16], 16) >> 1)
    _SEEN[id(generator)] = generator, state_digest, entry
    if len(_SEEN) > _MOST_GENERATORS:
        del _SEEN[next(iter(_SEEN))]  # the one that was not seen for the longest time
    return entry
