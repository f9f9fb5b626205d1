"""Insert the results of a run into pages: ``python -m ove_sb3.experiments.report``.

The text between ``<!-- table NAME -->`` and ``<!-- end -->`` is replaced by the table of that
name, see `study_tables` and `widths_table`. The figures are copied to the page's folder of images.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.csv

from ove_sb3.core.quantities import as_quantity

from .storage import read_json, stamp
from .tables import Row

_MARK = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_WIDTHS = (
    ("gridworld", "betting", "gridworld"),
    ("gridworld_goal", "betting", "gridworld with goal"),
    ("recommender", "betting", "recommender"),
    ("recommender", "betting_ratio", "recommender, ratio <= 2 known"),
    ("diabetes", "betting", "diabetes"),
    ("diabetes_half_range", "betting", "diabetes, behavior farther away"),
)


def study_tables(folder: Path) -> dict[str, str]:
    """Tables of a study as Markdown, from its files, by their names on a page.

    Misses are those of the lower and the upper bound. Widths are relative to the paper's interval.
    """
    settings = read_json(folder / "settings.json")
    bounds = pyarrow.csv.read_csv(folder / "bounds.csv").to_pylist()
    risk = pyarrow.csv.read_csv(folder / "risk.csv").to_pylist()
    tables = {
        "": f"{_truth(settings)}\n\n{_bounds_table(settings, bounds)}",
        "_known": _known_table(settings, bounds),
        "_risk": _risk_table(settings, risk),
    }
    end = stamp(settings["measured"])
    return {f"{folder.name}{suffix}": f"{text}\n{end}\n" for suffix, text in tables.items()}


def widths_table(results: Path) -> str:
    """Widths of all studies relative to the paper's, as Markdown; empty if a study is missing."""
    if not all((results / study / "settings.json").exists() for study, _, _ in _WIDTHS):
        return ""
    settings = read_json(results / _WIDTHS[0][0] / "settings.json")
    sizes = settings["sizes"]["n_grid"]
    rows = []
    for study, name, label in _WIDTHS:
        bounds = pyarrow.csv.read_csv(results / study / "bounds.csv").to_pylist()
        widths = {row["n"]: _width(row) for row in bounds if row["bounds"] == name}
        rows.append([label, *(widths[n] for n in sizes)])
    table = _table(["n", *(f"{n:,}" for n in sizes)], rows, "---")
    return f"{table}\n{stamp(settings['measured'])}\n"


def _truth(settings: Mapping[str, Any]) -> str:
    truth = settings["truth"]
    source = "exact"
    if truth["episodes"]:
        source = f"± {truth['standard_error']:.2g}, from {truth['episodes']:,} on-policy episodes"
    return (
        f"True variance {truth['variance']:.4g} ({source}), mean {truth['mean']:.4g}; "
        f"{settings['sizes']['n_trials']} trials, each bound at δ = {settings['study']['delta']:g}."
    )


def _bounds_table(settings: Mapping[str, Any], rows: Sequence[Row]) -> str:
    lines = []
    for n in settings["sizes"]["n_grid"]:
        cell = {row["bounds"]: row for row in rows if row["n"] == n}
        entries = [f"{n:,}"]
        for name in ("paper", "bootstrap", "betting"):
            entries += [_interval(cell[name]), _misses(cell[name])]
        entries.append(_width(cell["betting"]))
        known = cell.get("betting_ratio")
        entries += [_interval(known), _width(known)] if known else ["–", "–"]
        lines.append(entries)
    header = ["n", "paper's CI", "misses", "Bootstrap", "misses", "betting (ours)", "misses"]
    return _table([*header, "width", "ratio bound known", "width"], lines)


def _known_table(settings: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """Bounds by betting that use the behavior policy, or a canary log."""
    lines = []
    for n in settings["sizes"]["n_grid"]:
        cell = {row["bounds"]: row for row in rows if row["n"] == n}
        entries = [f"{n:,}"]
        for name in ("betting_known", "betting_canary"):
            entries += [_interval(cell[name]), _misses(cell[name]), _width(cell[name])]
        lines.append(entries)
    header = ["behavior known", "misses", "width", "canary log of 10%", "misses", "width"]
    return _table(["n", *header], lines)


def _risk_table(settings: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """Bounds of the risk quantities by betting, and their misses."""
    betting = [row for row in rows if row["bounds"] == "betting"]
    truths = {row["quantity"]: row["truth"] for row in betting}
    lines = [["truth", *(f"{truth:.4g}" for truth in truths.values())]]
    for n in settings["sizes"]["n_grid"]:
        cells = [f"{_interval(row)}, {_misses(row)}" for row in betting if row["n"] == n]
        lines.append([f"{n:,}", *cells])
    return _table(["n", *(as_quantity(name).label for name in truths)], lines)


def insert_tables(page: Path, tables: Mapping[str, str]) -> list[str]:
    """Replace the tables of `page` that are among `tables` by name; return the names."""
    filled = []

    def replace(match: re.Match[str]) -> str:
        if match[2] not in tables:
            return match[0]
        filled.append(match[2])
        return f"{match[1]}{tables[match[2]]}{match[3]}"

    page.write_text(_MARK.sub(replace, page.read_text(encoding="utf-8")), encoding="utf-8")
    return filled


def fill_page(page: Path, results: Path) -> list[str]:
    """Insert tables and figures of the studies in `results` into `page`; return the names."""
    folders = [path.parent for path in sorted(results.glob("*/settings.json"))]
    tables = {name: text for path in folders for name, text in study_tables(path).items()}
    if widths := widths_table(results):
        tables["reproduction_widths"] = widths
    filled = insert_tables(page, tables)
    images = page.parent / "images"
    for folder in folders:
        if folder.name not in filled:
            continue
        images.mkdir(exist_ok=True)
        for figure in ("a", "b", "c"):
            target = images / f"reproduction_{folder.name}_{figure}.png"
            shutil.copyfile(folder / f"figure_{figure}.png", target)
    return filled


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit status."""
    parser = argparse.ArgumentParser(description="Insert results into pages of documentation.")
    parser.add_argument("--results", type=Path, default=Path("results"))
    pages = [Path("docs/reproduction.md"), Path("docs/width.md")]
    parser.add_argument("--page", type=Path, nargs="+", default=pages)
    options = parser.parse_args(argv)
    filled = [name for page in options.page for name in fill_page(page, options.results)]
    print("inserted:", ", ".join(filled) or "nothing")
    return 0


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], first: str = "---:") -> str:
    """Markdown table with columns aligned to the right, except perhaps the first."""
    marks = [first, *["---:"] * (len(header) - 1)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (header, marks, *rows))


def _interval(row: Row) -> str:
    return f"[{row['lower']:.3g}, {row['upper']:.3g}]"


def _misses(row: Row) -> str:
    return f"{row['misses_lower']} / {row['misses_upper']}"


def _width(row: Row) -> str:
    return f"1/{row['times_narrower']:.1f}"


if __name__ == "__main__":
    sys.exit(main())
