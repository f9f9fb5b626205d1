"""Joining of logs of one environment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np

from ove_sb3.core.stopping import UNKNOWN_BEGIN
from ove_sb3.errors import InvalidInputError

from .arrays import ARRAYS, concatenate_rows, step_shapes

_VALUES = attrgetter(*ARRAYS)


def joined_fields(parts: Sequence[Any]) -> dict[str, Any]:
    """Arrays of all parts by name, joined; optional arrays that some lack are filled or dropped."""
    if len({part.final_observations is None for part in parts}) == 2:
        parts = [replace(part, final_observations=None) for part in parts]
    if len({part.overlaps is None for part in parts}) == 2:
        parts = [
            replace(part, overlaps=np.zeros(len(part), np.int64)) if part.overlaps is None else part
            for part in parts
        ]
    if len({part.begins is None for part in parts}) == 2:
        parts = [
            replace(part, begins=np.full(len(part), UNKNOWN_BEGIN)) if part.begins is None else part
            for part in parts
        ]
    if len({frozenset(part.columns) for part in parts}) > 1:
        raise InvalidInputError(
            "`parts` must have the same columns, got "
            f"{' and '.join(str(sorted(part.columns)) for part in parts)}. Keep the same "
            "columns in every part."
        )
    rows = zip(*map(_VALUES, parts), strict=True)
    return {name: concatenate_rows(values) for name, values in zip(ARRAYS, rows, strict=True)}


def check_parts(parts: object, kind: type) -> list[Any]:
    """The logs of class `kind` to be joined; those of different environments are refused."""
    array = isinstance(parts, np.ndarray)
    if isinstance(parts, kind) or array or not isinstance(parts, Iterable):
        raise InvalidInputError(
            f"`parts` must be a sequence of Trajectories, got {type(parts).__name__}."
        )
    logs = list(parts)
    if not logs:
        raise InvalidInputError("`parts` must hold at least one Trajectories, got 0.")
    for part in logs:
        if not isinstance(part, kind):
            raise InvalidInputError(
                f"`parts` must hold Trajectories only, got {type(part).__name__}."
            )
    if len({part.action_masks is None for part in logs}) == 2:
        raise InvalidInputError(
            "`parts` must all have action masks or all have none. Masks decide the probability of "
            "an action: log them in every part."
        )
    for name in ("observations", "actions", "action_masks"):
        shapes = step_shapes([getattr(part, name) for part in logs])
        for shape in shapes:
            if shape != shapes[0]:
                raise InvalidInputError(
                    f"`parts` must have {name.replace('_', ' ')} of one shape, got {shapes[0]} and "
                    f"{shape}. Only logs of one environment can be joined."
                )
    return logs
