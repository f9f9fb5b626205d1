"""Build the peers' environments, run all methods on the same data, and print the tables.

``python -m benchmarks.peers [--trials N] [--peers ours scipy ...] [--quantities mean ...]``
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.tables import stamp
from ove_sb3.experiments.report import insert_tables

from .environments import ENVIRONMENTS
from .harness import PROBLEMS, Result, run_all, write_data
from .protocol import QUANTITIES
from .tables import tables


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--trials", type=int, default=100, help="data sets per problem and n")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--cpu-seconds", type=float, default=3.0, help="per method, problem and n")
    parser.add_argument("--peers", nargs="+", choices=ENVIRONMENTS, default=list(ENVIRONMENTS))
    parser.add_argument("--quantities", nargs="+", choices=QUANTITIES, default=list(QUANTITIES))
    parser.add_argument(
        "--methods", nargs="+", default=[], help="words that the names of the methods contain"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path(".peers"), help="folder of environments and results"
    )
    parser.add_argument("--jobs", type=int, default=1, help="methods that run in parallel")
    parser.add_argument("--page", type=Path, help="page to insert the tables into")
    parser.add_argument("--prefix", default="", help="of the names of the tables on the page")
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch)
        write_data(data, PROBLEMS, options.sizes, options.trials)
        peers = {name: ENVIRONMENTS[name] for name in options.peers}
        results = run_all(
            peers,
            options.quantities,
            options.folder,
            data,
            options.cpu_seconds,
            options.jobs,
            options.methods,
        )
    named = tables(results, PROBLEMS, options.sizes)
    named["stamp"] = run_line(results, options.trials, options.cpu_seconds)
    print("\n".join(named.values()))
    if options.page is not None:
        prefixed = {f"{options.prefix}{name}": text for name, text in named.items()}
        filled = insert_tables(options.page, prefixed)
        print(f"{len(filled)} tables inserted into {options.page}")
    print(f"{(time.perf_counter() - start) / 60:.1f} minutes in this run")


def run_line(results: Sequence[Result], trials: int, cpu_seconds: float) -> str:
    """One line about the run: date, machine, settings and total time."""
    total = sum(result.wall for result in results)
    return (
        f"{stamp()}; {len(results)} methods, at most {trials} data sets and {cpu_seconds:g} "
        f"seconds of CPU time for each problem and n; {total / 60:.0f} minutes in all.\n"
    )


if __name__ == "__main__":
    main()
