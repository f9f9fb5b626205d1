"""The same data for all, one process for each method and n, and the tables."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.beds import Bed, chain, gridworld, recommender

from .environments import Environment, InstallationError, build, last_words
from .protocol import Log, write_logs
from .summary import Summary, markdown, number, summarise

ROOT = Path(__file__).parents[2]
BEDS: tuple[Bed, ...] = (recommender(), gridworld(6), gridworld(15), chain(8))
# What the user knows of the behavior: it mixes in the candidate with probability 1/2 at every
# step, or takes each of two actions with probability 1/2. Either way no ratio exceeds 2.
MAX_RATIO = 2.0


@dataclass(frozen=True)
class Result:
    """What became of one method: figures for each cell, or the reason why there are none."""

    label: str
    method: str
    reason: str = ""
    lines: int = 0
    libraries: float = 0.0
    memory: dict[int, float] = field(default_factory=dict)
    cells: dict[tuple[str, int], Summary] = field(default_factory=dict)


def write_data(folder: Path, beds: Sequence[Bed], sizes: Sequence[int], trials: int) -> None:
    """Draw the data sets of every bed and n, and store them."""
    for k, bed in enumerate(beds):
        for n in sizes:
            rng = np.random.default_rng([k, n])
            write_logs(folder / f"{bed.name}-{n}.npz", [_draw(bed, n, rng) for _ in range(trials)])


def _draw(bed: Bed, n: int, rng: np.random.Generator) -> Log:
    low, high = bed.reward_range
    if bed.horizon > 1:  # an ended episode is padded with rewards of 0
        low, high = min(low, 0.0), max(high, 0.0)
    log_ratios, rewards, lengths = bed.sample(n, rng)
    return Log(
        log_ratios=log_ratios,
        rewards=rewards,
        lengths=lengths,
        gamma=bed.gamma,
        horizon=bed.horizon,
        reward_range=(low, high),
        max_ratio=MAX_RATIO,
        mean=bed.mean,
        variance=bed.variance,
    )


def run_all(
    peers: Mapping[str, Environment], folder: Path, data: Path, cpu_seconds: float, jobs: int = 1
) -> list[Result]:
    """Run every method of every peer, `jobs` of them at a time; the results are in order.

    A peer that cannot be had is one result with the reason.
    """
    with ThreadPoolExecutor(jobs) as pool:
        waiting: list[Result | Future[Result]] = []
        for name, environment in peers.items():
            try:
                python = build(name, environment, folder)
            except InstallationError as error:
                waiting.append(Result(environment.label, "not installed", reason=str(error)))
                continue
            waiting += [
                pool.submit(_run_method, python, environment, method, data, cpu_seconds)
                for method in method_names(environment.module)
            ]
        return [item if isinstance(item, Result) else item.result() for item in waiting]


def method_names(module: str) -> list[str]:
    """Keys of METHODS, read without importing what only the peer's environment has."""
    tree = ast.parse((Path(__file__).parent / "methods" / f"{module}.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "METHODS":
            assert isinstance(node.value, ast.Dict)
            return [ast.literal_eval(key) for key in node.value.keys if key is not None]
    raise ValueError(f"no METHODS in {module}")


def _run_method(
    python: Path, environment: Environment, method: str, data: Path, cpu_seconds: float
) -> Result:
    cells: dict[tuple[str, int], Summary] = {}
    memory: dict[int, float] = {}
    lines, libraries = 0, 0.0
    by_size: dict[int, list[Path]] = {}
    for path in sorted(data.glob("*.npz")):
        by_size.setdefault(int(path.stem.rpartition("-")[2]), []).append(path)
    for n, paths in sorted(by_size.items()):
        output = data / f"{environment.module}-{method}-{n}.json"
        command = [str(python.absolute()), "-m", "benchmarks.peers.worker", environment.module]
        command += [method, str(cpu_seconds), str(output), *map(str, paths)]
        one_thread = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "NUMBA")}
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **one_thread},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            reason = last_words(done.stderr) or f"exit code {done.returncode}"
            print(f"{environment.label}, {method}: {reason}", file=sys.stderr)
            return Result(environment.label, method, reason=reason)
        result = json.loads(output.read_text())
        lines, libraries = result["lines"], result["libraries"]
        memory[n] = max(cell["memory"] for cell in result["cells"].values())
        for stem, cell in result["cells"].items():
            truth = float(np.load(data / f"{stem}.npz")["variance"])
            cells[stem.rpartition("-")[0], n] = summarise(
                cell["answers"], cell["times"], truth, has_interval=result["interval"]
            )
    print(f"{environment.label}, {method}: done", file=sys.stderr, flush=True)
    return Result(environment.label, method, "", lines, libraries, memory, cells)


def tables(results: Sequence[Result], beds: Sequence[Bed], sizes: Sequence[int]) -> str:
    """Accuracy, intervals and cost, in Markdown; failures keep their row and say why."""
    parts = []
    beds_at = [(bed.name, n) for bed in beds for n in sizes]
    header = ["method", *(f"{name}, {n:,}" for name, n in beds_at)]
    parts.append("Root mean square error of the variance estimate, in % of the truth (data sets)\n")
    parts.append(markdown(header, [_row(r, beds_at, "rmse") for r in results]))
    parts.append(
        "\nCoverage of the 95% interval / its mean width in units of the true variance "
        "(number of data sets)\n"
    )
    parts.append(markdown(header, [_row(r, beds_at, "interval") for r in results]))
    parts.append("\nCost of one call, estimate and interval\n")
    grid = beds[min(2, len(beds) - 1)].name
    header = ["method", *(f"CPU ms, {grid}, n = {n:,}" for n in sizes)]
    header += [
        f"peak memory, MB, n = {max(sizes):,}",
        "of it after a small first call, MB",
        "lines to write",
    ]
    parts.append(markdown(header, [_cost_row(r, grid, sizes) for r in results]))
    return "\n".join(parts)


def _name(result: Result) -> str:
    return f"{result.label}: {result.method}"


def _row(result: Result, beds_at: Sequence[tuple[str, int]], what: str) -> list[str]:
    if result.reason:
        return [f"{_name(result)} ({result.reason})", *(["-"] * len(beds_at))]
    cells = [result.cells[key] for key in beds_at]
    if what == "rmse":
        return [_name(result), *map(_error, cells)]
    return [_name(result), *map(_interval, cells)]


def _error(cell: Summary) -> str:
    return "-" if cell.rmse is None else f"{number(cell.rmse, 100.0)} ({cell.trials})"


def _interval(cell: Summary) -> str:
    if cell.coverage is None:
        return "-"
    return f"{cell.coverage:.2f} / {number(cell.width)} ({cell.trials})"


def _cost_row(result: Result, bed: str, sizes: Sequence[int]) -> list[str]:
    if result.reason:
        return [f"{_name(result)} ({result.reason})", *(["-"] * (len(sizes) + 3))]
    return [
        _name(result),
        *(number(result.cells[bed, n].seconds, 1000.0) for n in sizes),
        f"{result.memory[max(sizes)]:.0f}",
        f"{result.libraries:.0f}",
        str(result.lines),
    ]
