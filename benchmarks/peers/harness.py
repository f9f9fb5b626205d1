"""Write data sets, run each method and n in a process of its own, and make the tables."""

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

from tests.problems.bandits import recommender
from tests.problems.chain import chain
from tests.problems.gridworld import gridworld
from tests.problems.problem import Problem

from .environments import Environment, InstallationError, build, last_words
from .protocol import Log, write_logs
from .summary import Summary, markdown, number, summarize

ROOT = Path(__file__).parents[2]
PROBLEMS: tuple[Problem, ...] = (recommender(), gridworld(6), gridworld(15), chain(8))
# Known to the user: at every step the behavior mixes in the candidate with probability 1/2, or it
# takes each of two actions with probability 1/2. Either way no ratio exceeds 2.
MAX_RATIO = 2.0


@dataclass(frozen=True)
class Result:
    """Results of one method for every problem and n, or the reason why there are none."""

    label: str
    method: str
    reason: str = ""
    lines: int = 0
    libraries: float = 0.0
    memory: dict[int, float] = field(default_factory=dict)
    cells: dict[tuple[str, int], Summary] = field(default_factory=dict)


def write_data(
    folder: Path, problems: Sequence[Problem], sizes: Sequence[int], trials: int
) -> None:
    """Draw the data sets of every problem and n, and store them."""
    for k, problem in enumerate(problems):
        for n in sizes:
            rng = np.random.default_rng([k, n])
            logs = [_draw(problem, n, rng) for _ in range(trials)]
            write_logs(folder / f"{problem.name}-{n}.npz", logs)


def _draw(problem: Problem, n: int, rng: np.random.Generator) -> Log:
    low, high = problem.reward_range
    if problem.horizon > 1:  # an ended episode is padded with rewards of 0
        low, high = min(low, 0.0), max(high, 0.0)
    log_ratios, rewards, lengths = problem.sample(n, rng)
    return Log(
        log_ratios=log_ratios,
        rewards=rewards,
        lengths=lengths,
        gamma=problem.gamma,
        horizon=problem.horizon,
        reward_range=(low, high),
        max_ratio=MAX_RATIO,
        mean=problem.mean,
        variance=problem.variance,
    )


def run_all(
    peers: Mapping[str, Environment], folder: Path, data: Path, cpu_seconds: float, jobs: int = 1
) -> list[Result]:
    """Run every method of every peer, `jobs` of them in parallel; return the results in order.

    A peer that cannot be installed gives one result with the reason.
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
    """Keys of METHODS, read without importing the module."""
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
            cells[stem.rpartition("-")[0], n] = summarize(
                cell["answers"], cell["times"], truth, has_interval=result["interval"]
            )
    print(f"{environment.label}, {method}: done", file=sys.stderr, flush=True)
    return Result(environment.label, method, "", lines, libraries, memory, cells)


def tables(results: Sequence[Result], problems: Sequence[Problem], sizes: Sequence[int]) -> str:
    """Accuracy, intervals and cost, in Markdown; a failure keeps its row, with the reason."""
    parts = []
    columns = [(problem.name, n) for problem in problems for n in sizes]
    header = ["method", *(f"{name}, {n:,}" for name, n in columns)]
    parts.append("Root mean square error of the variance estimate, in % of the truth (data sets)\n")
    parts.append(markdown(header, [_row(r, columns, "rmse") for r in results]))
    parts.append(
        "\nCoverage of the 95% interval / its mean width in units of the true variance "
        "(number of data sets)\n"
    )
    parts.append(markdown(header, [_row(r, columns, "interval") for r in results]))
    parts.append("\nCost of one call, estimate and interval\n")
    timed = problems[min(2, len(problems) - 1)].name
    header = ["method", *(f"CPU ms, {timed}, n = {n:,}" for n in sizes)]
    header += [
        f"peak memory, MB, n = {max(sizes):,}",
        "after a small first call, MB",
        "lines to write",
    ]
    parts.append(markdown(header, [_cost_row(r, timed, sizes) for r in results]))
    return "\n".join(parts)


def _name(result: Result) -> str:
    return f"{result.label}: {result.method}"


def _row(result: Result, columns: Sequence[tuple[str, int]], what: str) -> list[str]:
    if result.reason:
        return [f"{_name(result)} ({result.reason})", *(["-"] * len(columns))]
    cells = [result.cells[key] for key in columns]
    if what == "rmse":
        return [_name(result), *map(_error, cells)]
    return [_name(result), *map(_interval, cells)]


def _error(cell: Summary) -> str:
    return "-" if cell.rmse is None else f"{number(cell.rmse, 100.0)} ({cell.trials})"


def _interval(cell: Summary) -> str:
    if cell.coverage is None:
        return "-"
    return f"{cell.coverage:.2f} / {number(cell.width)} ({cell.trials})"


def _cost_row(result: Result, problem: str, sizes: Sequence[int]) -> list[str]:
    if result.reason:
        return [f"{_name(result)} ({result.reason})", *(["-"] * (len(sizes) + 3))]
    return [
        _name(result),
        *(number(result.cells[problem, n].seconds, 1000.0) for n in sizes),
        f"{result.memory[max(sizes)]:.0f}",
        f"{result.libraries:.0f}",
        str(result.lines),
    ]
