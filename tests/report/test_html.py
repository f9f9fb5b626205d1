"""The page is well-formed, complete, correctly labeled, and needs no other file."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3._escape import visible
from ove_sb3._files import write_text
from ove_sb3.report.numbers import bounds, number
from ove_sb3.report.pages import comparison_page, evaluation_page

from .conftest import ODD, log

BIDIRECTIONAL = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
VOID = {"meta", "br"}


class Reader(HTMLParser):
    """Checks that tags match, and collects text and attributes."""

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
    assert not re.search(r"\b(nan|inf|None)\b", " ".join(reader.words))
    for name, value in reader.attributes:
        assert not re.search(r"\b(nan|inf)\b", value or ""), (name, value)
    return reader


def text_of(page: str) -> str:
    return " ".join(read(page).words)


def test_the_page_is_complete(result: ove.Evaluation) -> None:
    text = text_of(evaluation_page(result))
    assert "What return would near get in Steps-v0, and how much would it vary?" in text
    assert result.headline in text
    for one in result.quantities.values():
        assert number(one.estimate) in text
        assert number(one.behavior) in text
        for interval in one.intervals:
            assert bounds(interval) in text
        name = one.quantity.label
        assert (f" {name} " if one.quantity.is_location else f"{name} of the return") in text
    assert len(result["mean"].intervals) == 2
    for assumption in result["variance"].interval.assumptions:
        assert text.count(f"{assumption[0].upper()}{assumption[1:]} ") == 1
    for advice in result.advice:
        assert advice in text
    assert f"seed {result.plan.seed}" in text
    assert "Estimators: mean crossfit, variance crossfit" in text
    assert f"ove-sb3 {ove.__version__}" in text
    assert "95% guaranteed band, for all returns together" in text
    for heading in (
        "What to do next",
        "Distribution of the return",
        "What the numbers mean",
        "Concentration of the weight",
        "How informative the log is",
        "Assumptions",
        "Glossary",
        "Settings and versions",
    ):
        assert heading in text
    assert "Each interval holds individually with the probability in its column heading." in text


def test_warnings_are_shown(comparison: ove.Comparison, no_support: ove.Evaluation) -> None:
    text = text_of(comparison_page(comparison))
    assert comparison["far"].warnings
    for warning in comparison["far"].warnings:
        assert warning in text
    text = text_of(evaluation_page(no_support))
    assert "says too little about the candidate" in text
    assert "No logged trajectory is possible under the candidate." in text


def test_requirements_are_decided_by_the_guaranteed_bounds(result: ove.Evaluation) -> None:
    assert result.stats is not None
    upper = ove.variance_interval(result.stats, reward_range=(-1, 2), side="upper").upper
    lower = ove.mean_interval(result.stats, reward_range=(-1, 2), side="lower").lower
    verdicts = result.check_all(f"variance <= {upper!r}", f"mean >= {lower!r}")
    yes = text_of(evaluation_page(result, verdicts))
    assert "All requirements are proven with 95% confidence." in yes
    assert "undecided" not in yes.lower()
    between = (result.variance + upper) / 2  # the estimate is fine, the bound is not
    verdicts = result.check_all(f"variance <= {between!r}", f"mean >= {lower!r}")
    undecided = text_of(evaluation_page(result, verdicts))
    assert "Not all requirements are proven." in undecided
    assert "Undecided does not mean violated" in undecided
    assert verdicts[0].episodes_needed is not None
    for verdict, status in zip(verdicts, ("undecided", "proven"), strict=True):
        assert f"{verdict.requirement}: {status}. {verdict.reason}" in undecided
        assert str(verdict) in undecided
    assert f"About {verdicts[0].episodes_needed} episodes would prove it." in undecided
    refuted = text_of(evaluation_page(result, result.check_all("variance <= 1", "mean >= -6")))
    assert "Not all requirements are met." in refuted
    assert "variance <= 1: refuted. The 97.5% lower bound is" in refuted
    assert "mean >= -6: proven." in refuted


def test_a_result_whose_bounds_contradict_each_other(contradictory: ove.Evaluation) -> None:
    interval = contradictory["variance"].interval
    assert interval.lower > interval.upper
    assert not interval.consistent
    assert contradictory["mean"].interval.guaranteed
    text = text_of(evaluation_page(contradictory))
    assert "The bounds contradict each other: an assumption or the log is wrong." in text
    assert f"Variance: {bounds(interval)}, contradictory." in text
    assert "The bounds of the variance contradict each other: the lower bound exceeds" in text
    assert "Contradictory (betting): an assumption or the log is wrong." in text
    assert "Not guaranteed because" in text
    assert "The intervals do not hold: bounds contradict each other." in text
    assert "95% betting, contradictory" in text
    assert "95% guaranteed" not in text
    printed = str(contradictory)
    assert "95% betting, contradictory" in printed
    assert bounds(interval) in printed
    assert "warning: the bounds of the variance contradict each other" in printed
    assert printed.count("contradict each other") == 1  # not again for the square root
    verdicts = contradictory.check_all("variance <= 100", "mean >= -6")
    assert [verdict.status for verdict in verdicts] == ["undecided", "proven"]
    assert verdicts[0].reason.startswith(f"The lower bound, {number(interval.lower)}, exceeds")
    text = text_of(evaluation_page(contradictory, verdicts))
    assert "Not all requirements are proven." in text
    assert str(verdicts[0]) in text


def test_a_contradictory_result_among_others_is_visible(
    comparison: ove.Comparison, contradictory: ove.Evaluation
) -> None:
    *others, last = comparison.evaluations
    broken = replace(comparison, evaluations={**comparison.evaluations, last: contradictory})
    text = text_of(comparison_page(broken))
    assert others
    assert "Mean: guaranteed intervals" in text
    assert "Variance: contradictory intervals" in text
    assert "hold simultaneously with probability" not in text
    assert "Not all bounds of this table are guaranteed" in text
    assert f"{last}: the bounds of the variance contradict each other" in text


def test_a_result_without_weights(no_weights: ove.Evaluation) -> None:
    text = text_of(evaluation_page(no_weights))
    assert "The log says too little about the candidate to bound its return." in text
    assert "An importance weight is too large to compute." in text
    assert "The importance weights could not be computed." in text
    assert "mean weight (should be 1)" not in text
    assert "Concentration of the weight" not in text
    for one in no_weights.quantities.values():
        assert bounds(one.interval) in text
        assert one.interval.guaranteed
        assert one.interval.lower == one.interval.a_priori[0]
    printed = str(no_weights)
    assert "effective sample size unknown" in printed
    assert "nan" not in printed
    assert "warning: an importance weight is too large to compute." in printed
    (row,) = [line for line in printed.splitlines() if line.startswith("mean")]
    assert row.split()[1] == "-"
    plain = json.loads(json.dumps(no_weights.to_dict(), allow_nan=False))
    assert plain["quantities"]["mean"]["estimate"] is None
    verdicts = no_weights.check_all("mean >= -100", "variance <= 1e9")
    assert [verdict.status for verdict in verdicts] == ["undecided", "undecided"]
    assert all(verdict.episodes_needed is None for verdict in verdicts)
    text = text_of(evaluation_page(no_weights, verdicts))
    assert "mean >= -100: undecided. The log gives no bounds for this candidate" in text


def test_approximate_intervals_are_called_so(result: ove.Evaluation) -> None:
    data, candidates = log(100)
    for simultaneous in (False, True):
        shown = ove.evaluate(
            data,
            candidates["near"],
            gamma=0.95,
            method="normal",
            approximate=None,
            quantities=["mean", "variance", "std"],
            simultaneous=simultaneous,
        )
        text = text_of(evaluation_page(shown))
        assert "95% normal, approximate" in text or "97.5% normal, approximate" in text
        assert "guaranteed" not in text.replace("Not guaranteed because", "")
        assert "at least 95%" not in text
        assert "Approximate (normal): an interval misses with probability about" in text
        assert "The method is an approximation for large n (normal)." in text


def test_names_are_escaped(comparison: ove.Comparison) -> None:
    page = comparison_page(comparison)
    assert "<b>" not in page
    assert ODD in text_of(page)
    assert ODD in text_of(evaluation_page(comparison[ODD]))


@pytest.mark.parametrize("bad", [*BIDIRECTIONAL, "\x1b", "\x00"])
def test_control_characters_are_shown_by_their_number(bad: str) -> None:
    """A name cannot reverse the text after it: not in the page, nor in a terminal."""
    name = f"safe{bad}efas"
    data = ove.Trajectories.from_arrays(
        observations=np.zeros((20, 1)),
        actions=np.zeros(20, int),
        log_probs=np.zeros(20),
        rewards=np.linspace(0, 1, 20),
        lengths=np.ones(20, int),
        metadata=ove.Metadata(env_id=name, behavior=name),
    )
    options: Any = {"gamma": 1.0, "reward_range": (0, 1), "horizon": 1, "approximate": None}
    comparison = ove.compare(data, {name: data.log_probs, "other": data.log_probs}, **options)
    for page in (comparison_page(comparison), evaluation_page(comparison[name])):
        assert bad not in page
        assert f"safe\\u{ord(bad):04x}efas" in page
    assert bad not in visible(str(comparison))


def test_comparison_page(comparison: ove.Comparison) -> None:
    text = text_of(comparison_page(comparison))
    at = [text.index(f" {name} ") for name in comparison.evaluations]
    assert at == sorted(at)
    for name in comparison.evaluations:
        for one in comparison[name].quantities.values():
            assert bounds(one.interval) in text
            assert number(one.estimate) in text
    assert comparison.question in text
    assert comparison.answer in text
    for finding in comparison.findings:
        assert finding in text
    assert "hold simultaneously with probability at least 95%" in text
    for title in ("Mean", "Variance", "Standard deviation"):
        assert f"{title}: guaranteed intervals" in text


def test_labels_of_charts_are_not_cut_off(
    result: ove.Evaluation, comparison: ove.Comparison
) -> None:
    long = {"x" * 60: comparison["far"], **comparison.evaluations}
    for page in (
        evaluation_page(result),
        comparison_page(comparison),
        comparison_page(replace(comparison, evaluations=long)),
    ):
        pattern = r'<text class="(\w+)" x="([\d.]+)" [^>]*"end">([^<]*)</text>'
        labels = re.findall(pattern, page)
        assert labels
        for kind, end, label in labels:
            assert float(end) - 7.0 * len(unescape(label)) >= 0.0, label
            if kind == "tick":
                assert float(end) < 180  # half of the width is left for the bars


def test_files_are_written_atomically(
    result: ove.Evaluation,
    comparison: ove.Comparison,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result.save_html(tmp_path / "one.html", "variance <= 3", "mean >= 0")
    comparison.save_html(tmp_path / "all.html")
    assert "variance <= 3: refuted." in text_of((tmp_path / "one.html").read_text())
    assert read((tmp_path / "all.html").read_text())

    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_text(tmp_path / "one.html", "half a page")
    assert "Steps-v0" in (tmp_path / "one.html").read_text()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["all.html", "one.html"]
    for bad in (tmp_path / "nowhere" / "page.html", tmp_path):
        with pytest.raises(ove.InvalidInputError, match="file in an existing directory"):
            result.save_html(bad)
