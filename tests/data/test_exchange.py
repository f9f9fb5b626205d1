"""Exported tables keep whatever decides the label of an interval, or are refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import ove_sb3 as ove
from ove_sb3.core.assigned import ASSIGNED_TO
from ove_sb3.core.stopping import LoggingRecord, begin_key

PROGRAM = Path(sys.executable).with_name("ove-sb3")
SUFFIXES = (".csv", ".parquet", ".feather")


def write(frame: pd.DataFrame, path: Path) -> Path:
    """Write a table as a user would."""
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_feather(path)
    return path


def read(source: Any, **options: Any) -> ove.Trajectories:
    return ove.Trajectories.from_table(source, **options)


def candidate_of(data: ove.Trajectories) -> Any:
    """Log-probabilities of a policy that prefers action 1, where a fair coin acted."""
    return np.log(np.where(data.actions == 1, 0.52, 0.48))


def assert_same(result: ove.Evaluation, expected: ove.Evaluation) -> None:
    """Labels, reasons, assumptions and bounds of all intervals."""
    assert list(result.quantities) == list(expected.quantities)
    for name in result.quantities:
        one, other = result[name].interval, expected[name].interval
        for entry in ("guaranteed", "reasons", "assumptions"):
            assert getattr(one, entry) == getattr(other, entry)
        assert (one.lower, one.upper) == pytest.approx((other.lower, other.upper), rel=1e-7)


@pytest.fixture(scope="module")
def unfinished() -> ove.Trajectories:
    """Some 3,000 steps of CartPole by a fair coin, stopped in the middle of an episode."""
    env = gym.make("CartPole-v1")
    model = ove.UniformPolicy(env.action_space)
    logged = ove.LogActionProbability(env, model)
    observation, _ = logged.reset(seed=0)
    steps, under_way = 0, False
    while steps < 3_000 or not under_way:
        action, _ = model.predict(observation)
        observation, _, terminated, truncated, _ = logged.step(action)
        steps, under_way = steps + 1, not (terminated or truncated)
        if not under_way:
            observation, _ = logged.reset()
    data = logged.trajectories()
    assert data.n_steps < steps
    assert data.metadata.incomplete_fraction > 0
    return data


def routes(frame: pd.DataFrame, folder: Path) -> list[Any]:
    """The table as it is, in files of all kinds, shuffled, and after a second round trip by CSV."""
    paths = [write(frame, folder / f"steps{suffix}") for suffix in SUFFIXES]
    shuffled = write(frame.sample(frac=1.0, random_state=0), folder / "shuffled.csv")
    again = write(pd.read_csv(shuffled), folder / "again.csv")
    return [frame, pa.Table.from_pandas(frame), *paths, shuffled, again]


def test_an_unfinished_episode_is_counted_in_every_format(
    unfinished: ove.Trajectories, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"gamma": 0.9, "reward_range": (0, 1)}
    quantities: dict[str, Any] = {"quantities": ["mean", "variance"], "approximate": None}
    methods = ("betting", "paper")
    expected = [
        ove.evaluate(unfinished, candidate_of(unfinished), method=method, **settings, **quantities)
        for method in methods
    ]
    # As a table of other origin, without the record of episodes, the log would count as complete.
    own = replace(unfinished, begins=None, metadata=replace(unfinished.metadata, begun={}))
    narrower = ove.evaluate(own, candidate_of(own), **settings, **quantities)
    assert narrower["mean"].interval.width < expected[0]["mean"].interval.width
    assert not expected[1].guaranteed
    frame = unfinished.to_table().assign(p_new=lambda f: np.where(f["action"] == 1, 0.52, 0.48))
    for source in routes(frame, tmp_path):
        data = read(source, action="action", keep=["p_new"])
        assert data.metadata == unfinished.metadata
        for method, wanted in zip(methods, expected, strict=True):
            candidate = np.log(data.columns["p_new"])
            result = ove.evaluate(data, candidate, method=method, **settings, **quantities)
            assert_same(result, wanted)
    command = [PROGRAM, "evaluate", tmp_path / "shuffled.csv", "--candidate-propensity", "p_new"]
    options = ["--gamma", 0.9, "--reward-range", 0, 1, "--approximate", "none", "--json"]
    for method, wanted in zip(methods, expected, strict=True):
        line = [*map(str, [*command, *options]), "--method", method, "--quantity", "mean"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        interval = json.loads(done.stdout)["quantities"]["mean"]["interval"]
        assert interval["guaranteed"] == (method == "betting")
        assert interval["assumptions"] == list(wanted["mean"].interval.assumptions)


def coin(n: int = 40, **metadata: Any) -> ove.Trajectories:
    """Episodes of 2 steps by a fair coin."""
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, 2 * n)
    return ove.Trajectories.from_arrays(
        observations=np.zeros((2 * n, 2), np.float32),
        actions=actions,
        log_probs=np.full(2 * n, np.log(0.5)),
        rewards=0.5 * actions,
        lengths=np.full(n, 2),
        overlaps=np.arange(n) % 2,
        columns={ASSIGNED_TO: np.repeat(np.arange(n) % 2, 2)},
        metadata={"horizon": 2, "reward_range": (0.0, 1.0), **metadata},
    )


COMPONENTS = [{"weight": 0.5, "policy": "PPO", "fingerprint": name} for name in "ab"]
REASONS: dict[str, dict[str, Any]] = {
    "none": {},
    "learned": {"adaptive": True},
    "deterministic": {"deterministic_actions": True},
    "shared coin": {"shared_exploration": True},
    "repaired": {"lost_episodes": 2},
    "assigned": {"assigned": True, "components": COMPONENTS},
    "beginnings unknown": {"begun": {"3": LoggingRecord(41, 40)}},
    "cut": {"begun": {"3": LoggingRecord(41, 40, cut=True)}},
}


@pytest.mark.parametrize("case", REASONS)
def test_what_takes_the_label_away_survives(case: str, tmp_path: Path) -> None:
    data = coin(**REASONS[case])
    if case == "cut":
        data = replace(data, begins=begin_key(3, 0) + np.arange(40))
    settings: dict[str, Any] = {"gamma": 1.0, "quantities": ["mean"], "approximate": None}
    methods = ["betting"] if case == "learned" else ["betting", "paper"]
    expected = {m: ove.evaluate(data, candidate_of(data), method=m, **settings) for m in methods}
    assert expected[methods[-1]].guaranteed == (case in ("none", "learned"))
    for source in routes(data.to_table(), tmp_path):
        back = read(source, action="action", keep=[ASSIGNED_TO])
        for m in methods:
            result = ove.evaluate(back, candidate_of(back), method=m, **settings)
            assert_same(result, expected[m])
    if case == "assigned":  # without the column that says who acted
        back = read(tmp_path / "steps.csv", action="action")
        assert not ove.evaluate(back, candidate_of(back), **settings).guaranteed


def test_numbers_per_episode_and_masks_survive(tmp_path: Path) -> None:
    begins = begin_key((1 << 31) - 1, 0) + np.arange(40)[::-1]
    masks = np.random.default_rng(1).random((80, 3)) < 0.5
    data = replace(coin(), begins=begins, action_masks=masks)
    for source in routes(data.to_table(), tmp_path):
        back = read(source, action="action")
        np.testing.assert_array_equal(back.begins, begins)
        np.testing.assert_array_equal(back.overlaps, data.overlaps)
        np.testing.assert_array_equal(back.action_masks, masks)
        assert back.begins.dtype == np.int64  # type: ignore[union-attr]


def test_a_probability_of_1_that_was_rounded_up_is_read_back() -> None:
    data = replace(coin(), log_probs=np.full(80, 1e-7))
    assert (read(data.to_table()).log_probs == 0.0).all()
    continuous = replace(data, actions=np.zeros(80))
    back = read(continuous.to_table(), density=True, action="action")
    np.testing.assert_allclose(back.log_probs, 1e-7)


CHANGES: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], str]] = {
    "episodes left out": (lambda f: f[f["episode_id"] < 30], "all 40 episodes, .* got 30"),
    "selected and renumbered": (
        lambda f: f[f["episode_id"] % 2 == 0].assign(episode_id=lambda g: g["episode_id"] // 2),
        "all 40 episodes, 80 steps, .* got 20 episodes, 40 steps",
    ),
    "first episode": (lambda f: f[f["episode_id"] > 0], "row of column 'ove_metadata' with the"),
    "last steps": (lambda f: f[(f["step"] == 0) | (f["episode_id"] > 2)], "got 40 episodes, 77"),
    "renamed": (
        lambda f: f.assign(episode_id=[f"episode {i}" for i in f["episode_id"]]),
        "number its episodes from 0 to 39 as to_table did",
    ),
    "other numbers": (lambda f: f.assign(episode_id=f["episode_id"] * 2), "got 0 to 78"),
    "overlaps": (lambda f: f.drop(columns="ove_overlaps"), "keep the column 'ove_overlaps'"),
    "not whole": (
        lambda f: f.assign(ove_overlaps=f["ove_overlaps"] * 1.0 + 0.5), "must hold whole numbers"
    ),
    "ends": (lambda f: f.drop(columns=["terminated", "truncated"]), "got neither"),
    "more rows": (
        lambda f: pd.concat([f, f[f["episode_id"] == 0].assign(episode_id=40, ove_metadata=None)]),
        "filled in every row",
    ),
    "edited": (
        lambda f: f.assign(
            ove_metadata=f["ove_metadata"].str.replace('"adaptive": true', '"adaptive": false')
        ),
        "they were changed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGES)
@pytest.mark.parametrize("suffix", [*SUFFIXES, ""])
def test_changed_tables_are_refused(case: str, suffix: str, tmp_path: Path) -> None:
    change, message = CHANGES[case]
    table = change(coin(adaptive=True).to_table()).reset_index(drop=True)
    source: Any = write(table, tmp_path / f"steps{suffix}") if suffix else table
    with pytest.raises(ove.OveError, match=message):
        read(source)


@pytest.mark.parametrize("renumber", [False, True])
def test_joined_tables_are_refused(renumber: bool, tmp_path: Path) -> None:
    """Two logs, with a remedy; and one log with itself."""
    one, other = coin(adaptive=True).to_table(), coin(lost_episodes=1).to_table()
    if renumber:
        other["episode_id"] += 40
    both = write(pd.concat([one, other]), tmp_path / "both.csv")
    with pytest.raises(ove.InvalidInputError, match=r"rows of one log, .* Trajectories\.concat"):
        read(both)
    done = subprocess.run(
        [PROGRAM, "evaluate", both, "--candidate-propensity", "p_old", "--gamma", "1"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 3
    assert "rows of one log" in " ".join(done.stderr.split())
    twice = pd.concat([one, one.assign(episode_id=one["episode_id"] + 40 * renumber)])
    with pytest.raises(ove.InvalidInputError, match="all 40 episodes" if renumber else "twice"):
        read(write(twice, tmp_path / "twice.csv"))


def test_a_table_of_ones_own_making(tmp_path: Path) -> None:
    """Without the metadata column and `attrs`, a table counts as the user's own data."""
    table = coin(adaptive=True, shared_exploration=True).to_table()
    own = table.drop(columns="ove_metadata")
    stripped = [own, write(own, tmp_path / "own.parquet"), write(own, tmp_path / "own.feather")]
    for source in stripped:
        with pytest.raises(ove.InvalidInputError, match="clear the data frame's `attrs`"):
            read(source)
    own.attrs.clear()
    for source in routes(own, tmp_path):
        assert not read(source).metadata.adaptive
        assert read(source, metadata={"adaptive": True}).metadata.adaptive
    with pytest.raises(ove.InvalidInputError, match="must not be given metadata"):
        read(table, metadata={"horizon": 2})
    own.attrs["metadata"] = "of somebody else"
    assert len(read(own)) == 40


def test_the_range_of_the_reward_is_not_that_of_another_column() -> None:
    table = coin().to_table().assign(cost=2.0)
    assert read(table).metadata.reward_range == (0.0, 1.0)
    data = read(table, reward="cost", action="action")
    assert data.metadata.reward_range is None
    with pytest.raises(ove.InvalidInputError, match="`reward_range`"):
        ove.evaluate(data, candidate_of(data), gamma=1.0)


@pytest.mark.parametrize("name", ["p_old", "step", "observation_1", "ove_metadata"])
def test_names_that_the_table_needs(name: str) -> None:
    data = replace(coin(), columns={name: np.zeros(80)})
    with pytest.raises(ove.InvalidInputError, match=f"must not hold {name!r}"):
        data.to_table()
