"""Tables, printed and inserted into the documentation, and CPU times."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from ove_sb3._validation import FloatArray

DOCS = Path(__file__).parents[1] / "docs"
_named: dict[str, str] = {}


def stamp() -> str:
    """Date and machine of a measurement."""
    machine = f"{os.cpu_count()} cores ({platform.machine()})"
    return f"{time.strftime('%Y-%m-%d')}, {machine}, Python {platform.python_version()}"


def print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[object]], name: str = ""
) -> None:
    """Print a title and aligned columns, the first left-aligned and the others right-aligned.

    A table with a name is kept for the documentation: see `insert_into`.
    """
    cells = [list(header), *([_text(cell) for cell in row] for row in rows)]
    if name:
        _named[name] = f"{title}:\n\n{markdown(header, cells[1:])}\nMeasured on {stamp()}.\n"
    widths = [max(len(row[k]) for row in cells) for k in range(len(header))]
    print(f"\n{title}")
    for number, row in enumerate(cells):
        first, *others = row
        columns = [first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]
        print("  ".join(columns).rstrip())
        if number == 0:
            print("-" * (sum(widths) + 2 * (len(widths) - 1)))
    print(end="", flush=True)


def insert_into(folder: Path) -> list[str]:
    """Insert the tables printed so far into the pages of a folder; return their names."""
    from ove_sb3.experiments.report import insert_tables

    pages = sorted(folder.glob("*.md"))
    return [name for page in pages for name in insert_tables(page, _named)]


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]], n_left: int = 1) -> str:
    """Table in Markdown whose first columns are left-aligned and the others right-aligned."""
    marks = ["---"] * n_left + ["---:"] * (len(header) - n_left)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (header, marks, *rows))


def _text(cell: object) -> str:
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)


def cpu_time(function: Callable[[], object], repeats: int = 5) -> float:
    """Least CPU time of several calls in seconds, summed over threads."""
    return float(cpu_times([function], repeats).min())


def cpu_times(functions: Sequence[Callable[[], object]], repeats: int) -> FloatArray:
    """CPU times of functions that alternate, after one call of each, (repeats, n_functions).

    A busy machine slows all of them.
    """

    def spent(function: Callable[[], object]) -> float:
        start = time.process_time()
        function()
        return time.process_time() - start

    for function in functions:
        function()
    return np.array([[spent(function) for function in functions] for _ in range(repeats)])


def median_ratio(times: FloatArray) -> float:
    """Median of the second time over the first, (repeats, 2): neighbors share their noise."""
    return float(np.median(times[:, 1] / times[:, 0]))
