"""The page is well-formed, complete, honest and needs nothing else."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import ove_sb3 as ove
from ove_sb3._files import write_text
from ove_sb3.evaluation.text import bounds, number
from ove_sb3.report.html import comparison_page, evaluation_page

from .conftest import ODD

VOID = {"meta", "br"}


class Reader(HTMLParser):
    """Checks that tags match, and gathers text and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    names = {name for name, _ in reader.attributes}
    assert not names & {"src", "href", "srcset", "onload", "onclick"}
    assert not re.search(r"url\(|@import|<script|<link|<img|<iframe", page)
    assert "nan" not in [word.strip().lower() for word in reader.words]
    return reader


def text_of(page: str) -> str:
    return " ".join(read(page).words)


def test_the_page_says_it_all(result: ove.Evaluation) -> None:
    text = text_of(evaluation_page(result))
    assert "What return would near get in Steps-v0, and how much would it vary?" in text
    for _, value, intervals, logged in result.rows:
        assert number(value) in text
        assert number(logged) in text
        for interval in intervals.values():
            assert bounds(interval) in text
    for assumption in result.intervals["guaranteed"].assumptions:
        assert assumption in text
    assert f"Seed: {result.settings.seed}." in text
    assert f"ove-sb3 {ove.__version__}" in text
    assert "Distribution of the return" in text
    assert "Concentration of the weight" in text


def test_warnings_are_shown(comparison: ove.Comparison, blind: ove.Evaluation) -> None:
    text = text_of(comparison_page(comparison))
    assert comparison["far"].warnings
    for warning in comparison["far"].warnings:
        assert warning in text
    text = text_of(evaluation_page(blind))
    assert "says too little about the candidate" in text
    assert "No logged trajectory is possible under the candidate." in text


def test_the_verdict_follows_the_guaranteed_bounds(result: ove.Evaluation) -> None:
    upper = result.intervals["guaranteed"].upper
    lower = result.mean_intervals["guaranteed"].lower
    yes = text_of(evaluation_page(result, max_variance=upper, min_mean=lower))
    assert "Yes: the requirements are met, with 95% confidence." in yes
    assert "not proven" not in yes
    between = (result.variance + upper) / 2  # the estimate is fine, the bound is not
    no = text_of(evaluation_page(result, max_variance=between, min_mean=lower))
    assert "Not proven: the requirements are not all met." in no
    assert f"Variance at most {number(between)}: not proven" in no
    assert f"Mean at least {number(lower)}: proven" in no


def test_names_are_escaped(comparison: ove.Comparison) -> None:
    page = comparison_page(comparison)
    assert "<b>" not in page
    assert ODD in text_of(page)
    assert ODD in text_of(evaluation_page(comparison[ODD]))


def test_comparison_page(comparison: ove.Comparison) -> None:
    text = text_of(comparison_page(comparison))
    for rank, name in enumerate(comparison.evaluations, start=1):
        assert f"{rank}. {name}" in text
        assert bounds(comparison[name].intervals["guaranteed"]) in text
    assert "hold together with probability at least 95%" in text
    assert f"{comparison.best} has the best bound" in text


def test_files_are_whole_or_absent(
    result: ove.Evaluation,
    comparison: ove.Comparison,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result.save_html(tmp_path / "one.html", max_variance=3.0)
    comparison.save_html(tmp_path / "all.html")
    assert read((tmp_path / "one.html").read_text())
    assert read((tmp_path / "all.html").read_text())

    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_text(tmp_path / "one.html", "half a page")
    assert "Steps-v0" in (tmp_path / "one.html").read_text()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["all.html", "one.html"]
    for bad in (tmp_path / "nowhere" / "page.html", tmp_path):
        with pytest.raises(ove.InvalidInputError, match="directory that exists"):
            result.save_html(bad)
