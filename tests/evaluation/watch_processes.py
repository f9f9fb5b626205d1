"""Processes that log, and that watch the log, each to be killed at any moment.

``python -m tests.evaluation.watch_processes write DIRECTORY SEED N_ENVS N_STEPS`` logs visits, then
waits.
``python -m tests.evaluation.watch_processes watch DIRECTORY N_ENVS`` prints the number of episodes
of every evaluation and, finally, the decision as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import ove_sb3 as ove
from tests.problems.queue import Queue
from tests.problems.visits import Visits, candidate

REQUIREMENTS = ("mean >= 0.6", "variance <= 0.25")


def queue_of(n_envs: int) -> Queue:
    return Queue(n_envs, 0, (10, 2), (1.0, 0.0))


def watch(path: str, n_envs: int, **options: Any) -> ove.Decision:
    return ove.watch(
        path,
        candidate(queue_of(n_envs)),
        REQUIREMENTS,
        gamma=1.0,
        reward_range=(0, 1),
        return_range=(0, 1),
        max_weight=1.4,
        poll_seconds=0.05,
        **options,
    )


def main() -> None:
    role, path, *numbers = sys.argv[1:]
    if role == "write":
        seed, n_envs, n_steps = map(int, numbers)
        visits = Visits(queue_of(n_envs), path, seed)
        for _ in range(n_steps // n_envs // 10):
            visits.run(10)
            time.sleep(0.01)
        while True:
            time.sleep(1.0)
    decision = watch(
        path, int(numbers[0]), timeout=300.0, progress=lambda d: print(d.n, flush=True)
    )
    print(json.dumps(decision.to_dict()), flush=True)


if __name__ == "__main__":
    main()
