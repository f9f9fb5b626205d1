"""A real Dask cluster of two worker processes gives bit-identical results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import pytest
from distributed import Client, LocalCluster
from gymnasium import spaces
from stable_baselines3 import PPO
from typer.testing import CliRunner

import ove_sb3 as ove
from ove_sb3 import _parallel as parallel
from ove_sb3.cli.app import app
from ove_sb3.data.log import MemoryLog
from ove_sb3.data.writer import compact
from ove_sb3.evaluation.reduction import reduce_log
from ove_sb3.experiments.runner import run_study
from tests.experiments.small import BANDIT, SIZES
from tests.problems.corridor import GAMMA, HORIZON, choices, make_model, simulate

from .same import same_result, same_statistics
from .test_scaling import BLOCK, as_policy_candidate
from .workers import Deadly, DeadlyPolicy, Traveler, lines

# One order: what is compared does not depend on their number.
SETTINGS: dict[str, Any] = {"gamma": GAMMA, "method": ove.Betting(n_shuffles=1)}


def two_workers() -> Any:
    return LocalCluster(  # type: ignore[no-untyped-call]
        processes=True, n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with two_workers() as started:
        yield started


@pytest.fixture(scope="module")
def address(cluster: Any) -> str:
    return str(cluster.scheduler_address)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ove_sb3.data.log._MOST_STEPS", BLOCK)
    monkeypatch.setattr("ove_sb3.data.log._FEWEST_STEPS", BLOCK)


@pytest.fixture
def folder(data: ove.Trajectories, tmp_path: Path) -> Path:
    path = tmp_path / "log"
    for part in (data[:130], data[130:]):
        writer = ove.EpisodeWriter(path, part.metadata)
        writer.add(part)
        writer.close()
    return path


def test_no_bit_of_a_known_behavior_depends_on_the_cluster(
    data: ove.Trajectories, folder: Path, candidate: PPO, behavior: PPO, address: str
) -> None:
    options: dict[str, Any] = {**SETTINGS, "behavior": behavior, "approximate": None}
    here = ove.evaluate(data, candidate, **options)
    log = ove.open_log(folder, chunk_steps=1)
    same_result(ove.evaluate(log, candidate, scheduler=address, **options), here)


def test_no_bit_depends_on_the_cluster(
    data: ove.Trajectories, folder: Path, candidate: PPO, address: str
) -> None:
    here = ove.evaluate(data, candidate, **SETTINGS)
    log = ove.open_log(folder, chunk_steps=1)
    same_result(ove.evaluate(log, candidate, **SETTINGS, scheduler=address), here)
    same_result(ove.evaluate(data, candidate, **SETTINGS, scheduler=address), here)
    known = ove.log_prob(candidate, data)
    both = ove.compare(log, {"a": candidate, "b": known}, **SETTINGS, scheduler=address)
    alone = ove.compare(data, {"a": candidate, "b": known}, **SETTINGS)
    for name in "ab":
        same_result(both[name], alone[name])


def test_heavy_tasks_go_straight_to_the_workers(
    candidate: PPO, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ove_sb3.data.log._MOST_STEPS", 1 << 18)
    data = simulate(choices(make_model(0)), 120_000, seed=1)  # too large for one Dask task
    here = ove.evaluate(data, candidate, **SETTINGS)
    same_result(ove.evaluate(data, candidate, **SETTINGS, scheduler=address), here)


def test_the_cluster_of_an_enclosing_joblib_context(
    data: ove.Trajectories, folder: Path, candidate: PPO, address: str, tmp_path: Path
) -> None:
    policy = as_policy_candidate(candidate, data)
    options: dict[str, Any] = {"gamma": GAMMA, "horizon": HORIZON}
    (here,) = reduce_log(MemoryLog(data), [policy], **options)
    log = ove.open_log(folder, chunk_steps=1)
    with (
        Client(address) as client,  # type: ignore[no-untyped-call]
        joblib.parallel_config(backend="dask"),
    ):
        workers = set(client.run(__import__("os").getpid).values())
        (there,) = reduce_log(log, [Traveler(policy, tmp_path)], **options)
    same_statistics(there, here)
    arrivals, scores = lines(tmp_path / "arrivals"), lines(tmp_path / "scores")
    assert {int(pid) for pid in scores} <= workers
    assert sorted(set(scores)) == sorted(arrivals)  # the candidate travels once per worker


def test_the_tasks_of_a_killed_worker_are_redone(
    data: ove.Trajectories, folder: Path, candidate: PPO, address: str, tmp_path: Path
) -> None:
    policy = as_policy_candidate(candidate, data)
    options: dict[str, Any] = {"gamma": GAMMA, "horizon": HORIZON}
    (here,) = reduce_log(MemoryLog(data), [policy], **options)
    log = ove.open_log(folder, chunk_steps=1)
    deadly = Deadly(policy, tmp_path, after=4 * BLOCK)
    (there,) = reduce_log(log, [deadly], scheduler=address, **options)
    same_statistics(there, here)
    assert (tmp_path / "killed-0").exists()


@pytest.mark.slow
@pytest.mark.parametrize("where", ["cluster", "processes"])
def test_no_bit_of_an_evaluation_depends_on_a_lost_worker(
    data: ove.Trajectories, folder: Path, address: str, tmp_path: Path, where: str
) -> None:
    policy = DeadlyPolicy(spaces.Discrete(2), tmp_path)
    here = ove.evaluate(data, policy, **SETTINGS)
    assert not (tmp_path / "killed").exists()
    log = ove.open_log(folder, chunk_steps=1)
    workers: dict[str, Any] = {"scheduler": address} if where == "cluster" else {"n_jobs": 2}
    same_result(ove.evaluate(log, policy, **SETTINGS, **workers), here)
    assert (tmp_path / "killed").exists()


def test_workers_find_rows_that_have_become_a_shard(
    data: ove.Trajectories, candidate: PPO, address: str, tmp_path: Path
) -> None:
    """A log that is still being written, then compacted after it was opened."""
    with ove.EpisodeWriter(tmp_path, data.metadata) as writer:
        writer.add(data[:200])
    writer = ove.EpisodeWriter(tmp_path, data.metadata, flush_every=40)
    for first in range(200, 600, 40):
        writer.add(data[first : first + 40])
    here = ove.evaluate(data, candidate, **SETTINGS)
    log = ove.open_log(tmp_path, chunk_steps=1)
    for n_shards in (1, 2):
        assert ove.open_log(tmp_path).n_shards == n_shards
        same_result(ove.evaluate(log, candidate, **SETTINGS, scheduler=address), here)
        same_result(ove.evaluate(log, candidate, **SETTINGS, n_jobs=2), here)
        assert compact(tmp_path) == 2 - n_shards


def test_a_task_that_kills_every_worker_is_an_error(
    data: ove.Trajectories,
    folder: Path,
    candidate: PPO,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import dask

    monkeypatch.setattr(parallel, "MOST_FAILURES", 1)
    deadly = Deadly(as_policy_candidate(candidate, data), tmp_path, after=4 * BLOCK, times=100)
    log = ove.open_log(folder, chunk_steps=1)
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        two_workers() as fragile,
        Client(fragile) as client,  # type: ignore[no-untyped-call]
        pytest.raises(ove.WorkerError, match=r"some were lost 2 times.* of 11 tasks done"),
    ):
        reduce_log(log, [deadly], gamma=GAMMA, horizon=HORIZON, scheduler=client)


def test_a_worker_that_goes_while_data_are_sent_counts_as_lost(
    data: ove.Trajectories, candidate: PPO, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scatter, calls = Client.scatter, []

    def gone_once(client: Client, *args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise KeyError("tcp://127.0.0.1:1")  # as the scheduler does
        return scatter(client, *args, **kwargs)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(Client, "scatter", gone_once)
    found = ove.evaluate(data, candidate, gamma=GAMMA, horizon=HORIZON, scheduler=address)
    assert len(calls) > 1
    assert found.to_dict() == ove.evaluate(data, candidate, gamma=GAMMA, horizon=HORIZON).to_dict()


def test_a_damaged_or_missing_shard_is_named(folder: Path, candidate: PPO, address: str) -> None:
    log = ove.open_log(folder, chunk_steps=1)
    shard = sorted(folder.glob("*.parquet"))[1]
    raw = bytearray(shard.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    shard.write_bytes(raw)
    with pytest.raises(ove.StorageError, match=f"{shard.name}.*as it was written"):
        ove.evaluate(log, candidate, **SETTINGS, scheduler=address)
    shard.unlink()
    with pytest.raises(ove.StorageError, match=f"{shard.name}.*must be there"):
        ove.evaluate(log, candidate, **SETTINGS, scheduler=address)


def test_the_command_line(folder: Path, candidate: PPO, address: str, tmp_path: Path) -> None:
    candidate.save(tmp_path / "model.zip")
    ppo = ["--gamma", str(GAMMA), "--model-class", "PPO", "--json"]
    for command, model in (("evaluate", "model.zip"), ("compare", "a=model.zip")):
        model = model.replace("model.zip", str(tmp_path / "model.zip"))
        arguments = [command, str(folder), model, *ppo]
        here = CliRunner().invoke(app, arguments)
        there = CliRunner().invoke(app, [*arguments, "--scheduler", address])
        assert there.exit_code == 0, there.output
        assert json.loads(there.stdout) == json.loads(here.stdout)


def test_schedulers_that_are_not_there(
    data: ove.Trajectories, candidate: PPO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "_WAIT_SECONDS", 1)
    with pytest.raises(ove.InvalidInputError, match=r"running Dask scheduler.*127\.0\.0\.1:9'"):
        ove.evaluate(data, candidate, **SETTINGS, scheduler="tcp://127.0.0.1:9")
    with pytest.raises(ove.InvalidInputError, match="running Dask scheduler"):
        ove.evaluate(data, candidate, **SETTINGS, scheduler="nonsense://x")
    with pytest.raises(ove.InvalidInputError, match=r"address of a Dask scheduler .* got int"):
        ove.evaluate(data, candidate, **SETTINGS, scheduler=3)


def test_experiments_run_on_the_cluster(address: str, tmp_path: Path) -> None:
    here = run_study(BANDIT, SIZES, out=tmp_path / "here", progress=False)
    there = run_study(BANDIT, SIZES, out=tmp_path / "there", progress=False, scheduler=address)
    assert there.cells == here.cells
