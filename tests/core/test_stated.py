"""Every assumption says how it was checked, wherever it comes from."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core.stated import NOT_CHECKED, Assumption, how_checked

N = 40


def statistics(horizon: int | None = 2) -> ove.TrajectoryStatistics:
    rng = np.random.default_rng(0)
    ratios = rng.choice([0.5, 1.5], size=2 * N)
    return ove.trajectory_statistics(
        np.log(ratios), rng.random(2 * N), np.full(N, 2), gamma=0.9, horizon=horizon
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"reward_range": (0, 1)}, ("rewards lie in [0, 1]", "Every logged reward")),
        ({"reward_range": "from_data"}, ("rewards lie in", "Taken from the log itself")),
        (
            {"reward_range": (0, 1), "return_range": (0, 1.9)},
            ("returns lie in [0, 1.9]", "Every logged return"),
        ),
        (
            {"reward_range": (0, 1), "max_ratio": 1.5},
            ("no step's importance ratio exceeds 1.5", "Every logged ratio"),
        ),
        (
            {"reward_range": (0, 1), "max_weight": 2.25},
            ("no trajectory's importance weight exceeds 2.25", "Every product of logged ratios"),
        ),
        (
            {"reward_range": (0, 1), "adaptive": True},
            ("trajectories are in the order of logging", "Episodes are numbered"),
        ),
    ],
)
def test_all_say_how_they_were_checked(options: dict[str, Any], expected: tuple[str, str]) -> None:
    interval = ove.interval(statistics(), "mean", **options)
    stated = [text for text in interval.assumptions if text not in interval.reasons]
    assert len(stated) >= 5
    for text in stated:
        assert isinstance(text, Assumption), text
        assert text.checked.endswith("."), text
        assert how_checked(text) == text.checked
    (found,) = [text for text in stated if text.startswith(expected[0])]
    assert how_checked(found).startswith(expected[1])


def test_without_a_horizon_the_discount_bounds_the_return() -> None:
    interval = ove.interval(statistics(horizon=None), "mean", reward_range=(0, 1))
    (found,) = [text for text in interval.assumptions if "discount" in text]
    assert how_checked(found).startswith("A definition")


def test_assumptions_are_strings_that_can_be_copied_and_sent() -> None:
    text = Assumption("the sky is blue", "Looked up.")
    assert text == "the sky is blue"
    for other in (copy.deepcopy(text), pickle.loads(pickle.dumps(text))):
        assert other == text
        assert how_checked(other) == "Looked up."
    assert how_checked(Assumption("the sky is blue")) == NOT_CHECKED
