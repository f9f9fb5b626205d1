"""`Trajectories`: shapes, slices, joins, and invalid input."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core.stopping import LoggingRecord
from ove_sb3.data.metadata import _MERGE_RULES, Metadata, describe_space, make_space

from .test_storage import same, some


def arrays(**changes: Any) -> dict[str, Any]:
    values = {
        "observations": np.arange(5.0),
        "actions": np.array([0, 1, 0, 1, 1]),
        "log_probs": np.log([0.5, 0.5, 0.5, 0.25, 0.25]),
        "rewards": [1.0, 2.0, 3.0, 4.0, 5.0],
        "lengths": [2, 3],
    }
    return {**values, **changes}


def test_what_it_tells() -> None:
    data = ove.Trajectories.from_arrays(**arrays(metadata={"env_id": "Test-v0", "adaptive": True}))
    assert repr(data) == ("Trajectories: 2 episodes of Test-v0, 5 steps, mean return 7.5, adaptive")
    assert data.returns(0.5).tolist() == [2.0, 6.25]
    assert data.starts.tolist() == [0, 2]
    with pytest.raises(ValueError, match="read-only"):
        data.rewards[0] = 3.0
    with pytest.raises(AttributeError):
        data.rewards = data.rewards  # type: ignore[misc]


def test_slices() -> None:
    data = some(7, kind="dict")
    for index in (3, -1, slice(2, 5), slice(None, None, -2), [4, 0, 4], np.arange(7) % 2 == 0):
        chosen = np.atleast_1d(np.arange(7)[index])
        part = data[index]
        assert part.lengths.tolist() == data.lengths[chosen].tolist()
        rewards = [data.rewards[data.starts[i] : data.starts[i] + data.lengths[i]] for i in chosen]
        np.testing.assert_array_equal(part.rewards, np.concatenate(rewards))
        assert part.action_masks is not None
        assert len(part.action_masks) == part.n_steps
    assert len(data[:0]) == 0
    assert repr(data[:0]) == "Trajectories: 0 episodes"
    assert len(list(data)) == 7
    same(ove.Trajectories.concat([data[:3], data[3:]]), data)
    with pytest.raises(IndexError, match="7 episodes"):
        data[7]
    with pytest.raises(ove.InvalidInputError, match="7 episodes"):
        data[[1, 9]]


def test_split_and_concat() -> None:
    data = some(10)
    first, second = data.split(0.3)
    assert (len(first), len(second)) == (3, 7)
    same(ove.Trajectories.concat([first, second]), data)
    left, right = data.split(0.5, rng=1)
    assert sorted([*left.returns(), *right.returns()]) == pytest.approx(sorted(data.returns()))
    assert not np.array_equal(left.returns(), data[:5].returns())
    with pytest.raises(ove.InvalidInputError, match="`fraction` must lie in"):
        data.split(1.5)
    with pytest.raises(ove.InvalidInputError, match="at least one"):
        ove.Trajectories.concat([])
    with pytest.raises(ove.InvalidInputError, match="all have action masks"):
        ove.Trajectories.concat([some(2, kind="dict"), some(2)])
    one, two = some(2, seed=1, adaptive=True), some(2, seed=2, env_id="B")
    joined = ove.Trajectories.concat([one, two]).metadata
    assert joined.adaptive
    assert joined.env_id == "B"
    assert joined.incomplete_fraction == 0.0
    together = ove.Trajectories.concat(
        [ove.Trajectories.from_arrays(**arrays(overlaps=k)) for k in ([0, 1], None, [2, 0])]
    )
    assert together.overlaps is not None
    assert together.overlaps.tolist() == [0, 1, 0, 0, 2, 0]
    counts: list[Any] = [(7, 11, 10), (8, 7, 4), (7, 22, 20)]
    records = [{str(w): LoggingRecord(begun, ended)} for w, begun, ended in counts]
    parts = [one, *(some(2, begun=record) for record in records)]
    metadata = ove.Trajectories.concat(parts).metadata
    assert metadata.begun == {"7": LoggingRecord(22, 20), "8": LoggingRecord(7, 4)}
    assert metadata.incomplete_fraction == pytest.approx(5 / 29)
    assert Metadata.from_dict(json.loads(json.dumps(metadata.to_dict()))) == metadata
    a, b = ({"type": "Discrete", "n": n, "start": 0} for n in (2, 3))
    with pytest.raises(ove.InvalidInputError, match="share the observation space"):
        ove.Trajectories.concat([some(2, observation_space=a), some(2, observation_space=b)])


def masked(n: int) -> Any:
    """Array with one masked entry."""
    return np.ma.masked_array(np.ones(n, int), mask=np.arange(n) == n - 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengths": [2, 2]}, "add up to the number of logged steps, 5, got 4"),
        ({"lengths": [5, 0]}, "`lengths` must be at least 1, got 0 at episode 1"),
        ({"lengths": [2.5, 2.5]}, "`lengths` must hold integers, got dtype float64"),
        ({"rewards": [1, 2, np.nan, 4, 5]}, "got nan at episode 1, step 0"),
        ({"log_probs": [0.0, 0.0, 0.0, -np.inf, 0.0]}, "actions, got -inf at episode 1, step 1"),
        ({"actions": [0, 1]}, "`actions` must have one entry per logged step, 5 in all"),
        ({"observations": {"a": np.zeros(4)}}, r"`observations\['a'\]` must have one entry"),
        ({"observations": {}}, "empty dict"),
        ({"actions": ["a"] * 5}, "must hold numbers"),
        ({"terminated": [True]}, "`terminated` must have one entry per episode"),
        ({"metadata": {"horizon": 2}}, "at most the horizon 2, got 3 at episode 1"),
        ({"metadata": {"horizon": 0}}, "`horizon` must be an integer of at least 1"),
        ({"metadata": {"reward_range": (1, 0)}}, "low <= high"),
        ({"metadata": {"adaptive": "no"}}, "`adaptive` must be True or False"),
        ({"log_probs": np.full(5, 0.5)}, "at most 0 for discrete actions, got 0.5 at episode 0"),
        ({"overlaps": [0, -1]}, "`overlaps` must be at least 0"),
        ({"overlaps": [0]}, "`overlaps` must hold 2 integers"),
        ({"log_probs": [-0.5]}, "`log_probs` and `rewards` must have one entry.* got 1 and 5"),
        ({"log_probs": []}, "got 0 and 5"),
        ({"log_probs": np.zeros(4)}, "got 4 and 5"),
        ({"log_probs": -0.5}, "`log_probs` must be 1-dimensional"),
        ({"log_probs": masked(5)}, "`log_probs` must have no masked entries, got 1 of 5"),
        ({"rewards": masked(5)}, "`rewards` must have no masked entries, got 1 of 5"),
        ({"actions": masked(5)}, "`actions` must have no masked entries"),
        ({"observations": masked(5)}, "`observations` must have no masked entries"),
        ({"observations": {"a": masked(5)}}, r"`observations\['a'\]` must have no masked"),
        ({"lengths": masked(2)}, "`lengths` must have no masked entries"),
        ({"overlaps": masked(2)}, "`overlaps` must have no masked entries"),
        ({"terminated": masked(2).astype(bool)}, "`terminated` must have no masked entries"),
        ({"observations": [[1], [2, 3], [4], [5], [6]]}, "`observations` must convert to an array"),
        ({"rewards": [[1, 2], [3]]}, "`rewards` must convert to an array"),
        ({"rewards": np.ones(5, complex)}, "`rewards` must hold real numbers, got dtype complex"),
        ({"rewards": [True] * 5}, "`rewards` must hold real numbers, got dtype bool"),
        ({"rewards": [None] * 5}, "`rewards` must hold real numbers, got dtype object"),
        ({"terminated": ["False", "True"]}, "`terminated` must hold True or False"),
        ({"truncated": [0.5, 1.0]}, "`truncated` must hold True or False"),
        ({"truncated": [2, 0]}, "`truncated` must hold True or False"),
        ({"lengths": [2**62, 2**62, 2**62, 2**62]}, "add up to the number of logged steps, 5"),
        ({"metadata": "x"}, "`metadata` must be Metadata or a dict with its entries, got 'x'"),
        ({"metadata": {"adaptve": True}}, "got 'adaptve'. Did you mean 'adaptive'?"),
        ({"metadata": {1: True}}, "`metadata` must have entries among env_id.*, got 1."),
        ({"metadata": {"seed": 1.5}}, "`seed` must be an integer"),
        ({"metadata": {"env_id": 3}}, "`env_id` must be a string or None, got 3"),
        ({"metadata": {"begun": {"a": {"begun": 3}}}}, "`begun` must have numbers of writers"),
        ({"metadata": {"begun": {"1": 3}}}, "`begun` must hold records with entries among begun"),
        ({"metadata": {"begun": {"1": {"begun": -1}}}}, "`begun` must be an integer"),
        ({"metadata": {"begun": {"1": {"begun": 1, "ended": 2}}}}, "`ended` must be at most"),
        ({"begins": [1]}, "`begins` must have one entry per episode"),
        ({"metadata": {"action_space": "Discrete(2)"}}, "`action_space` must be a description"),
        ({"metadata": {"action_space": {"type": "Text"}}}, "`action_space` must be a description"),
        (
            {
                "log_probs": [0.5, 0, 0, 0, 0],
                "metadata": {"action_space": {"type": "Discrete", "n": 2, "start": 0}},
            },
            r"at most 0 for discrete actions, got 0.5 at episode 0, step 0 \(1 of 5",
        ),
    ],
)
def test_what_it_refuses(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ove.InvalidInputError, match=message):
        ove.Trajectories.from_arrays(**arrays(**change))


def test_a_mask_without_masked_entries_is_no_mask() -> None:
    data = ove.Trajectories.from_arrays(**arrays(rewards=np.ma.masked_array(np.arange(5.0))))
    assert type(data.rewards) is np.ndarray
    assert data.rewards.tolist() == [0, 1, 2, 3, 4]
    flags = ove.Trajectories.from_arrays(**arrays(terminated=[1, 0]))
    assert flags.truncated.tolist() == [False, True]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([1], "`parts` must hold Trajectories only, got int"),
        (3, "`parts` must be a sequence of Trajectories, got int"),
        (some(2), "`parts` must be a sequence of Trajectories, got Trajectories"),
        ([some(2, env_id="A"), some(2, env_id="B")], "share the env id, got 'A' and 'B'"),
        ([some(2, horizon=50), some(2), some(2, horizon=60)], "share the horizon, got 50 and 60"),
        ([some(2), some(2, kind="scalar")], "must have observations of one shape"),
    ],
)
def test_what_concat_refuses(parts: Any, message: str) -> None:
    with pytest.raises(ove.InvalidInputError, match=message):
        ove.Trajectories.concat(parts)


def test_merged_metadata_keep_the_weakest_assumption() -> None:
    one, two = some(2, reward_range=(0, 1), horizon=60), some(2, reward_range=(-1, 0.5))
    joined = ove.Trajectories.concat([one, two, some(2)]).metadata
    assert joined.reward_range == (-1.0, 1.0)
    assert joined.horizon is None


def test_every_field_of_the_metadata_says_how_it_is_merged() -> None:
    assert set(_MERGE_RULES) == {f.name for f in fields(ove.Metadata)}


@pytest.mark.parametrize(
    "index", ["x", 1.5, None, [[0, 1], [0]], {"a": 1}, [0.5], True, np.zeros((2, 2), int), [2**64]]
)
def test_what_indexing_refuses(index: Any) -> None:
    with pytest.raises(ove.InvalidInputError, match="`index` must name some of the 3 episodes"):
        some(3)[index]


def test_spaces_survive_json() -> None:
    import json

    from gymnasium import spaces

    for space in (
        spaces.Box(-1, 1, (3, 2), np.float32),
        spaces.Box(np.array([-np.inf, 0], np.float32), np.array([1, np.inf], np.float32)),
        spaces.Box(0, 255, (8, 8, 3), np.uint8),
        spaces.Discrete(4, start=2),
        spaces.MultiDiscrete([2, 3]),
        spaces.MultiBinary(4),
        spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(0, 1, (2,))}),
    ):
        assert make_space(json.loads(json.dumps(describe_space(space)))) == space
    with pytest.raises(ove.InvalidInputError, match="Box, Discrete"):
        describe_space(spaces.Text(3))


def test_imports_stay_light() -> None:
    heavy = "torch stable_baselines3 gymnasium pyarrow pandas minari"
    for statement in ("import ove_sb3", "import ove_sb3; ove_sb3.Trajectories, ove_sb3.Metadata"):
        code = (
            f"{statement}; import sys; sys.exit(any(m in sys.modules for m in '{heavy}'.split()))"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_name_is_there() -> None:
    for name in ove.__all__:
        assert getattr(ove, name) is not None
        assert name in dir(ove)
