"""Insert the results of a run into a page: ``python -m ove_sb3.experiments.report``.

The text between ``<!-- table NAME -->`` and ``<!-- end -->`` is replaced by the table of that
study. The figures are copied to the page's folder of images.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.csv

from .storage import read_json

_MARK = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_HEADER = (
    "| n | paper's CI | misses | Bootstrap | misses | betting (ours) | misses | width "
    "| ratio bound known | width |\n"
    "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
)


def study_table(folder: Path) -> str:
    """Table of a study as Markdown, from its files.

    Misses are those of the lower and the upper bound. Widths are relative to the paper's interval.
    """
    settings = read_json(folder / "settings.json")
    truth, sizes = settings["truth"], settings["sizes"]
    source = "exact"
    if truth["episodes"]:
        source = f"± {truth['standard_error']:.2g}, from {truth['episodes']:,} on-policy episodes"
    lines = [
        f"True variance {truth['variance']:.4g} ({source}), mean {truth['mean']:.4g}; "
        f"{sizes['n_trials']} trials, each bound at δ = {settings['study']['delta']:g}.\n\n",
        _HEADER,
    ]
    rows = pyarrow.csv.read_csv(folder / "bounds.csv").to_pylist()
    for n in sizes["n_grid"]:
        cell = {row["bounds"]: row for row in rows if row["n"] == n}
        entries = [f"{n:,}"]
        for name in ("paper", "bootstrap", "betting"):
            entries += [_interval(cell[name]), _misses(cell[name])]
        entries.append(f"1/{cell['betting']['times_narrower']:.1f}")
        known = cell.get("betting_ratio")
        entries += [_interval(known), f"1/{known['times_narrower']:.1f}"] if known else ["–", "–"]
        lines.append("| " + " | ".join(entries) + " |\n")
    return "".join(lines)


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
    """Insert tables and figures of the studies in `results` into `page`; return their names."""
    names = [match[2] for match in _MARK.finditer(page.read_text(encoding="utf-8"))]
    folders = [results / name for name in names if (results / name / "settings.json").exists()]
    filled = insert_tables(page, {folder.name: study_table(folder) for folder in folders})
    images = page.parent / "images"
    images.mkdir(exist_ok=True)
    for name in filled:
        for figure in ("a", "b", "c"):
            source = results / name / f"figure_{figure}.png"
            shutil.copyfile(source, images / f"reproduction_{name}_{figure}.png")
    return filled


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit status."""
    parser = argparse.ArgumentParser(description="Insert results into the page of documentation.")
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--page", type=Path, default=Path("docs/reproduction.md"))
    options = parser.parse_args(argv)
    print("inserted:", ", ".join(fill_page(options.page, options.results)) or "nothing")
    return 0


def _interval(row: dict[str, Any]) -> str:
    return f"[{row['lower']:.3g}, {row['upper']:.3g}]"


def _misses(row: dict[str, Any]) -> str:
    return f"{row['misses_lower']} / {row['misses_upper']}"


if __name__ == "__main__":
    sys.exit(main())
