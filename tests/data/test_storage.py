"""Files: saved logs are restored, and errors name what is damaged."""

from __future__ import annotations

import pickle
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core.stopping import begin_key
from ove_sb3.data.writer import EpisodeWriter, compact
from ove_sb3.store import shards as storage

FIELDS = (
    "observations",
    "actions",
    "log_probs",
    "rewards",
    "lengths",
    "terminated",
    "truncated",
    "action_masks",
    "final_observations",
    "overlaps",
    "begins",
    "columns",
)


def some(n: int = 7, *, kind: str = "vector", seed: int = 0, **metadata: Any) -> ove.Trajectories:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, n)
    steps = int(lengths.sum())

    def observe(rows: int) -> Any:
        if kind == "image":
            return rng.integers(0, 256, (rows, 8, 8, 3)).astype(np.uint8)
        if kind == "dict":
            return {"x": rng.normal(size=(rows, 2, 2)), "k": rng.integers(0, 5, rows)}
        if kind == "scalar":
            return rng.integers(0, 9, rows)
        return rng.normal(size=(rows, 3)).astype(np.float32)

    terminated = rng.random(n) < 0.5
    return ove.Trajectories.from_arrays(
        observations=observe(steps),
        actions=rng.normal(size=(steps, 2)).astype(np.float32),
        log_probs=rng.normal(size=steps),
        rewards=rng.normal(size=steps),
        lengths=lengths,
        terminated=terminated,
        truncated=rng.random(n) < 0.5,
        action_masks=rng.random((steps, 4)) < 0.5 if kind == "dict" else None,
        final_observations=observe(n) if kind != "scalar" else None,
        overlaps=rng.integers(1, 4, n) if kind == "dict" else None,
        begins=begin_key(5, 0) + rng.permutation(n) if kind == "dict" else None,
        columns={"a/b": rng.random(steps), "c": rng.random((steps, 2))} if kind == "dict" else None,
        metadata=metadata,
    )


def same(first: ove.Trajectories, second: ove.Trajectories) -> None:
    for name in FIELDS:
        ours, theirs = getattr(first, name), getattr(second, name)
        if ours is None:
            assert theirs is None, name
            continue
        pairs = [(ours[k], theirs[k]) for k in ours] if isinstance(ours, dict) else [(ours, theirs)]
        for a, b in pairs:
            assert a.dtype == b.dtype, name
            np.testing.assert_array_equal(a, b, err_msg=name)


@pytest.mark.parametrize("kind", ["vector", "image", "dict", "scalar"])
def test_round_trips(tmp_path: Path, kind: str) -> None:
    data = some(kind=kind, env_id="Test-v0", seed=3, reward_range=(-5, 5))
    data.save(tmp_path / "saved")
    back = ove.Trajectories.load(tmp_path / "saved")
    same(data, back)
    assert back.metadata == data.metadata
    writer = EpisodeWriter(tmp_path / "logged", data.metadata, flush_every=2)
    for one in data:
        writer.add(one)
    writer.flush()
    same(data, ove.Trajectories.load(tmp_path / "logged"))
    writer.close()
    assert [f.suffix for f in (tmp_path / "logged").glob("part-*")] == [".parquet"]
    same(data, ove.Trajectories.load(tmp_path / "logged"))


@pytest.mark.parametrize("overlaps", [None, [0] * 6, [0, 0, 0, 0, 0, 1]])
def test_files_keep_whether_overlaps_were_counted(
    tmp_path: Path, overlaps: list[int] | None
) -> None:
    counts = None if overlaps is None else np.array(overlaps)
    data = replace(some(6), overlaps=counts)
    data.save(tmp_path / "saved")
    same(data, ove.Trajectories.load(tmp_path / "saved"))
    with EpisodeWriter(tmp_path / "logged", data.metadata, flush_every=2) as writer:
        for one in data:
            writer.add(one)
    same(data, ove.Trajectories.load(tmp_path / "logged"))
    for chunk in ove.open_log(tmp_path / "logged", chunk_steps=1).chunks():
        assert (chunk.overlaps is None) == (overlaps is None)


def test_too_many_overlaps_are_not_stored(tmp_path: Path) -> None:
    data = replace(some(6), overlaps=np.full(6, 2**28))
    with pytest.raises(ove.InvalidInputError, match="`overlaps` must be at most 268435454"):
        data.save(tmp_path / "saved")


def test_parquet_is_readable_by_others(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    data = some()
    data.save(tmp_path)
    (file,) = tmp_path.glob("*.parquet")
    table = pq.read_table(file)
    assert table.column("reward").to_numpy().tolist() == data.rewards.tolist()
    assert {"observation", "action", "log_prob", "reward", "done"} <= set(table.column_names)


def test_episodes_since_the_last_flush_are_not_on_disk(tmp_path: Path) -> None:
    data = some(5)
    writer = EpisodeWriter(tmp_path, data.metadata, flush_every=3)
    for one in data[:2]:
        writer.add(one)
    with pytest.raises(ove.StorageError, match="at least one complete episode"):
        ove.Trajectories.load(tmp_path)
    writer.add(data[2])
    assert writer.n_written == 3
    writer.add(data[3])
    assert len(ove.Trajectories.load(tmp_path)) == 3
    writer.close(compact=False)
    assert len(ove.Trajectories.load(tmp_path)) == 4


def test_two_writers_share_a_directory(tmp_path: Path) -> None:
    first, second = some(4, seed=1), some(4, seed=2)
    one = EpisodeWriter(tmp_path, ove.Metadata(seed=1), flush_every=1)
    two = EpisodeWriter(tmp_path, ove.Metadata(seed=2), flush_every=1)
    for a, b in zip(first, second, strict=True):
        one.add(a)
        two.add(b)
    one.close()
    assert compact(tmp_path) == 1  # the other is still writing, and continues
    two.add(second[0])
    two.close()
    data = ove.Trajectories.load(tmp_path)
    same(data[:4], first)
    same(data[4:8], second)
    assert len(data) == 9


def test_overwriting(tmp_path: Path) -> None:
    some(3).save(tmp_path)
    with pytest.raises(ove.InvalidInputError, match="overwrite=True"):
        some(4).save(tmp_path)
    some(4, kind="image").save(tmp_path, overwrite=True)
    assert len(ove.Trajectories.load(tmp_path)) == 4


def test_damage_is_named(tmp_path: Path) -> None:
    data = some(9)
    writer = EpisodeWriter(tmp_path / "a", data.metadata, flush_every=3)
    for one in data:
        writer.add(one)
    data.save(tmp_path / "b")
    (shard,) = (tmp_path / "b").glob("*.parquet")
    for file in (tmp_path / "a" / "log.sqlite", shard):
        whole = file.read_bytes()
        inside = whole.find(data.rewards[:4].tobytes())  # in the index as it is
        for at in (10, inside if inside > 0 else len(whole) // 2, len(whole) - 5):
            broken = bytearray(whole)
            broken[at] ^= 0xFF
            file.write_bytes(broken)
            with pytest.raises(ove.StorageError, match=file.name) as caught:
                ove.Trajectories.load(file.parent)
            assert caught.value.path is not None
        file.write_bytes(whole)
        same(data, ove.Trajectories.load(file.parent))


def test_other_versions_and_strangers_are_named(tmp_path: Path) -> None:
    with pytest.raises(ove.StorageError, match=r"log\.sqlite does not exist"):
        ove.Trajectories.load(tmp_path)
    data = some(3)
    data.save(tmp_path / "a")
    index = tmp_path / "a" / "log.sqlite"
    with closing(sqlite3.connect(index)) as connection:
        connection.execute("PRAGMA user_version = 1")
    with pytest.raises(ove.StorageError, match=r"log\.sqlite.* version 3 .* got 1"):
        ove.Trajectories.load(tmp_path / "a")
    with closing(sqlite3.connect(index)) as connection:
        connection.execute("PRAGMA application_id = 7")
    with pytest.raises(ove.StorageError, match="another database"):
        ove.Trajectories.load(tmp_path / "a")
    index.write_text("{}" * 1000)
    with pytest.raises(ove.StorageError, match="not a database"):
        ove.Trajectories.load(tmp_path / "a")
    index.unlink()
    for use in (ove.Trajectories.load, lambda path: EpisodeWriter(path, data.metadata)):
        with pytest.raises(ove.StorageError, match="holds shards of a log without it"):
            use(tmp_path / "a")
    spaces = {"type": "Discrete", "n": 2, "start": 0}
    EpisodeWriter(tmp_path / "c", ove.Metadata(action_space=spaces))
    with pytest.raises(ove.InvalidInputError, match="logs of the same environment"):
        EpisodeWriter(tmp_path / "c", ove.Metadata(action_space={**spaces, "n": 3}))


@pytest.mark.parametrize("name", ["manifest.json", "shards.jsonl"])
def test_logs_of_earlier_versions_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{}")
    for use in (
        ove.Trajectories.load,
        ove.open_log,
        some(3).save,
        lambda path: EpisodeWriter(path, ove.Metadata()),
    ):
        with pytest.raises(ove.StorageError, match="written by an earlier one"):
            use(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_nothing_is_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = some(kind="dict")
    data.save(tmp_path)

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("pickle was used")

    for name in ("load", "loads", "dumps", "dump"):
        monkeypatch.setattr(pickle, name, refuse)
    same(data, ove.Trajectories.load(tmp_path))
    source = Path(storage.__file__).parent
    assert not any("pickle" in file.read_text().split('"""', 2)[2] for file in source.glob("*.py"))


def test_a_file_is_no_log(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text("pass")
    with pytest.raises(ove.StorageError, match=r"script.py` must be a directory"):
        ove.Trajectories.load(file)


def test_large_compressed_rows(tmp_path: Path) -> None:
    """Images that compress well, read from the index and from the shard."""
    rows = np.random.default_rng(0).integers(0, 256, (100, 1, 84, 4), dtype=np.uint8)
    data = ove.Trajectories.from_arrays(
        observations=np.broadcast_to(rows, (100, 84, 84, 4)),
        actions=np.zeros(100, int),
        log_probs=np.zeros(100),
        rewards=np.zeros(100),
        lengths=[100],
    )
    writer = ove.EpisodeWriter(tmp_path, data.metadata, flush_every=1)
    writer.add(data)
    same(ove.Trajectories.load(tmp_path), data)
    writer.close()
    same(ove.Trajectories.load(tmp_path), data)
