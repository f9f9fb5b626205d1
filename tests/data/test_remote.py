"""Finished logs in other file systems: a real S3 server, and pyarrow's own in memory."""

from __future__ import annotations

import logging
import pickle
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces
from pyarrow import fs
from typer.testing import CliRunner

import ove_sb3 as ove
from ove_sb3.cli.app import app
from ove_sb3.data.writer import EpisodeWriter, compact

from .s3_server import S3, s3_server
from .test_storage import same, some


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with s3_server() as server:
        yield server


def make_log(path: Path, data: ove.Trajectories, parts: int = 3) -> Path:
    for part in np.array_split(np.arange(len(data)), parts):
        with EpisodeWriter(path, data.metadata) as writer:
            writer.add(data[part[0] : part[-1] + 1])
    return path


def test_a_log_in_s3(s3: S3, tmp_path: Path) -> None:
    data = some(60, seed=1)
    s3.upload(make_log(tmp_path / "log", data), "bucket/here/log")
    uri = s3.uri("bucket/here/log")
    log = ove.open_log(uri)
    assert (len(log), log.n_steps, log.n_shards) == (60, data.n_steps, 3)
    assert str(log.path) == "bucket/here/log"
    assert len(s3.gets("log.sqlite")) == 1
    assert not s3.gets(".parquet")
    same(log.load(), data)
    same(ove.Trajectories.load(uri), data)
    same(ove.open_log("bucket/here/log", filesystem=s3.filesystem()).load(), data)
    assert len(s3.gets("log.sqlite")) == 3  # once for each time it was opened


def test_results_are_those_of_the_local_log(s3: S3, tmp_path: Path) -> None:
    behavior = ove.UniformPolicy(spaces.Discrete(2))
    data = ove.collect(behavior, "CartPole-v1", 200, seed=0, reward_range=(0, 1))
    s3.upload(make_log(tmp_path / "log", data), "bucket/cartpole")
    uri = s3.uri("bucket/cartpole")
    expected = ove.evaluate(tmp_path / "log", behavior, gamma=0.9).to_dict()
    assert ove.evaluate(uri, behavior, gamma=0.9).to_dict() == expected
    # The file system travels with the parts of the log.
    log = pickle.loads(pickle.dumps(ove.open_log(uri).part(0, data.n_steps)))
    assert sum(len(chunk) for _, chunk in log.windows(10**6)) == len(data)
    result = CliRunner().invoke(app, ["inspect", uri, "--json"])
    assert result.exit_code == 0, result.output
    assert '"episodes": 200' in result.output


@pytest.mark.slow
def test_two_processes_read_from_s3(s3: S3, tmp_path: Path) -> None:
    behavior = ove.UniformPolicy(spaces.Discrete(2))
    data = ove.collect(behavior, "CartPole-v1", 200, seed=0, reward_range=(0, 1))
    s3.upload(make_log(tmp_path / "log", data), "bucket/processes")
    uri = s3.uri("bucket/processes")
    expected = ove.evaluate(data, behavior, gamma=0.9).to_dict()
    assert ove.evaluate(uri, behavior, gamma=0.9, n_jobs=2).to_dict() == expected


def test_shards_are_read_by_range(s3: S3, tmp_path: Path) -> None:
    """One column of one row group costs its bytes, not those of the file."""
    rng = np.random.default_rng(0)
    n = 300_000
    data = ove.Trajectories.from_arrays(
        observations=rng.normal(size=(n, 4)),
        actions=rng.integers(2, size=n),
        log_probs=np.full(n, -0.7),
        rewards=rng.normal(size=n),
        lengths=np.full(n // 100, 100),
    )
    data.save(tmp_path / "log")
    (shard,) = (tmp_path / "log").glob("part-*")
    s3.upload(tmp_path / "log", "bucket/large")
    log = ove.open_log(s3.uri("bucket/large"))
    assert log.episode_end(n - 5) == n
    gets = s3.gets(".parquet")
    assert gets
    read = 0
    for request in gets:
        assert request.bytes is not None  # never the whole file
        read += request.bytes[1] - request.bytes[0] + 1
    assert read < shard.stat().st_size / 10


def test_what_is_not_finished_missing_or_damaged(s3: S3, tmp_path: Path) -> None:
    data = some(20, seed=2)
    log = make_log(tmp_path / "log", data[:10])
    writer = EpisodeWriter(log, data.metadata)
    writer.add(data[10:])
    writer.flush()
    s3.upload(log, "bucket/open")
    with pytest.raises(ove.StorageError, match="10 are in its index") as caught:
        ove.open_log(s3.uri("bucket/open"))
    assert str(caught.value.path) == "bucket/open"
    compact(log)
    s3.upload(log, "bucket/closed")
    same(ove.open_log(s3.uri("bucket/closed")).load(), data)

    remote = s3.filesystem()
    shard = next(
        f
        for f in remote.get_file_info(fs.FileSelector("bucket/closed"))
        if f.path.endswith("parquet")
    )
    content = bytearray(remote.open_input_file(shard.path).read())
    content[len(content) // 2] ^= 4
    opened = ove.open_log(s3.uri("bucket/closed"))
    with remote.open_output_stream(shard.path) as file:
        file.write(bytes(content))
    with pytest.raises(ove.StorageError, match="must be as it was written") as caught:
        opened.load()
    assert str(caught.value.path) == shard.path
    remote.delete_file(shard.path)
    with pytest.raises(ove.StorageError, match=r"must be there"):
        opened.load()
    with pytest.raises(ove.StorageError, match=r"must be there"):
        ove.open_log(s3.uri("bucket/closed"))
    with pytest.raises(ove.StorageError, match=r"log\.sqlite does not exist"):
        ove.open_log(s3.uri("bucket/nothing"))
    with pytest.raises(ove.StorageError, match=r"does not exist|accessible"):
        ove.open_log(s3.uri("nobucket/nothing"))


def test_a_server_that_is_not_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    remote = fs.S3FileSystem(
        access_key="me",
        secret_key="secret",
        region="us-east-1",
        scheme="http",
        endpoint_override=address,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=0),
        connect_timeout=1,
    )
    with pytest.raises(ove.StorageError, match="must be accessible"):
        ove.open_log("bucket/log", filesystem=remote)


def test_any_file_system_of_pyarrow(tmp_path: Path) -> None:
    data = some(12, seed=3)
    make_log(tmp_path / "log", data)
    below = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    same(ove.open_log("log", filesystem=below).load(), data)
    same(ove.open_log(tmp_path / "log", filesystem=fs.LocalFileSystem()).load(), data)
    same(ove.open_log((tmp_path / "log").as_uri()).load(), data)
    for wrong in ("s3", object()):
        with pytest.raises(ove.InvalidInputError, match="`filesystem` must be"):
            ove.open_log("log", filesystem=wrong)
    with pytest.raises(ove.InvalidInputError, match=r"pyarrow\.fs knows"):
        ove.open_log("nonsense://bucket/log")


def test_a_file_uri_names_a_local_path(tmp_path: Path) -> None:
    data, path = some(12, seed=3), tmp_path / "a log"
    data.save(path.as_uri())
    for uri in (path.as_uri(), Path(path.as_uri()), f"file://localhost{path}"):
        log = ove.open_log(uri)
        assert log.path == path
        same(log.load(), data)
        same(ove.Trajectories.load(uri), data)
    with pytest.raises(ove.InvalidInputError, match="three slashes"):
        ove.open_log("file://log")
    for end in ("#2", "?x=1", "%00"):
        with pytest.raises(ove.InvalidInputError, match="nothing else"):
            ove.open_log(path.as_uri() + end)


def test_file_uris_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = make_log(tmp_path / "log", some(12, seed=3))

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    for command in (["inspect"], ["inspect", "--verify"], ["compact"], ["repair"]):
        assert run(*command, path.as_uri(), "--json") == run(*command, str(path), "--json")
    target = tmp_path / "new"
    run("collect", "uniform", "CartPole-v1", target.as_uri(), "--episodes", "3")
    assert len(ove.open_log(target)) == 3
    remote = ["collect", "uniform", "CartPole-v1", "s3://bucket/log", "--episodes", "3"]
    refused = CliRunner().invoke(app, remote)
    assert refused.exit_code == 3
    assert "directory of this machine" in refused.output
    assert sorted(tmp_path.iterdir()) == [path, target]


def test_logs_are_written_locally(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = some(3)
    with pytest.raises(ove.InvalidInputError, match="directory of this machine"):
        data.save("s3://bucket/log")
    with pytest.raises(ove.InvalidInputError, match="directory of this machine"):
        EpisodeWriter("s3://bucket/log", data.metadata)
    assert not list(tmp_path.iterdir())
