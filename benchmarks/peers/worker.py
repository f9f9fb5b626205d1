"""Run one method on stored logs, in the environment of its peer, and write the results as JSON.

``python -m benchmarks.peers.worker MODULE QUANTITY METHOD CPU_SECONDS OUTPUT LOG.npz ...``
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.peers.protocol import Log, Method, finite_or_none, read_logs


def run_cell(method: Method, path: Path, cpu_seconds: float) -> dict[str, Any]:
    """Run the trials of one file until the CPU time is used up."""
    answers, times = [], []
    for log in read_logs(path):
        start = time.process_time()
        answer = method.run(log)
        times.append(time.process_time() - start)
        answers.append([finite_or_none(x) for x in (answer.estimate, answer.lower, answer.upper)])
        if sum(times) > cpu_seconds:
            break
    else:
        return {"answers": answers, "times": times, "complete": True}
    return {"answers": answers, "times": times, "complete": False}


def peak_memory() -> float:
    """Largest resident memory of this process so far, in MB."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        # For systems without /proc; on Linux it would also count the parent's memory.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def answers(method: Method, path: Path) -> bool:
    """Whether the method answers for the episodes of this file."""
    return not method.one_step or next(read_logs(path)).horizon == 1


def warm_up(method: Method, log: Log, episodes: int = 100) -> None:
    """Make one small call that is not timed, for compilation and lazy imports."""
    lengths = log.lengths[:episodes]
    steps = int(lengths.sum())
    head = {"log_ratios": log.log_ratios[:steps], "rewards": log.rewards[:steps]}
    method.run(dataclasses.replace(log, lengths=lengths, **head))


def main(arguments: list[str]) -> None:
    module, quantity, name, cpu_seconds, output, *names = arguments
    start = time.perf_counter()
    methods = importlib.import_module(f"benchmarks.peers.methods.{module}").METHODS
    method: Method = methods[quantity, name]
    paths = [path for path in map(Path, names) if answers(method, path)]
    if paths:
        warm_up(method, next(read_logs(paths[0])))
    libraries = peak_memory()  # after the first call, because some imports are lazy
    cells = {}
    for path in paths:
        cells[path.stem] = run_cell(method, path, float(cpu_seconds))
        cells[path.stem]["memory"] = peak_memory()
    result = {
        "lines": method.lines,
        "interval": method.interval,
        "libraries": libraries,
        "wall": time.perf_counter() - start,
        "cpu_seconds": float(cpu_seconds),
    }
    Path(output).write_text(json.dumps({**result, "cells": cells}))


if __name__ == "__main__":
    main(sys.argv[1:])
