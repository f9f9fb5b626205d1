"""Files: what is saved comes back, and what is damaged is named."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.data.writer import EpisodeWriter, compact
from ove_sb3.store import writer as storage

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
    assert compact(tmp_path) == 0  # the other is still writing
    two.add(second[0])
    two.close()
    data = ove.Trajectories.load(tmp_path)
    same(data[:4], first)
    same(data[4:8], second)
    assert len(data) == 9


def test_a_crash_between_parquet_and_removal_doubles_nothing(tmp_path: Path) -> None:
    data = some(6)
    writer = EpisodeWriter(tmp_path, data.metadata, flush_every=1)
    for one in data:
        writer.add(one)
    (file,) = tmp_path.glob("*.segments")
    kept = file.read_bytes()
    writer.close()
    file.write_bytes(kept)  # as if the process had been killed before it removed the file
    same(data, ove.Trajectories.load(tmp_path))
    compact(tmp_path)
    assert not file.exists()
    same(data, ove.Trajectories.load(tmp_path))


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
    (file,) = (tmp_path / "a").glob("*.segments")
    whole = bytearray(file.read_bytes())
    for at in (3, 40, len(whole) // 2, len(whole) - 5):
        broken = bytearray(whole)
        broken[at] ^= 0xFF
        file.write_bytes(broken)
        with pytest.raises(ove.StorageError, match=file.name):
            ove.Trajectories.load(tmp_path / "a")
    data.save(tmp_path / "b")
    (file,) = (tmp_path / "b").glob("*.parquet")
    whole = bytearray(file.read_bytes())
    for at in (10, len(whole) // 4, len(whole) - 2):
        broken = bytearray(whole)
        broken[at] ^= 0xFF
        file.write_bytes(broken)
        with pytest.raises(ove.StorageError, match=file.name):
            ove.Trajectories.load(tmp_path / "b")


def test_other_versions_and_strangers_are_named(tmp_path: Path) -> None:
    with pytest.raises(ove.StorageError, match=r"manifest\.json is not there"):
        ove.Trajectories.load(tmp_path)
    data = some(3)
    data.save(tmp_path / "a")
    manifest = tmp_path / "a" / "manifest.json"
    there = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**there, "version": 0}))
    with pytest.raises(ove.StorageError, match=r"manifest\.json.* version 1 .* got 0"):
        ove.Trajectories.load(tmp_path / "a")
    manifest.write_text("{")
    with pytest.raises(ove.StorageError, match=r"manifest\.json.* must be JSON"):
        ove.Trajectories.load(tmp_path / "a")
    manifest.write_text("{}")
    with pytest.raises(ove.StorageError, match="must describe a log"):
        ove.Trajectories.load(tmp_path / "a")
    spaces = {"type": "Discrete", "n": 2, "start": 0}
    EpisodeWriter(tmp_path / "c", ove.Metadata(action_space=spaces))
    with pytest.raises(ove.InvalidInputError, match="logs of the same environment"):
        EpisodeWriter(tmp_path / "c", ove.Metadata(action_space={**spaces, "n": 3}))


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


def test_a_full_disk_leaves_no_half_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    data = some(4)
    writer = EpisodeWriter(tmp_path, data.metadata, flush_every=1)
    writer.add(data[0])
    write = os.write

    def short(descriptor: int, content: Any) -> int:
        if len(content) <= 50:
            raise OSError(28, "No space left on device")
        return write(descriptor, content[: len(content) - 50])

    monkeypatch.setattr(os, "write", short)
    with pytest.raises(OSError, match="No space left"):
        writer.add(data[1])
    monkeypatch.setattr(os, "write", write)
    writer.add(data[2])  # what was not written is still pending
    same(data[:3], ove.Trajectories.load(tmp_path))


def test_a_file_is_no_log(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text("pass")
    with pytest.raises(ove.StorageError, match=r"script.py` must be a directory"):
        ove.Trajectories.load(file)
