"""Names of episodes and columns that may be mistaken for others, and numbers of half precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import ove_sb3 as ove


def table(names: Any, **columns: Any) -> dict[str, Any]:
    """One row per name; rewards count the rows."""
    n = len(names)
    return {"episode_id": names, "p_old": [0.5] * n, "reward": np.arange(n) * 1.0, **columns}


def read(source: Any, **options: Any) -> ove.Trajectories:
    return ove.Trajectories.from_table(source, **{"step": None, **options})


@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_logarithms_are_taken_in_full_precision(kind: str) -> None:
    p = np.array([0.5, 0.75, 0.6, 0.1], kind)
    data = read(table([0, 0, 1, 1], p_old=p, p_new=p), keep=["p_new"])
    np.testing.assert_array_equal(data.log_probs, np.log(p.astype(np.float64)))
    np.testing.assert_array_equal(data.columns["p_new"], p)
    # The behavior itself, as a candidate, has ratios of 1 even in long episodes.
    tolerance = 1e-12 if kind == "float16" else 1e-6
    candidate = np.log(data.columns["p_new"])
    np.testing.assert_allclose(candidate, data.log_probs, rtol=tolerance)


@pytest.mark.parametrize("step", [None, "t"])
def test_fractions_are_no_names(step: str | None, tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_text(
        "episode_id,t,p_old,reward\n0,0,0.5,1\n0.1,0,0.5,1\n0.10,0,0.5,1\n", encoding="utf-8"
    )
    with pytest.raises(
        ove.InvalidInputError, match=r"fractions, .*pass strings or integers\), got 0.1 at row 1"
    ) as caught:
        read(path, step=step)
    assert caught.value.row == 1
    assert len(read(pd.read_csv(path, dtype={"episode_id": str}), step=step)) == 3


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_whole_floats_are_numbers(kind: str) -> None:
    names = np.array([-0.0, 0.0, 2.0, 2.0, -1.0], kind)
    data = read(pa.table(table(names)))
    np.testing.assert_array_equal(data.lengths, [1, 2, 2])
    np.testing.assert_array_equal(data.rewards, [4, 0, 1, 2, 3])
    np.testing.assert_array_equal(read(pa.table(table(names * 30))).lengths, [1, 2, 2])


def categories(numbers: list[int], names: list[Any]) -> pa.Table:
    encoded = pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), pa.array(names))
    return pa.table(table(encoded, t=pa.array([0, 1, 0, 1])))


@pytest.mark.parametrize("step", [None, "t"])
def test_categories_count_by_their_names(step: str | None) -> None:
    unused = read(categories([0, 0, 2, 2], ["a", "b", "c", "d"]), step=step)
    np.testing.assert_array_equal(unused.lengths, [2, 2])
    twice = read(categories([0, 1, 2, 2], ["a", "a", "b"]), step=step)
    np.testing.assert_array_equal(twice.lengths, [2, 2])
    with pytest.raises(
        ove.InvalidInputError, match="no missing values, got one at row 2"
    ) as caught:
        read(categories([0, 0, 1, 1], ["a", None]), step=step)
    assert caught.value.row == 2


@pytest.mark.parametrize("name", ["episode_id", "reward", "ove_metadata"])
def test_columns_of_one_name(name: str, tmp_path: Path) -> None:
    columns = table([0, 1], ove_metadata=["a", "a"])
    arrow = pa.table(columns)
    arrow = arrow.append_column(name, arrow.column(name))
    (tmp_path / "steps.csv").write_text(
        f"episode_id,p_old,reward,ove_metadata,{name}\n0,0.5,1,a,0\n", encoding="utf-8"
    )
    for source in (arrow, tmp_path / "steps.csv"):
        with pytest.raises(ove.InvalidInputError, match=f"must have one column '{name}', got 2"):
            read(source)


def test_names_that_are_equal_as_strings() -> None:
    columns: dict[Any, Any] = {**table([0, 1]), 1: [0.0, 0.0], "1": [1.0, 1.0]}
    assert len(read(columns)) == 2
    with pytest.raises(ove.InvalidInputError, match="must have one column '1', got 2"):
        read(columns, keep=["1"])


@pytest.mark.parametrize("step", [None, "t"])
def test_several_values_are_no_name(step: str | None) -> None:
    frame = pd.DataFrame(table([(0, 1), (0, 2)], t=[0, 0]))
    message = "column 'episode_id' must name every episode by a number or a string, got list"
    with pytest.raises(ove.InvalidInputError, match=message):
        read(frame, step=step)
