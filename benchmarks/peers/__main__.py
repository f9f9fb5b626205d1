"""Build the peers' environments, run all methods on the same data, and print the tables.

``python -m benchmarks.peers [--trials N] [--peers ours scipy ...]``
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from .environments import ENVIRONMENTS
from .harness import PROBLEMS, run_all, tables, write_data


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--trials", type=int, default=100, help="data sets per problem and n")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--cpu-seconds", type=float, default=3.0, help="per method, problem and n")
    parser.add_argument("--peers", nargs="+", choices=ENVIRONMENTS, default=list(ENVIRONMENTS))
    parser.add_argument(
        "--folder", type=Path, default=Path(".peers"), help="folder of the environments"
    )
    parser.add_argument("--jobs", type=int, default=1, help="methods that run in parallel")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch)
        write_data(data, PROBLEMS, options.sizes, options.trials)
        peers = {name: ENVIRONMENTS[name] for name in options.peers}
        results = run_all(peers, options.folder, data, options.cpu_seconds, options.jobs)
    print(tables(results, PROBLEMS, options.sizes))


if __name__ == "__main__":
    main()
