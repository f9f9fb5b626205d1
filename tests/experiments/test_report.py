from __future__ import annotations

import dataclasses
from pathlib import Path

from ove_sb3.experiments import figures, tables
from ove_sb3.experiments.report import fill_page, main, widths_table
from ove_sb3.experiments.settings import STUDIES

from .small import known_result

PAGE = """# Page
<!-- table known -->
old
<!-- end -->
between
<!-- table known_known -->
<!-- end -->
<!-- table known_risk -->
<!-- end -->
<!-- table absent -->
kept
<!-- end -->
"""


def test_a_page_is_filled_from_the_files(tmp_path: Path) -> None:
    page, results = tmp_path / "page.md", tmp_path / "results"
    page.write_text(PAGE)
    tables.save(dataclasses.replace(known_result(), day="2026-01-02"), results / "known")
    figures.save(known_result(), results / "known")
    assert fill_page(page, results) == ["known", "known_known", "known_risk"]
    text = page.read_text()
    assert "True variance 2 (exact), mean 1; 4 trials, each bound at δ = 0.05." in text
    assert "| 100 | [0, 10] | 0 / 0 | [1.65, 2.88] | 2 / 1 | [1, 3] | 0 / 0 | 1/5.0 |" in text
    assert "| 100 | [1.6, 2.4] | 0 / 0 | 1/12.5 | [1.8, 2.2] | 0 / 0 | 1/25.0 |" in text
    assert "| n | 5% quantile | median | 95% quantile | CVaR 10% |" in text
    assert "| truth | 2 | 2 | 2 | 2 |\n| 100 | [1, 3], 0 / 0 | [1, 3], 0 / 0 |" in text
    assert text.count("Measured on 2026-01-02, ") == 3
    assert "old" not in text
    assert "between" in text
    assert "kept" in text
    assert (tmp_path / "images" / "reproduction_known_a.png").stat().st_size > 10_000
    # A second run changes nothing.
    assert main(["--results", str(results), "--page", str(page)]) == 0
    assert page.read_text() == text


def test_widths_of_all_studies_are_summarized(tmp_path: Path) -> None:
    for name in list(STUDIES)[:-1]:
        tables.save(known_result(), tmp_path / name)
    assert widths_table(tmp_path) == ""  # one is missing
    tables.save(known_result(), tmp_path / list(STUDIES)[-1])
    text = widths_table(tmp_path)
    assert text.startswith("| n | 100 |\n| --- | ---: |\n| gridworld | 1/5.0 |\n")
    assert "| recommender, ratio <= 2 known | 1/10.0 |\n" in text
    assert "\n\nMeasured on 20" in text
