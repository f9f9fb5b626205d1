"""Positions are attributes of an error and part of its text."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3 import errors
from ove_sb3._validation import episode_and_step

ERRORS = [
    error
    for error in vars(errors).values()
    if isinstance(error, type) and issubclass(error, errors.OveError)
]


@pytest.mark.parametrize("error", ERRORS)
def test_the_position_is_rendered_and_can_be_changed(error: type[errors.OveError]) -> None:
    found = error(f"got 7 at {errors.PLACE}, {{'a': 1}}", row=3)
    assert str(found) == "got 7 at row 3, {'a': 1}"
    moved = found.at(episode=2, step=5, path=Path("log") / "part.parquet")
    assert type(moved) is error
    assert str(moved) == f"got 7 at episode 2, step 5 of {Path('log', 'part.parquet')}, {{'a': 1}}"
    assert (found.row, found.episode, moved.row, moved.episode) == (3, None, None, 2)
    again = pickle.loads(pickle.dumps(moved))  # as workers send it
    assert (type(again), str(again), again.step) == (error, str(moved), 5)


def test_errors_without_a_position() -> None:
    assert str(errors.OveError("plain")) == "plain"
    assert str(errors.OveError()) == ""
    assert errors.OveError("plain").place == ""
    assert str(errors.StorageError("gone", path="a.parquet")) == "gone"


def test_positions_of_flat_steps() -> None:
    lengths = np.array([2, 1, 3])
    steps = [episode_and_step(index, lengths) for index in range(6)]
    assert steps == [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2)]


def test_bad_entries_carry_their_position() -> None:
    with pytest.raises(ove.InvalidInputError, match="got nan at episode 1, step 2") as caught:
        ove.Trajectories.from_arrays(
            observations=np.zeros(5),
            actions=np.zeros(5, dtype=int),
            log_probs=np.zeros(5),
            rewards=[0.0, 0.0, 0.0, 0.0, np.nan],
            lengths=[2, 3],
        )
    assert (caught.value.episode, caught.value.step) == (1, 2)
