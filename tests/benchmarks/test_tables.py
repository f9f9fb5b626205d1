"""Tables of the benchmarks on the terminal and in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import tables
from benchmarks.peers.protocol import QUANTITIES
from ove_sb3.experiments.settings import STUDIES

BENCHMARKS = Path(tables.__file__).parent
PAGE = """Before.

<!-- table mine -->
old
<!-- end -->

<!-- table other -->
kept
<!-- end -->
"""


@pytest.fixture(autouse=True)
def nothing_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_named", {})


def test_a_table_with_a_name_replaces_that_of_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    tables.print_table("Widths", ["problem", "n"], [["grid", 1000], ["chain", 0.12345]], "mine")
    tables.print_table("Unnamed", ["a"], [["b"]])
    assert tables.insert_into(tmp_path) == ["mine"]
    text = page.read_text()
    assert "| problem | n |\n| --- | ---: |\n| grid | 1000 |\n| chain | 0.123 |\n" in text
    assert f"Measured on {tables.stamp()}." in text
    assert "old" not in text
    assert "kept" in text
    printed = capsys.readouterr().out
    assert "problem      n\n" in printed
    assert "Unnamed" in printed


def test_markdown_aligns_numbers_to_the_right() -> None:
    assert tables.markdown(["a", "b", "c"], [["x", "y", "1"]], 2) == (
        "| a | b | c |\n| --- | --- | ---: |\n| x | y | 1 |\n"
    )


def test_every_table_of_the_documentation_has_a_command_that_prints_it() -> None:
    marked = {
        name
        for page in tables.DOCS.glob("*.md")
        for name in re.findall(r"<!-- table (\w+) -->", page.read_text())
    }
    named = {
        name
        for path in BENCHMARKS.glob("*.py")
        for name in re.findall(r'name="(\w+)"', path.read_text())
    }
    pages = (BENCHMARKS / "public" / "pages.py").read_text()
    kinds = ("error", "interval", "cost")
    peers = {"stamp", *(f"{quantity}_{kind}" for quantity in QUANTITIES for kind in kinds)}
    peers |= {f"few_{name}" for name in peers}
    studies = {f"{study}{suffix}" for study in STUDIES for suffix in ("", "_known", "_risk")}
    others = marked - named - peers - studies - {"reproduction_widths"}
    assert [name for name in others if name.split("_")[0] not in ("icu", "obd", "control")] == []
    assert all(f"{prefix}_" in pages for prefix in ("icu", "obd", "control"))
