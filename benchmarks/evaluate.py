"""Memory of `evaluate` on a long log, relative to the size of the log."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from .memory import resident
from .tables import print_table

N_STEPS, LENGTH = 10**7, 100


def write_log(path: Path, n_steps: int) -> int:
    """Write a log like CartPole's, of `n_steps` steps; return the size of its columns in bytes."""
    import gymnasium as gym

    import ove_sb3 as ove
    from ove_sb3.data.metadata import describe_space

    env = gym.make("CartPole-v1")
    spaces = {
        "observation_space": describe_space(env.observation_space),
        "action_space": describe_space(env.action_space),
    }
    rng, size = np.random.default_rng(0), 0
    writer = None
    for _ in range(10):
        n = n_steps // 10
        data = ove.Trajectories.from_arrays(
            observations=rng.normal(size=(n, 4)).astype(np.float32),
            actions=rng.integers(2, size=n),
            log_probs=np.full(n, np.log(0.5)),
            rewards=np.ones(n),
            lengths=np.full(n // LENGTH, LENGTH),
            metadata={"horizon": LENGTH, "reward_range": (0.0, 1.0), **spaces},
        )
        columns = (data.observations, data.actions, data.log_probs, data.rewards)
        size += sum(np.asarray(column).nbytes for column in columns) + n  # one byte for `done`
        writer = writer or ove.EpisodeWriter(path, data.metadata, flush_every=1)
        writer.add(data)
    assert writer is not None
    writer.close()
    return size


def measure(path: str, how: str) -> None:
    """Print the additional peak memory and the seconds as JSON; run this in a new process."""
    from stable_baselines3 import PPO

    import ove_sb3 as ove

    model = PPO("MlpPolicy", "CartPole-v1", device="cpu", seed=0)
    small = ove.collect(model, "CartPole-v1", 50, seed=0, reward_range=(0.0, 1.0))
    ove.evaluate(small, model.policy, gamma=0.99)  # compiles and fills all caches
    data = ove.Trajectories.load(path) if how == "in memory" else path
    before = resident()
    peak, done = [before], threading.Event()

    def sample() -> None:
        while not done.wait(0.01):
            peak[0] = max(peak[0], resident())

    sampler = threading.Thread(target=sample)
    sampler.start()
    start = time.perf_counter()
    ove.evaluate(data, model, gamma=0.99)
    seconds = time.perf_counter() - start
    done.set()
    sampler.join()
    print(json.dumps({"more": peak[0] - before, "seconds": seconds}))


def main(n_steps: int = N_STEPS) -> None:
    """Print the peak memory for a log on disk and for one in memory."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        command = [sys.executable, "-m", "benchmarks.evaluate"]
        made = subprocess.run(
            [*command, "write", str(path), str(n_steps)], check=True, capture_output=True, text=True
        )
        size = int(made.stdout)
        for how in ("from disk", "in memory"):
            run = subprocess.run(
                [*command, how, str(path)], check=True, capture_output=True, text=True
            )
            measured = json.loads(run.stdout.splitlines()[-1])
            # A log in memory is loaded before the call; one on disk is read during it.
            total = measured["more"] + (size if how == "in memory" else 0)
            cells = [f"{size / 1e6:.0f}", f"{total / 1e6:.0f}", f"{total / size:.2f}"]
            rows.append([how, *cells, f"{measured['seconds']:.1f}"])
    print_table(
        f"evaluate of {n_steps:,} steps, memory in MB",
        ["the log is", "size of the log", "peak, log included", "ratio", "seconds"],
        rows,
    )


if __name__ == "__main__":
    if sys.argv[1] == "write":
        print(write_log(Path(sys.argv[2]), int(sys.argv[3])))
    else:
        measure(sys.argv[2], sys.argv[1])
