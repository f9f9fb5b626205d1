"""Equality to the last bit."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

import ove_sb3 as ove


def same_statistics(
    first: ove.TrajectoryStatistics | None, second: ove.TrajectoryStatistics | None
) -> None:
    assert first is not None
    assert second is not None
    assert list(first.columns) == list(second.columns)
    for name, column in first.columns.items():
        np.testing.assert_array_equal(column, second[name], err_msg=name)
    for field in fields(first):
        if field.name != "columns":
            np.testing.assert_array_equal(
                getattr(first, field.name), getattr(second, field.name), err_msg=field.name
            )


def same_fields(first: Any, second: Any) -> None:
    """Compare two instances of a dataclass; NaN equals NaN, which `==` of Python 3.13 denies."""
    assert type(first) is type(second)
    for field in fields(first):
        if field.compare:
            one, other = getattr(first, field.name), getattr(second, field.name)
            np.testing.assert_equal(one, other, err_msg=field.name)


def same_result(first: ove.Evaluation, second: ove.Evaluation) -> None:
    same_statistics(first.stats, second.stats)
    assert first.to_dict() == second.to_dict()
