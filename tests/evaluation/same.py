"""Equality to the last bit."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

import ove_sb3 as ove


def same_statistics(first: ove.TrajectoryStatistics, second: ove.TrajectoryStatistics) -> None:
    for field in fields(first):
        np.testing.assert_array_equal(
            getattr(first, field.name), getattr(second, field.name), err_msg=field.name
        )


def same_result(first: ove.Evaluation, second: ove.Evaluation) -> None:
    same_statistics(first.stats, second.stats)
    assert first.to_dict() == second.to_dict()
