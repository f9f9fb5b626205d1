"""The store: speed of writing and reading, growth with the log, opening, and memory for images.

``python -m benchmarks store`` prints all tables, ``python -m benchmarks.store linear`` just one.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from pyarrow.dataset import dataset

import ove_sb3 as ove
from ove_sb3.core.stopping import LoggingRecord
from ove_sb3.data.writer import compact

from . import memory
from .promises import record
from .tables import cpu_times, median_ratio, print_table

REPEATS, READS = 5, 3
PEER = "pyarrow, "  # the same steps as one Parquet file
PROMISED = {"written": "written", "read while logging": "read", "read from Parquet": "read"}
EPISODES = (250_000, 1_000_000)
SHARDS = 1000
IMAGE_STEPS = (10_000, 80_000)
IMAGE = (84, 84, 4)


@contextmanager
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp())
    try:
        yield path
    finally:
        shutil.rmtree(path)


def some_episodes(n: int, shortest: int = 20, longest: int = 200) -> list[ove.Trajectories]:
    """Episodes like those of CartPole, one by one as the wrappers add them."""
    rng = np.random.default_rng(0)
    log = ove.Metadata(env_id="CartPole-v1", log_ids=("log",), n_envs=1)
    episodes = []
    for k in range(n):
        steps = int(rng.integers(shortest, longest))
        episodes.append(
            ove.Trajectories.from_arrays(
                observations=rng.normal(size=(steps, 4)).astype(np.float32),
                actions=rng.integers(0, 2, steps),
                log_probs=np.log(rng.uniform(0.1, 1.0, steps)),
                rewards=np.ones(steps),
                lengths=[steps],
                final_observations=rng.normal(size=(1, 4)).astype(np.float32),
                begins=[k],
                metadata=replace(log, begun={"0": LoggingRecord(k + 2, k + 1)}),
            )
        )
    return episodes


def rates() -> None:
    """Steps per CPU second: written as the wrappers do, read from the index and from Parquet."""
    episodes = some_episodes(20_000)
    n_steps = sum(episode.n_steps for episode in episodes)
    seconds: dict[str, list[float]] = {}

    def measure(name: str, action: Callable[[], object]) -> None:
        start = time.process_time()
        action()
        seconds.setdefault(name, []).append(time.process_time() - start)

    for _ in range(REPEATS):
        with folder() as path:
            writer = ove.EpisodeWriter(path / "log", ove.Metadata())
            measure("written", lambda: _write(writer, episodes))  # noqa: B023
            for _ in range(READS):
                measure("read while logging", lambda: ove.Trajectories.load(path / "log"))
            measure("closed", writer.close)
            for _ in range(READS):
                measure("read from Parquet", lambda: ove.Trajectories.load(path / "log"))
            (shard,) = (path / "log").glob("*.parquet")
            table, copy = pq.read_table(shard), path / "copy.parquet"
            for _ in range(READS):
                measure(PEER + "written", partial(pq.write_table, table, copy, compression="zstd"))
                measure(PEER + "read", partial(pq.read_table, copy))
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    for name, promise in PROMISED.items():
        record(promise, medians[name] / medians[PEER + promise])
    rates = {name: n_steps / value / 1e6 for name, value in medians.items()}
    print_table(
        "Speed of the store", ["", "M steps per CPU second"], list(rates.items()), name="store"
    )


def _write(writer: ove.EpisodeWriter, episodes: list[ove.Trajectories]) -> None:
    for episode in episodes:
        writer.add(episode)
    writer.flush()


def one_step_episodes(n: int) -> ove.Trajectories:
    rng = np.random.default_rng(0)
    return ove.Trajectories.from_arrays(
        observations=rng.normal(size=(n, 4)).astype(np.float32),
        actions=rng.integers(0, 2, n),
        log_probs=np.log(rng.uniform(0.1, 1.0, n)),
        rewards=rng.random(n),
        lengths=np.ones(n, dtype=int),
    )


def linear() -> None:
    """CPU time of closing a writer, and of compacting its batches, for one-step episodes."""
    seconds: dict[str, list[float]] = {"closing": [], "compacting": []}
    for n in EPISODES:
        data = one_step_episodes(n)
        for name, values in seconds.items():
            with folder() as path:
                writer = ove.EpisodeWriter(path, data.metadata)
                for first in range(0, n, 256):
                    writer.add(data[first : first + 256])
                writer.flush()
                if name == "compacting":
                    writer.close(compact=False)
                start = time.process_time()
                if name == "closing":
                    writer.close()
                else:
                    compact(path)
                values.append(time.process_time() - start)
                assert len(ove.open_log(path)) == n
    for few, many in seconds.values():
        record("closing", many / few)
    print_table(
        "One-step episodes, CPU seconds",
        ["", *(f"{n:,}" for n in EPISODES), "ratio"],
        [[name, few, many, many / few] for name, (few, many) in seconds.items()],
        name="store_episodes",
    )


def pending() -> None:
    """CPU time of `add` while few or many episodes are pending."""
    episode = some_episodes(1)[0]
    with folder() as path:
        writer = ove.EpisodeWriter(path, ove.Metadata(), flush_every=10**9)
        rows = []
        for goal in (1_000, 10_000, 100_000):
            while writer._pending.n < goal:
                writer.add(episode)
            start = time.process_time()
            for _ in range(20_000):
                writer.add(episode)
            took = (time.process_time() - start) / 20_000
            rows.append([f"{goal:,}", 1e6 * took])
        writer._pending = type(writer._pending)()
    print_table("Adding an episode", ["episodes pending", "CPU microseconds"], rows)


def opening() -> None:
    """Time to open a log of many shards."""
    episodes = some_episodes(3)
    with folder() as path:
        for _ in range(SHARDS):
            with ove.EpisodeWriter(path, ove.Metadata(), durability="normal") as writer:
                writer.add(episodes[0])
        assert ove.open_log(path).n_shards == SHARDS
        shards = [*map(str, path.glob("*.parquet"))]
        times = cpu_times(
            [lambda: dataset(shards).count_rows(), lambda: ove.open_log(path)], REPEATS
        )
    record("opening", median_ratio(times))
    theirs, ours = np.median(times, axis=0)
    print_table(
        "Opening a log, CPU seconds",
        ["shards", "ours", "pyarrow counting the rows"],
        [[f"{SHARDS:,}", ours, theirs]],
        name="store_opening",
    )


def images() -> None:
    """Peak memory of `evaluate` from disk for images, above that of the idle process."""
    rows = []
    for kind in ("uniform", "CNN"):
        peaks = []
        for n in IMAGE_STEPS:
            with folder() as path:
                _write_images(path / "log", n)
                command = [
                    sys.executable,
                    "-m",
                    "benchmarks.store",
                    "peak",
                    str(path / "log"),
                    kind,
                ]
                out = subprocess.run(command, check=True, capture_output=True, text=True)
            record("images", float(out.stdout))
            peaks.append(out.stdout.strip())
        rows.append([kind, *peaks])
    size = " x ".join(map(str, IMAGE))
    print_table(
        f"Peak memory of evaluate from disk in MB, above the idle process, images of {size}",
        ["candidate", *(f"{n:,} steps" for n in IMAGE_STEPS)],
        rows,
        name="store_images",
    )


def _write_images(path: Path, n: int) -> None:
    from gymnasium import spaces

    from ove_sb3.data.metadata import describe_space

    rng = np.random.default_rng(0)
    metadata = ove.Metadata(
        horizon=100,
        reward_range=(0.0, 1.0),
        observation_space=describe_space(spaces.Box(0, 255, IMAGE, np.uint8)),
        action_space=describe_space(spaces.Discrete(2)),
    )
    with ove.EpisodeWriter(path, metadata, flush_every=10) as writer:
        for _ in range(n // 100):
            rows = rng.integers(0, 256, (100, 1, 84, 4), dtype=np.uint8)
            writer.add(
                ove.Trajectories.from_arrays(
                    observations=np.broadcast_to(rows, (100, *IMAGE)),
                    actions=rng.integers(2, size=100),
                    log_probs=np.full(100, np.log(0.5)),
                    rewards=rng.random(100),
                    lengths=[100],
                    metadata=metadata,
                )
            )


def peak(path: str, kind: str) -> None:
    """Print the peak memory of an evaluation in MB; run this in a new process."""
    candidate = _candidate(kind)
    options: dict[str, Any] = {"gamma": 0.9, "progress": False}
    small = one_step_episodes(100)
    ove.evaluate(small, small.log_probs, reward_range=(0, 1), horizon=1, **options)  # compile
    idle = memory.peak()
    ove.evaluate(path, candidate, **options)
    print(round((memory.peak() - idle) / 2**20))


def _candidate(kind: str) -> Any:
    import gymnasium as gym
    import torch
    from gymnasium import spaces
    from stable_baselines3 import PPO

    torch.set_num_threads(1)
    if kind == "uniform":
        return ove.UniformPolicy(spaces.Discrete(2))

    class Images(gym.Env[Any, Any]):
        observation_space = spaces.Box(0, 255, IMAGE, np.uint8)
        action_space = spaces.Discrete(2)

    return PPO("CnnPolicy", Images(), n_steps=2, batch_size=2, device="cpu", seed=0)


TABLES = {
    "rates": rates,
    "linear": linear,
    "pending": pending,
    "opening": opening,
    "images": images,
}


def main() -> None:
    for table in TABLES.values():
        table()


if __name__ == "__main__":
    if sys.argv[1:2] == ["peak"]:
        peak(*sys.argv[2:])
    else:
        for name in sys.argv[1:] or TABLES:
            TABLES[name]()
