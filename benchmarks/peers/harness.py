"""Write data sets, and run each method and n in its own process."""

from __future__ import annotations

import ast
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
from .stored import fingerprint, load
from .summary import Summary, summarize
from .truth import true_values, unit

ROOT = Path(__file__).parents[2]
PROBLEMS: tuple[Problem, ...] = (recommender(), gridworld(6), gridworld(15), chain(8))
# Known to the user: at every step the behavior mixes in the candidate with probability 1/2, or it
# takes each of two actions with probability 1/2. Either way no ratio exceeds 2.
MAX_RATIO = 2.0


@dataclass(frozen=True)
class Result:
    """Results of one method for every problem and n, or the reason why there are none.

    Parameters
    ----------
    label, quantity, method : str
        Name of the peer, the estimated quantity, and name of the method.
    reason : str
        Why there are no results.
    lines : int
        Lines of code that a user writes.
    libraries : float
        Memory after a small first call, in MB.
    wall : float
        Seconds that all its calls took, imports included.
    memory : dict
        Largest resident memory by n, in MB.
    cells : dict
        Summaries by problem and n, without problems that the method does not support.
    """

    label: str
    quantity: str
    method: str
    reason: str = ""
    lines: int = 0
    libraries: float = 0.0
    wall: float = 0.0
    memory: dict[int, float] = field(default_factory=dict)
    cells: dict[tuple[str, int], Summary] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Peer, method, and the reason for a failure, for the tables."""
        name = f"{self.label}: {self.method}"
        return f"{name} ({self.reason})" if self.reason else name


def write_data(
    folder: Path, problems: Sequence[Problem], sizes: Sequence[int], trials: int
) -> None:
    """Draw the data sets of every problem and n, and store them."""
    for k, problem in enumerate(problems):
        truths = true_values(problem)
        for n in sizes:
            rng = np.random.default_rng([k, n])
            logs = [_draw(problem, n, rng, truths) for _ in range(trials)]
            write_logs(folder / f"{problem.name}-{n}.npz", logs)


def _draw(
    problem: Problem,
    n: int,
    rng: np.random.Generator,
    truths: Mapping[str, float] | None = None,
) -> Log:
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
        **(truths or true_values(problem)),
    )


def run_all(
    peers: Mapping[str, Environment],
    quantities: Sequence[str],
    folder: Path,
    data: Path,
    cpu_seconds: float,
    jobs: int = 1,
    words: Sequence[str] = (),
) -> list[Result]:
    """Run every method of every peer, `jobs` of them in parallel; return the results in order.

    With `words`, only the methods whose names contain one of them are run.
    Environments and finished results are kept in `folder`: a method that was run before with the
    same data, code and settings is not run again. A peer that cannot be installed gives results
    that hold the reason.
    """
    with ThreadPoolExecutor(jobs) as pool:
        waiting: list[Result | Future[Result]] = []
        for name, environment in peers.items():
            wanted = [
                (module, quantity, method)
                for module, quantity, method in method_keys(environment)
                if quantity in quantities and any(word in method for word in words or [""])
            ]
            if not wanted:
                continue
            try:
                python = build(name, environment, folder)
            except InstallationError as error:
                print(f"{environment.label}: {error}", file=sys.stderr)
                waiting += [
                    Result(environment.label, quantity, "not installed", reason=str(error))
                    for quantity in dict.fromkeys(quantity for _, quantity, _ in wanted)
                ]
                continue
            results = folder / "results"
            results.mkdir(parents=True, exist_ok=True)
            waiting += [
                pool.submit(_run_method, python, environment, key, data, results, cpu_seconds)
                for key in wanted
            ]
        return [item if isinstance(item, Result) else item.result() for item in waiting]


def method_keys(environment: Environment) -> list[tuple[str, str, str]]:
    """Module, quantity and name of every method, read without importing the modules."""
    keys = []
    for module in environment.modules:
        tree = ast.parse((Path(__file__).parent / "methods" / f"{module}.py").read_text())
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "METHODS":
                assert isinstance(node.value, ast.Dict)
                pairs = [ast.literal_eval(key) for key in node.value.keys if key is not None]
                keys += [(module, quantity, name) for quantity, name in pairs]
                break
        else:
            raise ValueError(f"no METHODS in {module}")
    return keys


def _run_method(
    python: Path,
    environment: Environment,
    key: tuple[str, str, str],
    data: Path,
    results: Path,
    cpu_seconds: float,
) -> Result:
    _, quantity, method = key
    cells: dict[tuple[str, int], Summary] = {}
    memory: dict[int, float] = {}
    lines, libraries, wall, ran = 0, 0.0, 0.0, False
    by_size: dict[int, list[Path]] = {}
    for path in sorted(data.glob("*.npz")):
        by_size.setdefault(int(path.stem.rpartition("-")[2]), []).append(path)
    for n, paths in sorted(by_size.items()):
        name = fingerprint(environment, *key, paths)
        output = results / f"{name}.json"
        result = load(output, cpu_seconds)
        if result is None:
            reason = _run_worker(python, key, cpu_seconds, output, paths)
            result, ran = load(output, cpu_seconds), True
            if reason or result is None:
                print(f"{environment.label}, {quantity}, {method}: {reason}", file=sys.stderr)
                return Result(environment.label, quantity, method, reason or "no output")
        lines, libraries, wall = result["lines"], result["libraries"], wall + result["wall"]
        memory[n] = max((cell["memory"] for cell in result["cells"].values()), default=0.0)
        for stem, cell in result["cells"].items():
            with np.load(data / f"{stem}.npz") as stored:
                truth = float(stored[quantity])
                scale = unit(quantity, float(stored["variance"]))
            cells[stem.rpartition("-")[0], n] = summarize(
                cell["answers"], cell["times"], truth, scale, has_interval=result["interval"]
            )
    state = "done" if ran else "stored"
    print(f"{environment.label}, {quantity}, {method}: {state}, {wall:.0f} s", file=sys.stderr)
    sys.stderr.flush()
    return Result(environment.label, quantity, method, "", lines, libraries, wall, memory, cells)


def _run_worker(
    python: Path, key: Sequence[str], cpu_seconds: float, output: Path, paths: Sequence[Path]
) -> str:
    """Run a method in the environment of its peer; return the reason if it fails, or ``""``."""
    command = [str(python.absolute()), "-m", "benchmarks.peers.worker", *key]
    command += [str(cpu_seconds), str(output.absolute()), *map(str, paths)]
    one_thread = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "NUMBA")}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **one_thread},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return ""
    return last_words(done.stderr) or f"exit code {done.returncode}"
