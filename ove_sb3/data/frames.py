"""Steps as a data frame, one row per step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ove_sb3._progress import tracked
from ove_sb3._validation import IntArray
from ove_sb3.errors import InvalidInputError

from .arrays import EPISODE_COUNTS
from .columns import to_columns
from .exchange import marked_columns
from .metadata import Metadata

if TYPE_CHECKING:
    import pandas as pd


def to_pandas(fields: Mapping[str, Any], *, progress: bool | None) -> pd.DataFrame:
    """Frame of all fields of a log but the final observations, indexed by episode and step."""
    lengths = fields["lengths"]
    columns, _ = to_columns(fields)
    del columns["done"]
    columns.pop("episode/begins", None)
    columns |= _ends(fields)
    for name in EPISODE_COUNTS:
        if (counts := fields[name]) is not None:
            columns[name] = np.repeat(counts, lengths)
    return _step_frame(columns, lengths, progress)


def to_table(
    fields: Mapping[str, Any], metadata: Metadata, *, density: bool, progress: bool | None
) -> pd.DataFrame:
    """Frame with the columns that `Trajectories.from_table` takes by default."""
    observed, kept = fields["observations"], fields["columns"]
    propensities = np.exp(fields["log_probs"])
    if not density:
        propensities = np.minimum(propensities, 1.0)  # rounding of a probability of 1
    columns: dict[str, NDArray[Any]] = {
        "p_old": propensities,
        "reward": fields["rewards"],
        "action": fields["actions"],
        **_ends(fields),
    }
    if isinstance(observed, dict):
        columns |= {f"observation_{key}": array for key, array in observed.items()}
    else:
        columns["observation"] = observed
    columns |= marked_columns(fields, metadata)
    if taken := sorted({"episode_id", "step", *columns} & set(kept)):
        raise _taken(taken[0])
    frame = _step_frame(columns | dict(kept), fields["lengths"], progress)
    return frame.rename_axis(["episode_id", "step"]).reset_index()


def _ends(fields: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """How episodes ended, marked in their last rows."""
    lengths = fields["lengths"]
    last = np.zeros(int(lengths.sum()), dtype=np.bool_)
    last[np.cumsum(lengths) - 1] = True
    return {name: last & np.repeat(fields[name], lengths) for name in ("terminated", "truncated")}


def _step_frame(
    columns: Mapping[str, NDArray[Any]], lengths: IntArray, progress: bool | None
) -> pd.DataFrame:
    """One row per step, indexed by episode and step; arrays are spread over several columns."""
    import pandas as pd

    flat: dict[str, NDArray[Any]] = {}
    for name, array in columns.items():
        _spread(flat, name.replace("/", "_"), array)
    episode = np.repeat(np.arange(lengths.size), lengths)
    step = np.arange(episode.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    index = pd.MultiIndex.from_arrays([episode, step], names=["episode", "step"])
    copied = {
        name: array.copy()  # the frame may be changed, the log may not
        for name, array in tracked(flat.items(), progress, total=len(flat), unit="column")
    }
    return pd.DataFrame(copied, index=index, copy=False)


def _spread(columns: dict[str, NDArray[Any]], name: str, array: NDArray[Any]) -> None:
    flat = array.reshape(len(array), math.prod(array.shape[1:]))
    for i in range(flat.shape[1]):
        full = name if array.ndim == 1 else f"{name}_{i}"
        if full in columns:
            raise _taken(full)
        columns[full] = flat[:, i]


def _taken(name: str) -> InvalidInputError:
    return InvalidInputError(
        f"`columns` must not hold {name!r}, a name that the table needs. Rename it."
    )
