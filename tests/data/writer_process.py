"""A process that logs episodes and acknowledges them, to be killed at any moment.

Run as ``python writer_process.py DIRECTORY SEED FLUSH_EVERY CLOSE_AFTER``: prints a line for every
number of acknowledged episodes; with CLOSE_AFTER > 0 it closes after that many and starts again.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from ove_sb3.data.metadata import Metadata
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.data.writer import EpisodeWriter


def episode(writer: int, number: int, metadata: Metadata) -> Trajectories:
    """Episode `number` of `writer`: everything in it follows from the two."""
    rng = np.random.default_rng([writer, number])
    n = int(rng.integers(1, 40))
    values: dict[str, Any] = {
        "observations": rng.normal(size=(n, 4)).astype(np.float32),
        "actions": rng.integers(0, 3, n),
        "log_probs": np.log(rng.uniform(0.1, 1.0, n)),
        "rewards": np.full(n, float(number)),
        "lengths": [n],
        "terminated": [bool(number % 2)],
        "final_observations": np.array([[writer, number, 0, 0]], np.float32),
    }
    return Trajectories.from_arrays(**values, metadata=metadata)


def main() -> None:
    directory, writer, flush_every, close_after = sys.argv[1], *map(int, sys.argv[2:5])
    metadata = Metadata(env_id="Test-v0", seed=writer)
    log = EpisodeWriter(directory, metadata, flush_every=flush_every)
    print("ready", flush=True)
    number, before = 0, 0
    while True:
        log.add(episode(writer, number, metadata))
        number += 1
        time.sleep(0.0005)
        if before + log.n_written == number:
            print(number, flush=True)
        if close_after and number % close_after == 0:
            log.close()
            print(number, flush=True)
            before = number
            log = EpisodeWriter(directory, metadata, flush_every=flush_every)


if __name__ == "__main__":
    main()
