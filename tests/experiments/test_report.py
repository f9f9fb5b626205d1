from __future__ import annotations

from pathlib import Path

from ove_sb3.experiments import figures, tables
from ove_sb3.experiments.report import fill_page, main

from .small import known_result

PAGE = """# Page
<!-- table known -->
old
<!-- end -->
between
<!-- table absent -->
kept
<!-- end -->
"""


def test_a_page_is_filled_from_the_files(tmp_path: Path) -> None:
    page, results = tmp_path / "page.md", tmp_path / "results"
    page.write_text(PAGE)
    tables.save(known_result(), results / "known")
    figures.save(known_result(), results / "known")
    assert fill_page(page, results) == ["known"]
    text = page.read_text()
    assert "True variance 2 (exact), mean 1; 4 trials, each bound at δ = 0.05." in text
    assert "| 100 | [0, 10] | 0 / 0 | [1.65, 2.88] | 2 / 1 | [1, 3] | 0 / 0 | 1/5.0 |" in text
    assert "old" not in text
    assert "between" in text
    assert "kept" in text
    assert (tmp_path / "images" / "reproduction_known_a.png").stat().st_size > 10_000
    # A second run changes nothing.
    assert main(["--results", str(results), "--page", str(page)]) == 0
    assert page.read_text() == text
