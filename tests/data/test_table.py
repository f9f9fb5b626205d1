"""Tables with one row per step: read, refused with the row, and written back."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

import ove_sb3 as ove
from ove_sb3.cli.app import app

NAMES: dict[str, Any] = {"episode": "user", "step": "t", "propensity": "p", "reward": "r"}
PROGRAM = Path(sys.executable).with_name("ove-sb3")


def make_table(n: int = 300, *, seed: int = 0, names: bool = True) -> pd.DataFrame:
    """Episodes of 1 to 4 clicks by a fair coin; the candidate prefers action 1."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 5, n)
    users = np.repeat(np.arange(n), lengths)
    time = np.arange(users.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    action = rng.integers(0, 2, users.size)
    return pd.DataFrame(
        {
            "user": [f"user {i:04d}" for i in users] if names else users,
            "t": time,
            "p": 0.5,
            "q": np.where(action == 1, 0.9, 0.1),
            "r": (rng.random(users.size) < 0.3 + 0.4 * action).astype(float),
            "a": action,
            "x": rng.standard_normal(users.size),
            "y": rng.standard_normal(users.size),
        }
    )


def read(table: Any, **options: Any) -> ove.Trajectories:
    return ove.Trajectories.from_table(table, **{**NAMES, "keep": ["q"], **options})


def test_rows_that_are_episodes_of_one_step() -> None:
    table = make_table(40).assign(place=lambda frame: frame["t"] % 2)
    data = read(table, episode=None, step=None, observations="place", action="a")
    np.testing.assert_array_equal(data.lengths, 1)
    np.testing.assert_array_equal(data.rewards, table["r"])  # in the order of the rows
    np.testing.assert_array_equal(np.asarray(data.observations), table["place"])
    candidate = ove.TabularPolicy([[0.1, 0.9], [0.1, 0.9]])
    expected = np.where(table["a"] == 1, 0.9, 0.1)
    np.testing.assert_allclose(np.exp(ove.log_prob(candidate, data)), expected)
    vectors = np.asarray(read(table, observations=["place"]).observations)
    assert vectors.shape == (len(table), 1)


@pytest.mark.parametrize("suffix", [None, ".csv", ".parquet"])
def test_rows_of_several_steps_are_no_episodes(suffix: str | None, tmp_path: Path) -> None:
    table: Any = make_table(40)
    row = int(np.flatnonzero(table["t"] != table["t"].iloc[0])[0])
    one_step = table.assign(t=1)
    path = tmp_path / f"steps{suffix}"
    for frame in (one_step, table):
        if suffix == ".csv":
            frame.to_csv(path, index=False)
        elif suffix == ".parquet":
            frame.to_parquet(path)
        source = frame if suffix is None else path
        if frame is one_step:
            assert len(read(source, episode=None)) == len(table)
            continue
        with pytest.raises(
            ove.InvalidInputError, match="which makes each row an episode"
        ) as caught:
            read(source, episode=None)
        assert caught.value.row == row


def test_a_written_table_needs_its_episodes() -> None:
    written = read(make_table(20), action="a").to_table()
    with pytest.raises(ove.errors.InvalidInputError, match="`episode` must name the column"):
        ove.Trajectories.from_table(written, episode=None)


def assert_same(data: ove.Trajectories, expected: ove.Trajectories) -> None:
    for name in ("observations", "actions", "log_probs", "rewards", "lengths"):
        np.testing.assert_array_equal(getattr(data, name), getattr(expected, name), err_msg=name)
    assert set(data.columns) == set(expected.columns)
    for name, column in expected.columns.items():
        np.testing.assert_array_equal(data.columns[name], column, err_msg=name)


@pytest.mark.parametrize("names", [True, False])
def test_the_columns_of_the_table(names: bool) -> None:
    table = make_table(names=names)
    data = read(table, action="a", observations=["x", "y"])
    np.testing.assert_array_equal(data.actions, table["a"])
    np.testing.assert_array_equal(data.observations, table[["x", "y"]])
    np.testing.assert_array_equal(data.log_probs, np.log(table["p"]))
    np.testing.assert_array_equal(data.columns["q"], table["q"])
    np.testing.assert_array_equal(data.lengths, table.groupby("user").size())
    assert data.terminated.all()


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("names", [True, False])
def test_rows_may_stand_in_any_order(names: bool, first: int) -> None:
    table = make_table(names=names).assign(t=lambda frame: frame["t"] + first)
    shuffled = table.sample(frac=1.0, random_state=1)
    assert_same(read(shuffled, observations=["x"]), read(table, observations=["x"]))
    results = [
        ove.evaluate(
            read(frame), np.log(read(frame).columns["q"]), gamma=1.0, horizon=4, reward_range=(0, 1)
        )
        for frame in (table, shuffled)
    ]
    assert results[0].to_dict() == results[1].to_dict()


def test_without_a_step_the_rows_of_an_episode_stand_together() -> None:
    table = make_table()
    groups = [group for _, group in table.groupby("user")]
    order = np.random.default_rng(2).permutation(len(groups))
    mixed = pd.concat([groups[i] for i in order], ignore_index=True)
    assert_same(read(mixed, step=None), read(table))
    torn = pd.concat([mixed, mixed.iloc[:1]], ignore_index=True)
    with pytest.raises(ove.InvalidInputError, match="begins again at row") as caught:
        read(torn, step=None)
    assert caught.value.row == len(mixed)


def test_files_and_other_tables_hold_the_same(tmp_path: Path) -> None:
    table = make_table()
    expected = read(table)
    table.to_csv(tmp_path / "steps.csv", index=False)
    table.to_parquet(tmp_path / "steps.parquet")
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    pyarrow.feather.write_feather(arrow, tmp_path / "steps.feather")
    for source in (*sorted(tmp_path.iterdir()), arrow, str(tmp_path / "steps.csv")):
        assert_same(read(source), expected)
    with pytest.raises(ove.InvalidInputError, match=r"must be a file, but .* does not exist"):
        read(tmp_path / "nothing.csv")
    with pytest.raises(ove.InvalidInputError, match=r"ending in .csv, .parquet, .feather"):
        read(tmp_path / "steps.xlsx")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(ove.InvalidInputError, match="cannot be read"):
        read(tmp_path / "broken.parquet")


@pytest.mark.parametrize("kind", ["int8", "uint8", "int64", "uint64"])
def test_numbers_of_episodes_of_any_kind(kind: str) -> None:
    table = make_table(100, names=False)
    info = np.iinfo(kind)
    named = table.assign(user=(table["user"] * 2).astype("uint8").astype(kind))
    if kind == "int8":
        named = table.assign(user=(table["user"] * 2 - 128).astype(kind))
        assert named["user"].min() == info.min
    if kind == "uint64":
        named = table.assign(user=table["user"].astype(kind) + np.uint64(info.max - 200))
    expected = read(named.assign(user=[f"{int(user) + (1 << 64):030d}" for user in named["user"]]))
    for frame in (named, named.sample(frac=1.0, random_state=0)):
        assert_same(read(frame), expected)


BAD: dict[str, tuple[Any, str, int]] = {
    "gap": (lambda f: f.drop(index=[1]), "step 1 is missing before step 2", 1),
    "beginning": (lambda f: f.iloc[1:], "step 0 is missing before step 1", 0),
    "twice": (
        lambda f: pd.concat([f, f.iloc[2:3]], ignore_index=True),
        "step 2 is there twice",
        8,
    ),
    "huge": (
        lambda f: f.assign(t=[0, 1, 2, 3, 0, 1, 2, 2**63 - 1]),
        "step 3 is missing before step 9223372036854775807",
        7,
    ),
    "fraction": (lambda f: f.assign(t=f["t"] + 0.5), "whole numbers", 0),
    "zero": (lambda f: f.assign(p=[0.5, 0.0] + [0.5] * 6), r"probabilities in \(0, 1\]", 1),
    "percent": (lambda f: f.assign(p=[0.5] * 7 + [50.0]), r"probabilities in \(0, 1\]", 7),
    "missing": (lambda f: f.assign(r=[0.0] * 5 + [None] * 3), "no missing values", 5),
    "infinite": (lambda f: f.assign(r=[np.inf] + [0.0] * 7), "must be finite", 0),
    "nobody": (lambda f: f.assign(user=["a"] * 4 + [None] * 4), "no missing values", 4),
    "rounded": (
        lambda f: f.assign(user=[7.0] * 4 + [float(2**53 + 1)] * 4),
        "as floats, which round them",
        4,
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_rows_are_named(case: str, tmp_path: Path) -> None:
    change, message, row = BAD[case]
    table = pd.DataFrame(
        {
            "user": list("aaaabbbb"),
            "t": [0, 1, 2, 3] * 2,
            "p": [0.5] * 8,
            "q": [0.0, 1.0] * 4,
            "r": [1.0] * 8,
        }
    )
    assert len(read(table)) == 2
    with pytest.raises(ove.InvalidInputError, match=message) as caught:
        read(change(table))
    assert caught.value.row == row
    change(table).to_parquet(tmp_path / "steps.parquet")
    with pytest.raises(ove.InvalidInputError, match=f"row {row} of .*steps.parquet"):
        read(tmp_path / "steps.parquet")


def test_wrong_arguments_are_named() -> None:
    table = make_table(3)
    with pytest.raises(ove.InvalidInputError, match="must have a column 'weight', got 'user', 't'"):
        read(table, propensity="weight")
    with pytest.raises(ove.InvalidInputError, match="column 'user' must hold numbers"):
        read(table, keep=["user"])
    with pytest.raises(ove.InvalidInputError, match="`keep` must be a sequence of column names"):
        read(table, keep="q")
    with pytest.raises(ove.InvalidInputError, match="at least one row"):
        read(table.iloc[:0])
    with pytest.raises(ove.InvalidInputError, match="must be a data frame"):
        read(7)
    with pytest.raises(ove.InvalidInputError, match="cannot be converted"):
        read(table.assign(r=[1.0, "a", None] + [2.0] * (len(table) - 3)))


def test_densities_may_exceed_one() -> None:
    table = make_table(20).assign(p=3.5)
    with pytest.raises(ove.InvalidInputError, match="density=True"):
        read(table)
    data = read(table, density=True, action="x")
    assert data.log_probs[0] == np.log(3.5)
    with pytest.raises(ove.InvalidInputError, match="greater than 0"):
        read(table.assign(p=-1.0), density=True)


def test_the_round_trip_through_a_table_and_a_directory(tmp_path: Path) -> None:
    data = read(make_table(), action="a", observations=["x", "y"])
    frame = data.to_table()
    again = ove.Trajectories.from_table(
        frame, action="action", observations=["observation_0", "observation_1"], keep=["q"]
    )
    np.testing.assert_allclose(again.log_probs, data.log_probs, rtol=1e-15)
    assert_same(ove.Trajectories.load(_saved(data, tmp_path / "a")), data)
    plain = read(make_table())
    assert plain.observations.shape == (plain.n_steps, 0)  # type: ignore[union-attr]
    assert_same(ove.Trajectories.load(_saved(plain, tmp_path / "b")), plain)
    assert_same(plain[[3, 1]], ove.Trajectories.concat([plain[3], plain[1]]))
    with pytest.raises(ove.InvalidInputError, match="must have the same columns"):
        ove.Trajectories.concat([plain, read(make_table(), keep=[])])


def test_episodes_that_were_cut_off_do_not_come_back_as_complete(tmp_path: Path) -> None:
    table = make_table(40)
    data = read(table, action="a")
    cut = np.arange(40) % 3 == 0
    data = replace(data, truncated=cut, terminated=~cut)
    frame = data.to_table()
    frame.to_csv(tmp_path / "steps.csv", index=False)
    frame.to_parquet(tmp_path / "steps.parquet")
    shuffled = frame.sample(frac=1.0, random_state=0)
    for source in (frame, shuffled, tmp_path / "steps.csv", tmp_path / "steps.parquet"):
        back = ove.Trajectories.from_table(source, action="action", keep=["q"])
        np.testing.assert_array_equal(back.truncated, cut)
        np.testing.assert_array_equal(back.terminated, ~cut)
        with pytest.raises(ove.InvalidInputError, match="was cut off after"):
            ove.evaluate(back, back.log_probs, gamma=1.0, horizon=9, reward_range=(0, 1))
    # One of the two columns is enough, under any name; without both, all are complete.
    one = frame.drop(columns="terminated").rename(columns={"truncated": "cut"})
    back = ove.Trajectories.from_table(one, truncated="cut")
    np.testing.assert_array_equal(back.terminated, ~cut)
    own = one.drop(columns="ove_metadata")
    own.attrs.clear()
    assert ove.Trajectories.from_table(own).terminated.all()
    own = own.rename(columns={"cut": "truncated"})
    np.testing.assert_array_equal(ove.Trajectories.from_table(own).terminated, ~cut)
    assert ove.Trajectories.from_table(own, terminated=None, truncated=None).terminated.all()
    early = frame.assign(truncated=frame["step"] == 0)
    row = int(np.flatnonzero((frame["step"] == 0) & (frame["step"].shift(-1) == 1))[0])
    with pytest.raises(ove.InvalidInputError, match="only in the last row") as caught:
        ove.Trajectories.from_table(early)
    assert caught.value.row == row
    with pytest.raises(ove.InvalidInputError, match="only in the last row") as caught:
        ove.Trajectories.from_table(early.iloc[::-1])
    assert caught.value.row == len(early) - 1 - row
    with pytest.raises(ove.InvalidInputError, match="must be true or false, got 2"):
        ove.Trajectories.from_table(frame.assign(truncated=2))
    done = run(
        tmp_path / "steps.csv", "--candidate-propensity", "q", "--gamma", 1, "--horizon", 9,
        "--reward-range", 0, 1,
    )  # fmt: skip
    assert done.exit_code == 3
    assert "was cut off after" in done.stderr


def _saved(data: ove.Trajectories, path: Path) -> Path:
    data.save(path)
    return path


def test_a_kept_column_is_evaluated_like_a_reward(tmp_path: Path) -> None:
    table = make_table()
    data = read(table, keep=["q", "a"])
    candidate = np.log(data.columns["q"])
    settings: dict[str, Any] = {"gamma": 0.9, "horizon": 4, "reward_range": (0, 1)}
    result = ove.evaluate(data, candidate, reward="a", **settings)
    expected = ove.evaluate(read(table, reward="a"), candidate, **settings)
    assert result["variance"].interval == expected["variance"].interval
    assert result.headline.startswith("Estimated sum of a of the candidate")
    assert result.to_dict()["settings"]["reward"] == "a"
    on_disk = ove.evaluate(_saved(data, tmp_path / "log"), candidate, reward="a", **settings)
    assert on_disk["variance"].interval == expected["variance"].interval
    compared = ove.compare(data, {"new": candidate}, reward="a", **settings)
    assert compared["new"].variance == expected.variance
    with pytest.raises(ove.InvalidInputError, match=r"got 'cost', but the log has 'q', 'a'"):
        ove.evaluate(data, candidate, reward="cost", **settings)
    stated = ove.Trajectories.from_table(
        table, **NAMES, keep=["q", "a"], metadata={"reward_range": (0.0, 1.0), "horizon": 4}
    )
    with pytest.raises(ove.InvalidInputError, match="`reward_range`"):  # that of the reward itself
        ove.evaluate(stated, candidate, gamma=1.0, reward="a")


@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 3),
            st.integers(-1, 4),
            st.sampled_from([0.5, 1.0, 0.0, 2.0, float("nan"), -1.0]),
            st.sampled_from([0.0, 1.0, float("inf")]),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_any_table_is_read_right_or_refused(rows: list[tuple[int, int, float, float]]) -> None:
    table = pd.DataFrame(rows, columns=["user", "t", "p", "r"])
    by_user: dict[int, list[tuple[int, float, float]]] = {}
    for user, step, p, reward in rows:
        by_user.setdefault(user, []).append((step, p, reward))
    first = 1 if min(step for _, step, _, _ in rows) == 1 else 0
    torn = {
        user
        for user, steps in by_user.items()
        if sorted(step for step, _, _ in steps) != list(range(first, first + len(steps)))
    }
    bad = [
        row
        for row, (user, _, p, reward) in enumerate(rows)
        if user in torn or not 0.0 < p <= 1.0 or not np.isfinite(reward)
    ]
    if bad:
        with pytest.raises(ove.InvalidInputError) as caught:
            ove.Trajectories.from_table(table, **NAMES)
        assert caught.value.row in bad
        assert f"row {caught.value.row}" in str(caught.value)
        return
    data = ove.Trajectories.from_table(table, **NAMES)
    expected = [reward for user in sorted(by_user) for _, _, reward in sorted(by_user[user])]
    assert data.rewards.tolist() == expected
    assert data.lengths.tolist() == [len(by_user[user]) for user in sorted(by_user)]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def test_a_verdict_from_a_table_on_the_command_line(tmp_path: Path) -> None:
    table = make_table(2_000)
    path = tmp_path / "steps.csv"
    table.sample(frac=1.0, random_state=0).to_csv(path, index=False)
    columns = ("--episode", "user", "--step", "t", "--propensity", "p", "--reward", "r")
    stated = ("--gamma", 1, "--horizon", 4, "--reward-range", 0, 1)
    asked = [*columns, *stated, "--candidate-propensity", "q", "--require", "mean >= 0.5"]
    done = subprocess.run(  # as installed; the others in this process
        [str(PROGRAM), "evaluate", str(path), *map(str, asked)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "mean >= 0.5: proven" in done.stdout
    data = read(table)
    expected = ove.evaluate(
        data, np.log(data.columns["q"]), gamma=1.0, horizon=4, reward_range=(0, 1)
    )
    assert f"{expected.variance:.4g}" in done.stdout
    failed = run(path, *columns, *stated, "--candidate-propensity", "q", "--require", "mean >= 4")
    assert failed.exit_code == 1
    assert run(path, *columns, *stated).exit_code == 2
    assert run(path, "model.zip", *columns, *stated).exit_code == 2
    assert run(tmp_path, *stated, "--candidate-propensity", "q").exit_code == 2
    for wrong, value in (("above", 1.5), ("below", -0.5)):
        table.assign(**{wrong: np.where(table.index == 7, value, table["q"])}).to_csv(path)
        refused = run(path, *columns, *stated, "--candidate-propensity", wrong)
        assert refused.exit_code == 3
        assert f"must hold probabilities in [0, 1], got {value} at row 7" in refused.stderr


def test_densities_and_rows_without_a_step_on_the_command_line(tmp_path: Path) -> None:
    table = make_table(50).assign(p=3.0, q=np.linspace(0.0, 4.0, len(make_table(50))))
    path = tmp_path / "steps.csv"
    table.drop(columns="t").to_csv(path, index=False)
    words = (path, "--episode", "user", "--step", "none", "--propensity", "p", "--reward", "r")
    stated = ("--gamma", 1, "--horizon", 4, "--reward-range", 0, 1, "--max-ratio", 1.5)
    done = run(*words, *stated, "--candidate-propensity", "q", "--density", "--json")
    assert done.exit_code == 0, done.stderr
    data = read(table, density=True)
    with np.errstate(divide="ignore"):
        candidate = np.log(data.columns["q"])
    expected = ove.evaluate(
        data, candidate, gamma=1.0, horizon=4, reward_range=(0, 1), max_ratio=1.5
    )
    assert json.loads(done.stdout)["quantities"]["mean"]["estimate"] == expected.mean
    refused = run(*words, *stated, "--candidate-propensity", "q")
    assert refused.exit_code == 3
    assert "pass --density for densities" in refused.stderr
