"""Public problems: ICU-Sepsis, Open Bandit data, classic control.

``python -m benchmarks public [--quick] [--page docs/public.md]``
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .results import Content

PARTS = ("icu_sepsis", "open_bandit", "control")


def main(argv: Sequence[str] = ()) -> None:
    """Run the parts, print their tables and draw their figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks public", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="small settings, about a minute")
    parser.add_argument("--results", type=Path, help="folder of results and figures")
    parser.add_argument("--page", type=Path, help="page to insert tables and figures into")
    options = parser.parse_args(argv)
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"unknown part {unknown[0]!r}, choose from {', '.join(PARTS)}")
    folder = options.results or Path("results", "public_quick" if options.quick else "public")
    for part in options.parts or PARTS:
        start = time.process_time()
        content = run(part, folder / f"{part}.json", quick=options.quick)
        report(part, content, folder, options.page)
        print(f"{part}: {time.process_time() - start:.0f} s of CPU time in this run", flush=True)


def run(part: str, path: Path, *, quick: bool) -> Content:
    """Run a part, or continue it from its results."""
    from . import control, icu_sepsis, open_bandit

    modules: dict[str, Any] = {
        "icu_sepsis": icu_sepsis,
        "open_bandit": open_bandit,
        "control": control,
    }
    module = modules[part]
    start: Callable[..., Content] = module.run
    return start(module.QUICK if quick else module.Settings(), path)


def report(part: str, content: Content, folder: Path, page: Path | None) -> None:
    """Print the tables of a part, draw its figure, and insert both into the page."""
    from ove_sb3.experiments.report import insert_tables

    from .figures import save_figure
    from .pages import tables_of

    tables = tables_of(part, content)
    for name, text in tables.items():
        print(f"\n{name}\n\n{text}", flush=True)
    save_figure(part, content, folder / f"{part}.png")
    if page is not None:
        insert_tables(page, tables)
        save_figure(part, content, page.parent / "images" / f"public_{part}.png")
