"""Identifiers of logs: kept by every operation, and they tell which parts share no episode."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove
from ove_sb3.data.log_ids import may_share_episodes, new_log_id
from ove_sb3.data.metadata import Metadata, merge
from ove_sb3.data.writer import EpisodeWriter
from tests.data.test_storage import some


def ids(data: ove.Trajectories) -> tuple[str, ...]:
    return data.metadata.log_ids


def share(one: ove.Trajectories, other: ove.Trajectories) -> bool:
    return may_share_episodes(ids(one), ids(other))


def test_the_same_data_have_the_same_identifier() -> None:
    data = some(6)
    assert ids(data) == ids(some(6)) != ()
    assert ids(data) != ids(some(7))
    assert ids(data[:3]) == ids(data)
    assert ids(some(6, log_ids=["mine"])) == ("mine",)


def test_saving_and_joining_keep_identifiers(tmp_path: Path) -> None:
    data, other = some(6), some(7)
    data.save(tmp_path)
    assert ids(ove.Trajectories.load(tmp_path)) == ove.open_log(tmp_path).metadata.log_ids
    assert ids(ove.Trajectories.load(tmp_path)) == ids(data)
    joined = ove.Trajectories.concat([data, other])
    assert ids(joined) == tuple(sorted(ids(data) + ids(other)))
    again = Metadata.from_dict(joined.metadata.to_dict())
    assert again.log_ids == ids(joined)


def test_a_writer_keeps_few_identifiers(tmp_path: Path) -> None:
    """It keeps its own and those of the logs it was given, but not one for every episode."""
    part, _ = some(6).split(0.5)
    with_log = EpisodeWriter(tmp_path / "log", Metadata(), flush_every=2)
    with_log.add(part)
    with_log.close()
    written = ove.Trajectories.load(tmp_path / "log")
    assert set(ids(written)) == {*ids(part), *with_log.metadata.log_ids}
    assert share(written, some(6))
    writer = EpisodeWriter(tmp_path / "episodes", Metadata(), flush_every=10)
    for k in range(200):
        writer.add(replace(some(1), rewards=some(1).rewards + k, metadata=Metadata()))
    writer.close()
    assert len(writer.metadata.log_ids) == 1
    found = set(ids(ove.Trajectories.load(tmp_path / "episodes")))
    assert {*writer.metadata.log_ids} < found
    assert len(found) < 100


def test_a_writer_keeps_the_identifiers_of_all_written_logs(tmp_path: Path) -> None:
    """However many there are: a model that was trained on one of them depends on the log."""
    env = gym.make("CartPole-v1")
    venv = ove.VecLogActionProbability(DummyVecEnv([lambda: env]), reward_range=(0, 1))
    model = PPO("MlpPolicy", venv, n_steps=64, batch_size=64, device="cpu", seed=0)
    venv.set_model(model)
    model.learn(128)
    policy = ove.UniformPolicy(env.action_space)
    collected = ove.collect(policy, "CartPole-v1", 70, seed=0, reward_range=(0, 1), progress=False)
    with EpisodeWriter(tmp_path, Metadata(), flush_every=10, durability="normal") as writer:
        for one in collected:
            writer.add(replace(one, metadata=replace(one.metadata, log_ids=(new_log_id(),))))
        writer.add(venv.trajectories())
    written = ove.Trajectories.load(tmp_path)
    assert len(ids(written)) == 72
    result = ove.evaluate(written, model, gamma=0.9, quantities=["mean"], approximate=None)
    assert any("trained" in reason for reason in result["mean"].interval.reasons)


def test_parts_of_one_split_share_nothing() -> None:
    data, other = some(8), some(9)
    first, second = data.split(0.5)
    assert not share(first, second)
    assert share(first, first)
    assert share(first, data)
    assert share(data, second)
    assert share(ove.Trajectories.concat([first, second]), second)
    assert not share(first, other)
    inner, outer = first.split(0.5)
    assert not share(inner, outer)
    assert not share(inner, second)
    assert share(inner, first)
    assert share(inner, data)


@pytest.mark.parametrize("seed", range(40))
def test_identifiers_reveal_shared_episodes(seed: int) -> None:
    """Identifiers reveal common episodes of any two parts made by slices, splits and joins."""
    rng = np.random.default_rng(seed)
    data = some(24)
    numbered = {tuple(row): k for k, row in enumerate(data.rewards[data.starts][:, None].tolist())}
    assert len(numbered) == len(data)

    def episodes(part: ove.Trajectories) -> set[int]:
        return {numbered[(float(part.rewards[at]),)] for at in part.starts}

    pool: list[ove.Trajectories] = [data]
    for _ in range(25):
        part = pool[rng.integers(len(pool))]
        kind = rng.integers(3)
        if kind == 0 and len(part) > 3:
            shuffle: Any = None if rng.random() < 0.5 else int(rng.integers(3))
            pool += [p for p in part.split(float(rng.choice([0.3, 0.5])), rng=shuffle) if len(p)]
        elif kind == 1 and len(part) > 2:
            pool.append(part[: int(rng.integers(1, len(part)))])
        else:
            joined = pool[rng.integers(len(pool))]
            if not episodes(part) & episodes(joined):
                pool.append(ove.Trajectories.concat([part, joined]))
    for one in pool:
        for other in pool:
            if episodes(one) & episodes(other):
                assert share(one, other)


def test_metadata_keep_the_worst() -> None:
    flags = ("adaptive", "deterministic_actions", "shared_exploration")
    for flag in flags:
        joint = merge([Metadata(), Metadata(**{flag: True}), Metadata()])  # type: ignore[arg-type]
        assert [name for name in flags if getattr(joint, name)] == [flag]
        assert getattr(Metadata.from_dict(joint.to_dict()), flag)
        with pytest.raises(ove.InvalidInputError, match=f"`{flag}` must be True or False"):
            Metadata(**{flag: "yes"})  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["abc", 3, [3], [""], None])
def test_identifiers_are_text(wrong: Any) -> None:
    with pytest.raises(ove.InvalidInputError, match="`log_ids` must be a sequence"):
        Metadata(log_ids=wrong)
