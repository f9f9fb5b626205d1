"""Time from an installed package to the first verdict: the first example of the README."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.first_screen import first_block

from .tables import print_table

README = Path(__file__).parents[1] / "README.md"


def seconds(code: str, cache: str) -> tuple[float, float]:
    """Wall time and CPU time of a program in a new process and an empty directory."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    with tempfile.TemporaryDirectory() as folder:
        begin, used = time.perf_counter(), _children()
        command = [sys.executable, "-c", code]
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
        return time.perf_counter() - begin, _children() - used


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    code = first_block(README)
    with tempfile.TemporaryDirectory() as cache:
        rows = [
            ("import ove_sb3", *seconds("import ove_sb3", cache)),
            ("the first example, right after the install", *seconds(code, cache)),
            ("once more", *seconds(code, cache)),
        ]
    print_table(
        "From an installed package to the first verdict", ("", "seconds", "CPU seconds"), rows
    )


if __name__ == "__main__":
    main()
