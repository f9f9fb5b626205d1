"""Tables of accuracy, intervals and cost for each quantity, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.tables import markdown
from tests.problems.problem import Problem

from .harness import Result
from .protocol import FRACTION, QUANTITIES
from .summary import Summary, number

_UNIT = "the true standard deviation of the return"
TITLES = {
    "mean": ("the mean", _UNIT),
    "variance": ("the variance", "the true variance"),
    "quantile": (f"the {FRACTION:.0%} quantile", _UNIT),
    "cvar": (f"the CVaR at {FRACTION:.0%}", _UNIT),
}
Column = tuple[str, int]


def tables(
    results: Sequence[Result], problems: Sequence[Problem], sizes: Sequence[int]
) -> dict[str, str]:
    """Tables by name; a method that failed keeps its row, with the reason."""
    named: dict[str, str] = {}
    for quantity in QUANTITIES:
        rows = [result for result in results if result.quantity == quantity]
        if rows:
            named[f"{quantity}_error"] = _errors(quantity, rows, problems, sizes)
            named[f"{quantity}_interval"] = _intervals(quantity, rows, problems, sizes)
            named[f"{quantity}_cost"] = _costs(quantity, rows, problems, sizes)
    return named


def _errors(
    quantity: str, results: Sequence[Result], problems: Sequence[Problem], sizes: Sequence[int]
) -> str:
    name, unit = TITLES[quantity]
    columns = [(problem.name, n) for problem in problems for n in sizes]
    shown = [r for r in results if r.reason or any(c.rmse is not None for c in r.cells.values())]
    rows = [[r.name, *(_error(r.cells.get(column)) for column in columns)] for r in shown]
    title = f"Root mean square error of {name}, in % of {unit} (data sets)"
    return f"{title}\n\n{markdown(_header(columns), rows)}"


def _intervals(
    quantity: str, results: Sequence[Result], problems: Sequence[Problem], sizes: Sequence[int]
) -> str:
    name, unit = TITLES[quantity]
    columns = [(problem.name, n) for problem in problems for n in sizes]
    shown = [
        r for r in results if r.reason or any(c.coverage is not None for c in r.cells.values())
    ]
    rows = [[r.name, *(_interval(r.cells.get(column)) for column in columns)] for r in shown]
    title = f"Coverage of the 95% interval of {name} / its mean width in units of {unit} "
    return f"{title}(data sets)\n\n{markdown(_header(columns), rows)}"


def _costs(
    quantity: str, results: Sequence[Result], problems: Sequence[Problem], sizes: Sequence[int]
) -> str:
    # A problem of one step, which all methods support, and a longer one.
    timed = list(dict.fromkeys((problems[0].name, problems[min(2, len(problems) - 1)].name)))
    columns = [(name, n) for name in timed for n in sizes]
    largest = max(sizes)
    header = ["method", *(f"CPU ms, {name}, {n:,}" for name, n in columns)]
    header += [f"peak MB, n = {largest:,}", "MB after a small first call", "lines to write"]
    rows = []
    for r in results:
        times = [_milliseconds(r.cells.get(column)) for column in columns]
        rest = ["-"] * 3
        if not r.reason:
            rest = [f"{r.memory[largest]:.0f}", f"{r.libraries:.0f}", str(r.lines)]
        rows.append([r.name, *times, *rest])
    title = f"Cost of one call for {TITLES[quantity][0]}, estimate and interval"
    return f"{title}\n\n{markdown(header, rows)}"


def _header(columns: Sequence[Column]) -> list[str]:
    return ["method", *(f"{name}, {n:,}" for name, n in columns)]


def _error(cell: Summary | None) -> str:
    if cell is None or cell.rmse is None:
        return "-"
    return f"{number(cell.rmse, 100.0)} ({cell.trials})"


def _interval(cell: Summary | None) -> str:
    if cell is None or cell.coverage is None:
        return "-"
    return f"{cell.coverage:.2f} / {number(cell.width)} ({cell.trials})"


def _milliseconds(cell: Summary | None) -> str:
    return "-" if cell is None else number(cell.seconds, 1000.0)
