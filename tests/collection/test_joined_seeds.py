"""Logs that are joined are compared by the seeds of their environments."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import DummyVecEnv
from typer.testing import CliRunner

import ove_sb3 as ove
from ove_sb3.cli.app import app
from ove_sb3.data.metadata import Metadata, merge
from tests.data.test_storage import same

from .test_collect_path import Walk, make
from .test_seeds import REASON, Coin, collected, interval_of, loop, vec_loop

Make = Callable[[], ove.Trajectories]


def unseeded_collect(seed: int) -> ove.Trajectories:
    """`collect` without a seed, in environments that were seeded before."""
    venv = DummyVecEnv([Coin] * 2)
    venv.seed(seed)
    return ove.collect(ove.UniformPolicy(Coin.action_space, Coin.observation_space), venv, 10)


CASES: dict[str, tuple[Make, Make, bool]] = {
    "reset": (lambda: loop([0, None]), lambda: loop([0, None]), True),
    "other reset": (lambda: loop([0, None]), lambda: loop([1, None]), False),
    "one of many resets": (lambda: loop([4, 0, 9]), lambda: loop([3, 9]), True),
    "between": (lambda: loop([0, 9]), lambda: loop([4, 5]), False),
    "VecEnv": (lambda: vec_loop([0], n_envs=8), lambda: vec_loop([3], n_envs=8), True),
    "other VecEnv": (lambda: vec_loop([0], n_envs=8), lambda: vec_loop([8], n_envs=8), False),
    "VecEnv and reset": (lambda: vec_loop([0], n_envs=8), lambda: loop([7]), True),
    "collect": (lambda: collected(0), lambda: collected(0, 0.1), True),
    "collect, more environments": (lambda: collected(0), lambda: collected(0, n_envs=16), True),
    "other collect": (lambda: collected(0), lambda: collected(1), False),
    "collect and reset": (lambda: collected(0), lambda: loop([0]), False),
    "collect, seeded before": (lambda: unseeded_collect(0), lambda: vec_loop([0]), True),
    "collect without a seed": (lambda: collected(None), lambda: collected(None, 0.1), False),
}


@pytest.mark.parametrize("case", CASES)
def test_joined_logs(case: str, tmp_path: Path) -> None:
    first, second, expected = CASES[case]
    one, other = first(), second()
    assert not one.metadata.repeated_seeds
    assert not other.metadata.repeated_seeds
    joined = ove.Trajectories.concat([one, other])
    assert joined.metadata.repeated_seeds == expected
    with ove.EpisodeWriter(tmp_path, Metadata()) as writer:
        writer.add(one)
        writer.flush()
        writer.add(other)
    assert ove.Trajectories.load(tmp_path).metadata.repeated_seeds == expected


@pytest.mark.parametrize("seed", [0, 1])
def test_two_wrappers_of_one_directory(seed: int, tmp_path: Path) -> None:
    loop([0, *[None] * 9], tmp_path)
    data = loop([seed, *[None] * 9], tmp_path)
    assert len(data) == 20
    assert data.metadata.repeated_seeds == (seed == 0)
    assert any(REASON in text for text in interval_of(tmp_path).reasons) == (seed == 0)


@pytest.mark.parametrize("seed", [5, 5 + 2**32])
def test_a_round_of_a_collection_on_disk_has_the_seed_of_one_in_memory(
    seed: int, tmp_path: Path
) -> None:
    stored, memory = collected(5, n=32, n_envs=1, path=tmp_path), collected(seed, n_envs=1)
    first = 0 if seed == 5 else 16
    np.testing.assert_array_equal(stored.rewards[first : first + 16], memory.rewards)
    assert ove.Trajectories.concat([stored, memory]).metadata.repeated_seeds


def test_parts_of_one_log_are_not_two_logs(tmp_path: Path) -> None:
    for k, data in enumerate([collected(0, n=40), loop([3, *[None] * 39]), vec_loop([0] * 1, 8)]):
        parts = [*data.split(0.5), data[:3], data[3:]]
        parts += [part for half in parts[:2] for part in half.split(0.5, rng=1)]
        joined = ove.Trajectories.concat(parts)
        assert joined.metadata.seeds == data.metadata.seeds
        assert not joined.metadata.repeated_seeds
        for i, part in enumerate(parts[:2]):
            part.save(tmp_path / f"{k}-{i}")
        loaded = [ove.Trajectories.load(tmp_path / f"{k}-{i}") for i in range(2)]
        assert not ove.Trajectories.concat(loaded).metadata.repeated_seeds


def test_the_same_collection_in_two_processes_is_one_log() -> None:
    first, again = collected(0), collected(0)
    assert first.metadata.seeds == again.metadata.seeds
    halves = ove.Trajectories.concat([first[:8], again[8:]])
    same(halves, first)
    assert not halves.metadata.repeated_seeds


def test_a_collection_that_is_continued_is_one_log(tmp_path: Path) -> None:
    policy = ove.UniformPolicy(Walk.action_space)
    Walk.left = 77
    with pytest.raises(RuntimeError, match="died"):
        ove.collect(policy, make(1), 50, seed=1, path=tmp_path / "log")
    Walk.left = -1
    data = ove.collect(policy, make(1), 50, seed=1, path=tmp_path / "log")
    assert len(data.metadata.seeds) == 1
    assert not data.metadata.repeated_seeds
    second = ove.collect(policy, make(1), 50, seed=1, path=tmp_path / "second")
    assert ove.Trajectories.concat([data, second]).metadata.repeated_seeds


def test_the_command_line_draws_a_seed_for_every_log(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        command = ["collect", "uniform", "CartPole-v1", str(path), "--episodes", "3"]
        assert CliRunner().invoke(app, command).exit_code == 0
    one, other = map(ove.Trajectories.load, paths)
    assert one.metadata.seed is not None
    assert one.metadata.seed != other.metadata.seed
    assert not ove.Trajectories.concat([one, other]).metadata.repeated_seeds


def seeded(log_id: str, seeds: NDArray[np.int64]) -> Metadata:
    return Metadata(seeds=tuple((log_id, "reset", int(seed), int(seed)) for seed in seeds))


def test_many_seeds_stay_few_entries() -> None:
    in_order = seeded("a", np.arange(5000))
    assert in_order.seeds == (("a", "reset", 0, 4999),)
    drawn = np.unique(np.random.default_rng(0).integers(0, 2**31, 1500))
    some = seeded("a", drawn[:900])
    assert len(some.seeds) == 900
    many = merge([some, seeded("a", drawn[900:])])
    assert len(many.seeds) == 1000
    assert not many.repeated_seeds
    assert json.loads(json.dumps(many.to_dict()))["seeds"][0][1] == "reset"
    for k in drawn[::100].tolist():  # none is lost
        assert merge([many, Metadata(seeds=(("b", "reset", k, k),))]).repeated_seeds
        assert not merge([many, Metadata(seeds=(("b", "collect", k, k),))]).repeated_seeds


@pytest.mark.parametrize(
    "wrong",
    ["seeds", 3, [3], [("a", "reset", 0)], [("a", "other", 0, 1)], [(1, "reset", 0, 1)],
     [("a", "reset", 0.5, 1)], [("a", "reset", 1, 0)]],
)  # fmt: skip
def test_wrong_entries_are_refused(wrong: object) -> None:
    with pytest.raises(ove.InvalidInputError, match="`seeds` must be a sequence of entries"):
        replace(Metadata(), seeds=wrong)  # type: ignore[arg-type]
