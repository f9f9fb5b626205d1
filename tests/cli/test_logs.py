"""Commands on logs: collect, inspect, compact, repair."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ove_sb3 as ove
from tests.problems.corridor import make_model

from .running import ENV, as_json, evaluate, run


def test_collect_is_collect(folder: Path) -> None:
    again = ove.collect(make_model(0), ENV, 500, seed=1)
    logged = ove.Trajectories.load(folder / "log")
    np.testing.assert_array_equal(logged.rewards, again.rewards)
    assert logged.metadata.reward_range == (-1, 2)


def test_inspect_and_compact(folder: Path, tmp_path: Path) -> None:
    data = ove.Trajectories.load(folder / "log")
    writer = ove.EpisodeWriter(tmp_path, data.metadata)
    writer.add(data[:40])
    writer.close(compact=False)
    facts = as_json(run("inspect", tmp_path, "--json"))
    assert facts["episodes"] == 40
    assert facts["mean_return"] == pytest.approx(data[:40].returns().mean())
    assert facts["terminated"] + facts["truncated"] >= 40
    assert facts["reward_range"] == [-1, 2]
    assert "Corridor-v0" in run("inspect", tmp_path).stdout
    assert facts["shards"] == 0
    assert as_json(run("compact", tmp_path, "--json"))["n_compacted"] == 1
    assert len(list(tmp_path.glob("*.parquet"))) == 1
    assert "episodes of 0 writers compacted" in run("compact", tmp_path).stdout
    after = ove.Trajectories.load(tmp_path)
    np.testing.assert_array_equal(after.rewards, data[:40].rewards)


def test_verify_and_repair(folder: Path, tmp_path: Path) -> None:
    data = ove.Trajectories.load(folder / "log")
    for part in (data[:10], data[10:30]):
        with ove.EpisodeWriter(tmp_path, data.metadata) as writer:
            writer.add(part)
    assert "intact: 30 episodes" in run("inspect", tmp_path, "--verify").stdout
    shard = sorted(tmp_path.glob("*.parquet"))[0]
    content = bytearray(shard.read_bytes())
    content[100] ^= 1
    shard.write_bytes(content)
    result = run("inspect", tmp_path, "--verify", "--json")
    assert result.exit_code == 3
    facts = json.loads(result.stdout)
    assert (facts["lost_episodes"], facts["n_trajectories"]) == (10, 20)
    assert shard.name in facts["problems"][0]
    assert "10 episodes dropped, 20 kept" in run("repair", tmp_path).stdout
    assert as_json(run("inspect", tmp_path, "--json"))["lost_episodes"] == 10


def test_an_interrupt_leaves_files_as_they_were(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("collect", "uniform", ENV, tmp_path / "log", "--episodes", 3)
    before = {file.name: file.read_bytes() for file in (tmp_path / "log").iterdir()}

    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pyarrow.parquet.ParquetWriter.write_table", interrupted)
        result = run("collect", "uniform", ENV, tmp_path / "log", "--episodes", 5, "--overwrite")
    assert result.exit_code == 130
    assert {file.name: file.read_bytes() for file in (tmp_path / "log").iterdir()} == before
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", interrupted)
        result = evaluate(folder, "--html", tmp_path / "report.html", "--require", "mean >= -100")
    assert result.exit_code == 130
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log"]
