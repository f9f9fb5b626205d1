"""Long logs: time and memory of streaming, speedup by processes, and cost of the bounds.

``python -m benchmarks.scaling --full`` runs the full size: 10^6 and 10^7 episodes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .memory import peak, resident
from .promises import record
from .tables import DOCS, insert_into, print_table

N_SHARDS, N_STATES = 10, 64
KINDS = ("tabular", "PPO")
SIZES = ((50_000, 100),)  # numbers of episodes, and of steps in each
FULL_SIZES = ((10**6, 50), (10**7, 10))
TRAJECTORIES = (10**5, 10**6)
FULL_TRAJECTORIES = (*TRAJECTORIES, 10**7)


def write_log(path: Path, kind: str, n_episodes: int, length: int) -> None:
    """Write shards of random steps, with discrete states or observations like CartPole's."""
    from gymnasium import spaces

    import ove_sb3 as ove
    from ove_sb3.data.metadata import describe_space

    seen: spaces.Space[Any] = spaces.Discrete(N_STATES)
    if kind == "PPO":
        seen = spaces.Box(-np.inf, np.inf, (4,), np.float32)
    rng = np.random.default_rng(0)
    for _ in range(N_SHARDS):
        n = n_episodes // N_SHARDS * length
        states = rng.integers(N_STATES, size=n)
        data = ove.Trajectories.from_arrays(
            observations=states if kind == "tabular" else rng.normal(size=(n, 4)).astype("f4"),
            actions=rng.integers(2, size=n),
            log_probs=np.full(n, np.log(0.5)),
            rewards=rng.random(n),
            lengths=np.full(n // length, length),
            metadata={
                "horizon": length,
                "reward_range": (0.0, 1.0),
                "observation_space": describe_space(seen),
                "action_space": describe_space(spaces.Discrete(2)),
            },
        )
        writer = ove.EpisodeWriter(path, data.metadata)
        writer.add(data)
        writer.close()


def make_candidate(kind: str) -> Any:
    """A tabular policy near the behavior, or a network with two layers of 64 units."""
    import gymnasium as gym
    from stable_baselines3 import PPO

    import ove_sb3 as ove

    if kind == "PPO":
        space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
        return PPO("MlpPolicy", _empty_env(space), device="cpu", seed=0)
    rng = np.random.default_rng(1)
    p = 0.5 + 0.02 * rng.normal(size=N_STATES)
    return ove.TabularPolicy(np.stack([p, 1 - p], axis=1))


def measure_stream(path: str, kind: str) -> dict[str, float]:
    """CPU seconds of streaming the whole log, and of its three parts one by one."""
    import ove_sb3 as ove
    from ove_sb3.core.step_reduction import shard_statistics
    from ove_sb3.evaluation.reduction import reduce_log

    log = ove.open_log(path)
    horizon = log.metadata.horizon
    candidate = _candidate(kind, log)
    blocks = log.part(0, log.n_steps).windows(log.block_steps)
    sample = [block for _, block in itertools.islice(blocks, 4)]
    share = log.n_steps / sum(block.n_steps for block in sample)
    scored = [candidate.score(block, 0) for block in sample]  # compiles and fills all caches

    def read() -> None:
        for _ in log.part(0, log.n_steps).windows(log.block_steps):
            pass

    def score() -> None:
        for block in sample:
            candidate.score(block, 0)

    def reduce() -> None:
        for block, scores in zip(sample, scored, strict=True):
            shard_statistics(scores, block.rewards, block.lengths, gamma=0.99, horizon=horizon)

    reduce()
    seconds = {"read": _cpu(read), "score": share * _cpu(score), "reduce": share * _cpu(reduce)}
    seconds["stream"] = _cpu(lambda: reduce_log(log, [candidate], gamma=0.99, horizon=horizon))
    return {**seconds, "n_steps": log.n_steps}


def measure_jobs(path: str, kind: str) -> dict[str, float]:
    """Seconds in this process, with joblib, and with one and two Dask workers."""
    from distributed import Client, LocalCluster

    import ove_sb3 as ove
    from ove_sb3.evaluation.reduction import reduce_log

    log = ove.open_log(path, chunk_steps=1)
    horizon = log.metadata.horizon
    candidate = _candidate(kind, log)

    def seconds(**how: Any) -> float:
        runs = []
        for _ in range(3):  # the first one starts the processes and compiles
            start = time.perf_counter()
            reduce_log(log, [candidate], gamma=0.99, horizon=horizon, **how)
            runs.append(time.perf_counter() - start)
        return min(runs[1:])

    times = {"here": seconds(), "joblib 2": seconds(n_jobs=2)}
    for n in (1, 2):
        with (
            LocalCluster(  # type: ignore[no-untyped-call]
                processes=True, n_workers=n, threads_per_worker=1, dashboard_address="127.0.0.1:0"
            ) as cluster,
            Client(cluster) as client,  # type: ignore[no-untyped-call]
        ):
            times[f"dask {n}"] = seconds(scheduler=client)
    return times


def measure_bounds(n: str, _: str) -> dict[str, float]:
    """CPU seconds and memory of computing the result from the statistics of n trajectories."""
    import ove_sb3 as ove
    from ove_sb3.data.metadata import Metadata
    from ove_sb3.evaluation.behavior import Behavior
    from ove_sb3.evaluation.pipeline import _evaluate_statistics
    from ove_sb3.evaluation.plan import make_plan

    known: dict[str, Any] = {"reward_range": (0.0, 1.0)}
    plan = make_plan(
        Metadata(),
        gamma=1.0,
        horizon=1,
        return_range=None,
        max_ratio=None,
        max_weight=None,
        delta=0.05,
        simultaneous=False,
        **known,
    )

    def statistics(count: int) -> ove.TrajectoryStatistics:
        rng = np.random.default_rng(0)
        ratios = np.where(rng.random(count) < 0.5, np.log(0.9), np.log(1.1))
        return ove.trajectory_statistics(
            ratios, rng.random(count), np.ones(count, dtype=np.int64), gamma=1.0, horizon=1
        )

    _evaluate_statistics(Behavior(statistics(1000), plan), Metadata(), "")  # compiles
    stats = statistics(int(n))
    before = resident()
    seconds = {
        "mean": _cpu(lambda: ove.mean_interval(stats, **known)),
        "variance": _cpu(lambda: ove.variance_interval(stats, **known)),
        "all": _cpu(lambda: _evaluate_statistics(Behavior(stats, plan), Metadata(), "")),
    }
    return {**seconds, "more": peak() - before}


def _candidate(kind: str, log: Any) -> Any:
    from ove_sb3.evaluation.candidates import as_candidate

    return as_candidate(
        make_candidate(kind),
        metadata=log.metadata,
        n_steps=log.n_steps,
        model_class=None,
        vec_normalize=None,
        deterministic=False,
    )


def _cpu(function: Callable[[], object]) -> float:
    """CPU seconds of a call, which depend little on other processes."""
    start = time.process_time()
    function()
    return time.process_time() - start


def _in_new_process(what: str, *arguments: str) -> dict[str, float]:
    """Run a measurement in its own process."""
    command = [sys.executable, "-m", "benchmarks.scaling", "--measure", what, *arguments]
    # By default Dask's workers return freed memory at every batch, which is slow: docs/scaling.md.
    keep = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(1 << 25)} if what == "jobs" else None
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=keep)
    measured: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return measured


def main(*, full: bool = False) -> None:
    """Print the tables."""
    streams, jobs = [], []
    for (n_episodes, length), kind in itertools.product(FULL_SIZES if full else SIZES, KINDS):
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / kind)
            _in_new_process("write", path, kind, str(n_episodes), str(length))
            stream = _in_new_process("stream", path, kind)
            parts = [stream[part] for part in ("read", "score", "reduce")]
            cells = [f"{seconds:.1f}" for seconds in (*parts, stream["stream"])]
            ratio = stream["stream"] / sum(parts)
            record("stream", ratio)
            nanoseconds = 1e9 * stream["stream"] / stream["n_steps"]
            peak = f"{stream['peak'] / 1e6:.0f}"
            name = f"{kind}, {n_episodes:,} x {length}"
            streams.append([name, *cells, f"{ratio:.2f}", f"{nanoseconds:.0f}", peak])
            times = _in_new_process("jobs", path, kind)
            gains = times["here"] / times["joblib 2"], times["dask 1"] / times["dask 2"]
            cells = [f"{times[how]:.1f}" for how in ("here", "joblib 2", "dask 1", "dask 2")]
            jobs.append([name, *cells, *(f"{gain:.2f}" for gain in gains)])
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print_table(
        "log from disk, CPU seconds",
        [
            "candidate, episodes x steps",
            "read",
            "score",
            "reduce",
            "all in one",
            "ratio",
            "ns/step",
            "peak MB",
        ],
        streams,
        name="scaling_stream" if full else "",
    )
    print_table(
        f"log shared by processes, seconds ({load})",
        [
            "candidate, episodes x steps",
            "here",
            "joblib 2",
            "dask 1",
            "dask 2",
            "gain joblib",
            "gain dask",
        ],
        jobs,
        name="scaling_jobs" if full else "",
    )
    bounds = []
    for n in FULL_TRAJECTORIES if full else TRAJECTORIES:
        measured = _in_new_process("bounds", str(n), "")
        cells = [f"{measured[name]:.2f}" for name in ("mean", "variance", "all")]
        bounds.append([f"{n:,}", *cells, f"{measured['more'] / n:.0f}"])
    print_table(
        "bounds from the statistics, CPU seconds",
        ["trajectories", "mean interval", "variance interval", "evaluation", "bytes each"],
        bounds,
        name="scaling_bounds" if full else "",
    )


MEASUREMENTS = {"stream": measure_stream, "jobs": measure_jobs, "bounds": measure_bounds}


def _run() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--full", action="store_true", help="10^6 and 10^7 episodes")
    parser.add_argument("--docs", action="store_true", help="insert the full tables into docs/")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is None:
        main(full=options.full)
        if options.docs:
            insert_into(DOCS)
        return
    what, first, second, *more = options.measure
    measured: dict[str, float] = {}
    if what == "write":
        write_log(Path(first), second, *map(int, more))
    else:
        measured = MEASUREMENTS[what](first, second)
    print(json.dumps({**measured, "peak": peak()}))


def _empty_env(space: Any) -> Any:
    """Environment that only has spaces, to construct a network."""
    import gymnasium as gym

    class Empty(gym.Env[Any, Any]):
        observation_space = space
        action_space = gym.spaces.Discrete(2)

    return Empty()


if __name__ == "__main__":
    _run()
