"""Fields of episodes as columns with one entry per step, and back.

Columns are named as in the store: ``observation`` (or ``observation/<key>`` for a dict),
``action``, ``log_prob``, ``reward``, ``done``, ``action_mask``, ``column/<name>`` for a kept one,
``episode/begins`` at the last step of an episode, and per episode ``final_observation``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ove_sb3.core.stopping import UNKNOWN_BEGIN
from ove_sb3.errors import InvalidInputError

Columns = dict[str, NDArray[Any]]
_BEGINS = "episode/begins"
# In ``done``: neither terminated nor truncated; one overlapping episode. It is negative where
# overlaps were not counted: that none happened is something else, and the bets depend on it.
_NEITHER, _OVERLAP = 4, 8
_MOST_OVERLAPS = np.iinfo(np.int32).max // _OVERLAP - 1


def to_columns(fields: Mapping[str, Any]) -> tuple[Columns, Columns]:
    """Columns per step and per episode, from the fields of `Trajectories`."""
    lengths, truncated = fields["lengths"], fields["truncated"]
    done = np.zeros(int(lengths.sum()), dtype=np.int32)
    how = fields["terminated"] + 2 * truncated.astype(np.int32)
    how = np.where(how == 0, _NEITHER, how)
    overlaps = fields["overlaps"]
    if overlaps is not None and overlaps.size and overlaps.max() > _MOST_OVERLAPS:
        raise InvalidInputError(
            f"`overlaps` must be at most {_MOST_OVERLAPS} to be stored, got {overlaps.max()}."
        )
    done[np.cumsum(lengths) - 1] = -how if overlaps is None else how + _OVERLAP * overlaps
    columns = _named("observation", fields["observations"])
    if columns.get("observation", done).ndim == 2 and not columns["observation"].size:
        del columns["observation"]  # a log without observations
    columns["action"] = fields["actions"]
    columns["log_prob"], columns["reward"] = fields["log_probs"], fields["rewards"]
    columns["done"] = done
    begins = UNKNOWN_BEGIN if fields["begins"] is None else fields["begins"]
    columns[_BEGINS] = np.zeros(done.size, dtype=np.int64)
    columns[_BEGINS][np.cumsum(lengths) - 1] = begins
    if fields["action_masks"] is not None:
        columns["action_mask"] = fields["action_masks"]
    columns |= {f"column/{name}": array for name, array in fields["columns"].items()}
    if fields["final_observations"] is None:
        return columns, {}
    return columns, _named("final_observation", fields["final_observations"])


def from_columns(columns: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Fields of `Trajectories`, without the metadata."""
    ends = np.flatnonzero(columns["done"])
    done = columns["done"][ends]
    how = np.abs(done)
    overlaps = how.astype(np.int64) // _OVERLAP
    observations = _unnamed("observation", columns)
    begins = columns[_BEGINS][ends]
    return {
        "observations": np.zeros((columns["done"].size, 0), np.float32)
        if observations is None
        else observations,
        "actions": columns["action"],
        "log_probs": columns["log_prob"],
        "rewards": columns["reward"],
        "lengths": np.diff(np.concatenate([[-1], ends])),
        "terminated": (how & 1).astype(np.bool_),
        "truncated": (how & 2).astype(np.bool_),
        "action_masks": columns.get("action_mask"),
        "final_observations": _unnamed("final_observation", columns),
        "overlaps": None if (done < 0).all() else overlaps,
        "begins": None if (begins == UNKNOWN_BEGIN).all() else begins,
        "columns": _unnamed("column", columns) or {},
    }


def _named(name: str, values: Any) -> Columns:
    if isinstance(values, dict):
        return {f"{name}/{key}": array for key, array in values.items()}
    return {name: values}


def _unnamed(name: str, columns: Mapping[str, NDArray[Any]]) -> Any:
    if name in columns:
        return columns[name]
    prefix = f"{name}/"
    parts = {key[len(prefix) :]: array for key, array in columns.items() if key.startswith(prefix)}
    return parts or None
