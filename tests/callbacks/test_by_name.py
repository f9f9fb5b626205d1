"""Child callbacks by name."""

from __future__ import annotations

from typing import Any

import pytest
from gymnasium import spaces
from stable_baselines3.common.callbacks import StopTrainingOnNoModelImprovement

import ove_sb3 as ove


def callback(**options: Any) -> ove.OffPolicyVarianceCallback:
    data = ove.collect(ove.UniformPolicy(spaces.Discrete(2)), "CartPole-v1", 2, seed=0)
    return ove.OffPolicyVarianceCallback(data, requirements=["mean >= 1"], **options)


def test_children_are_made_from_their_names() -> None:
    parent = callback(
        callback_after_eval={"ove_sb3.StopTrainingOnRequirements": {"verbose": 1}},
        callback_on_new_best={
            "stable_baselines3.common.callbacks.StopTrainingOnNoModelImprovement": {
                "max_no_improvement_evals": 3
            }
        },
    )
    assert isinstance(parent.callback, ove.StopTrainingOnRequirements)
    assert parent.callback.verbose == 1
    assert parent.callback.parent is parent
    assert isinstance(parent.callback_on_new_best, StopTrainingOnNoModelImprovement)
    assert parent.callback_on_new_best.max_no_improvement_evals == 3
    child: Any = parent.callback_on_new_best
    assert child.parent is parent
    by_name = callback(callback_after_eval="ove_sb3.StopTrainingOnRequirements")
    assert isinstance(by_name.callback, ove.StopTrainingOnRequirements)
    # YAML gives None for a name without arguments.
    without = callback(callback_after_eval={"ove_sb3.StopTrainingOnRequirements": None})
    assert isinstance(without.callback, ove.StopTrainingOnRequirements)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("StopTrainingOnRequirements", "can be imported"),
        ("ove_sb3.StopTrainingOnRequirments", "can be imported"),
        ("ove_sb3.UniformPolicy", "a class of callbacks"),
        ({"a": {}, "b": {}}, "a dict of that name"),
        (3, "a dict of that name"),
        ({"ove_sb3.StopTrainingOnRequirements": "mean >= 1"}, "a dict of that name"),
    ],
)
def test_other_names_are_refused(given: Any, reason: str) -> None:
    with pytest.raises(ove.InvalidInputError, match=f"`callback_after_eval` must .*{reason}"):
        callback(callback_after_eval=given)
