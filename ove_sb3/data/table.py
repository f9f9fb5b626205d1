"""Steps as a pandas table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ove_sb3._validation import IntArray
from ove_sb3.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd


def step_frame(columns: Mapping[str, NDArray[Any]], lengths: IntArray) -> pd.DataFrame:
    """One row per step, indexed by episode and step; arrays are spread over several columns."""
    try:
        import pandas as pd
    except ImportError as error:
        raise InvalidInputError(
            "`to_pandas` needs pandas, which is not installed: pip install pandas."
        ) from error
    flat: dict[str, NDArray[Any]] = {}
    for name, array in columns.items():
        _spread(flat, name.replace("/", "_"), array)
    episode = np.repeat(np.arange(lengths.size), lengths)
    step = np.arange(episode.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    index = pd.MultiIndex.from_arrays([episode, step], names=["episode", "step"])
    return pd.DataFrame(flat, index=index)


def _spread(columns: dict[str, NDArray[Any]], name: str, array: NDArray[Any]) -> None:
    if array.ndim == 1:
        columns[name] = array
        return
    flat = array.reshape(len(array), -1)
    for i in range(flat.shape[1]):
        columns[f"{name}_{i}"] = flat[:, i]
