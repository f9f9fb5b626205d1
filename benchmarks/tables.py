"""Plain aligned tables, and CPU times."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a title and aligned columns, the first left-aligned and the others right-aligned."""
    cells = [list(header), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(header))]
    print(f"\n{title}")
    for number, row in enumerate(cells):
        first, *others = row
        columns = [first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]
        print("  ".join(columns).rstrip())
        if number == 0:
            print("-" * (sum(widths) + 2 * (len(widths) - 1)))
    print(end="", flush=True)


def _text(cell: object) -> str:
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)


def cpu_time(function: Callable[[], object], repeats: int = 5) -> float:
    """Least CPU time of several calls in seconds, summed over threads."""
    function()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)
