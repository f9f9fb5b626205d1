"""Metadata of a log: what is accepted, and that no entry is lost on the way to disk and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import Field, fields, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core.stopping import LoggingRecord
from ove_sb3.data.arrays import ARRAYS
from ove_sb3.data.metadata import describe_space
from tests.policies.toys import toys

from .test_storage import FIELDS, some

SPACE = {"type": "Discrete", "n": 3, "start": 1}
VALUES: dict[str, Any] = {
    "horizon": 50,
    "observation_space": SPACE,
    "action_space": SPACE,
    "versions": {"numpy": "2.0"},
    "adaptive": True,
    "reward_range": (-2.0, 7.5),
    "components": (
        {"weight": 0.9, "policy": "PPO", "fingerprint": "a"},
        {"weight": 0.1, "policy": "PPO", "fingerprint": None},
    ),
    "seeds": (("a", "collect", 3, 3), ("a", "reset", 0, 7), ("b", "reset", 9, 9)),
    "begun": {"7": LoggingRecord(11, 10, 2, 50, 60), "8": LoggingRecord(4, 4, cut=True)},
}
BY_TYPE: dict[str, Any] = {
    "bool": True,
    "int": 7,
    "float": 7.5,
    "str | None": "a name",
    "int | None": 7,
    "float | None": 7.5,
    "tuple[str, ...]": ("a", "b"),
    "Mapping[str, int]": {"a": 3},
}


@pytest.fixture(scope="module")
def log() -> ove.Trajectories:
    """Log with spaces, final observations and overlaps."""
    logged = ove.collect(ove.UniformPolicy(toys().action_space), toys(early=0.2), 4, seed=0)
    metadata = replace(logged.metadata, env_id=None)
    return replace(logged, metadata=metadata, overlaps=np.array([0, 1, 0, 2]))


def value_of(field: Field[Any]) -> Any:
    """Value of a field that is not its default."""
    if field.name in VALUES:
        return VALUES[field.name]
    assert field.type in BY_TYPE, f"give {field.name} a value in this test"
    return BY_TYPE[field.type]


def through_disk(data: ove.Trajectories, path: Path) -> ove.Metadata:
    data.save(path / "log")
    return ove.Trajectories.load(path / "log").metadata


def through_stream(data: ove.Trajectories, path: Path) -> ove.Metadata:
    data.save(path / "log")
    (chunk,) = ove.open_log(path / "log").chunks()
    return chunk.metadata


def through_writer(data: ove.Trajectories, path: Path) -> ove.Metadata:
    writer = ove.EpisodeWriter(path / "log", data.metadata, flush_every=1)
    for episode in data:
        writer.add(episode)
    writer.close()
    return ove.Trajectories.load(path / "log").metadata


def through_minari(data: ove.Trajectories, path: Path) -> ove.Metadata:
    del path
    return ove.from_minari(ove.to_minari(data, "test/toy-v0")).metadata


def through_pandas(data: ove.Trajectories, path: Path) -> ove.Metadata:
    import pandas as pd

    data.to_pandas().to_parquet(path / "steps.parquet")
    return ove.Metadata.from_stored(pd.read_parquet(path / "steps.parquet").attrs["metadata"])


def through_table(data: ove.Trajectories, path: Path) -> ove.Metadata:
    data.to_table().to_parquet(path / "table.parquet")
    return ove.Trajectories.from_table(path / "table.parquet", action="action").metadata


def through_csv(data: ove.Trajectories, path: Path) -> ove.Metadata:
    data.to_table().to_csv(path / "table.csv", index=False)
    return ove.Trajectories.from_table(path / "table.csv", action="action").metadata


def through_concat(data: ove.Trajectories, path: Path) -> ove.Metadata:
    del path
    return ove.Trajectories.concat([data[:1], data[1:]]).metadata


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
@pytest.mark.parametrize("field", fields(ove.Metadata), ids=lambda field: field.name)
@pytest.mark.parametrize(
    "there_and_back",
    [
        through_disk,
        through_stream,
        through_writer,
        through_minari,
        through_pandas,
        through_table,
        through_csv,
        through_concat,
    ],
)
def test_every_entry_survives(
    field: Field[Any],
    there_and_back: Callable[[ove.Trajectories, Path], ove.Metadata],
    log: ove.Trajectories,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    value = value_of(field)
    changes = {field.name: value}
    if there_and_back is through_minari and field.name.endswith("_space"):
        value = changes[field.name] = describe_space(getattr(toys(), field.name))
    metadata = replace(log.metadata, **changes)
    back = there_and_back(replace(log, metadata=metadata), tmp_path)
    assert getattr(back, field.name) == value
    assert back == metadata


def test_every_entry_can_be_json() -> None:
    metadata = ove.Metadata(**{field.name: value_of(field) for field in fields(ove.Metadata)})
    assert ove.Metadata.from_dict(json.loads(json.dumps(metadata.to_dict()))) == metadata


def test_no_array_is_forgotten() -> None:
    names = {field.name for field in fields(ove.Trajectories)} - {"metadata", "places"}
    assert set(ARRAYS) == set(FIELDS) == names


@pytest.mark.parametrize("read", [ove.Trajectories.load, ove.open_log])
def test_a_log_of_a_later_version_is_refused(
    read: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry this version does not know may be the reason against a guarantee."""
    assert callable(read)
    to_dict = ove.Metadata.to_dict
    with monkeypatch.context() as patch:
        patch.setattr(ove.Metadata, "to_dict", lambda self: {**to_dict(self), "novel": True})
        some(3).save(tmp_path)
    with pytest.raises(
        ove.errors.StorageError, match=r"\['novel'\].*by a later version of ove_sb3"
    ):
        read(tmp_path)


def test_entries_that_earlier_versions_did_not_write_have_defaults() -> None:
    assert ove.Metadata.from_stored({"env_id": "A-v0"}) == ove.Metadata(env_id="A-v0")
    with pytest.raises(ove.errors.StorageError, match="metadata of the log are damaged: `seed`"):
        ove.Metadata.from_stored({"seed": "x"})
    with pytest.raises(ove.errors.StorageError, match="metadata of the log are damaged"):
        ove.Metadata.from_stored([1])  # type: ignore[arg-type]


def test_the_horizon_of_joined_logs_is_unknown_if_that_of_one_is() -> None:
    uniform = ove.UniformPolicy(gym.spaces.Discrete(2))
    unlimited, limited = (
        ove.collect(uniform, env, 3, seed=seed, reward_range=(0, 1))
        for seed, env in enumerate((gym.make("CartPole-v1").unwrapped, gym.make("CartPole-v1")))
    )
    assert limited.metadata.horizon == 500
    for parts in ([unlimited, limited], [limited, unlimited]):
        assert ove.Trajectories.concat(parts).metadata.horizon is None


def test_the_record_of_a_writer_changes_nothing_else() -> None:
    values = {field.name: value_of(field) for field in fields(ove.Metadata)}
    metadata, record = ove.Metadata(**values), LoggingRecord(3, 2, 1, 9, None)
    assert metadata.with_record("9", record) == replace(metadata, begun={"9": record})
    assert metadata == ove.Metadata(**values)
    with pytest.raises(ove.InvalidInputError, match="numbers of writers"):
        metadata.with_record("x", record)


@pytest.mark.parametrize("versions", ["2.0", {1: "2.0"}, {"numpy": 2.0}, [("numpy", "2.0")]])
def test_versions_are_strings(versions: Any) -> None:
    # Other keys would come back as strings from JSON.
    with pytest.raises(ove.InvalidInputError, match="`versions` must be"):
        ove.Metadata(versions=versions)
