"""Information that readers need: origin, meanings, hovering, legends, assumptions, next steps."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timezone
from html import unescape
from pathlib import Path

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core.stated import NOT_CHECKED, Assumption, how_checked
from ove_sb3.policies.dispatch import as_policy
from ove_sb3.report.about import About
from ove_sb3.report.meanings import quantity_sentence
from ove_sb3.report.numbers import bounds, number
from ove_sb3.report.pages import comparison_page, evaluation_page
from ove_sb3.report.shapes import distribution_chart
from tests.problems.three_states import UNIFORM, simulate, small_ppo

from .conftest import ODD, log
from .test_html import text_of

HOVER = re.compile(r"<title>([^<]*)</title>")


def hovers(page: str) -> list[str]:
    return [unescape(text) for text in HOVER.findall(page.partition("<body>")[2])]


def test_the_origin_of_log_and_candidate_is_shown(tmp_path: Path) -> None:
    simulate(UNIFORM, 300, np.random.default_rng(0)).save(tmp_path / "log")
    model = small_ppo()
    model.save(tmp_path / "model.zip")
    result = ove.evaluate(
        tmp_path / "log",
        tmp_path / "model.zip",
        model_class=type(model),
        gamma=0.9,
        reward_range=(-1, 1),
        approximate=None,
        quantities=["mean", "variance"],
    )
    assert result.origin.fingerprint is not None
    assert result.origin.fingerprint == as_policy(model).fingerprint()
    result.save_html(tmp_path / "page.html", author="A <i>B</i>", purpose="Q\u202e3 & more")
    text = text_of((tmp_path / "page.html").read_text())
    assert f"{tmp_path / 'log'}: 300 episodes, {result.n_steps} steps" in text
    assert str(tmp_path / "model.zip") in text
    assert result.origin.fingerprint in text
    assert "A <i>B</i>" in text  # as text, not as a tag
    assert "<i>" not in (tmp_path / "page.html").read_text()
    assert "Q\\u202e3 & more" in text
    assert re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d UTC", text)
    assert result.origin.to_dict()["log"] == str(tmp_path / "log")


def test_another_candidate_has_another_fingerprint(comparison: ove.Comparison) -> None:
    found = [result.origin.fingerprint for result in comparison.evaluations.values()]
    assert None not in found
    assert len(set(found)) == len(found)
    text = text_of(comparison_page(comparison))
    for fingerprint in found:
        assert f"fingerprint {fingerprint}" in text


def test_the_date_is_that_of_writing(result: ove.Evaluation) -> None:
    written = datetime(2031, 2, 3, 4, 5, tzinfo=timezone.utc)
    text = text_of(evaluation_page(result, (), About(written=written)))
    assert "2031-02-03 04:05 UTC" in text
    assert "author" not in text
    for bad in (3, b"x"):
        with pytest.raises(ove.InvalidInputError, match="`author` must be a string or None"):
            About(author=bad)  # type: ignore[arg-type]


def test_every_number_has_a_sentence(
    result: ove.Evaluation, no_weights: ove.Evaluation, contradictory: ove.Evaluation
) -> None:
    text = text_of(evaluation_page(result))
    for one in result.quantities.values():
        sentence = quantity_sentence(one)
        assert sentence in text
        assert one.quantity.definition in sentence
        lower, upper = bounds(one.interval)[1:-1].split(", ")
        low, high = one.interval.a_priori
        if low < one.interval.lower and one.interval.upper < high:
            assert f"between {lower} and {upper}." in sentence
        assert f"The estimate is {number(one.estimate)}; " in sentence
        assert sentence.startswith("With 95% confidence, ")
    unknown = quantity_sentence(no_weights["mean"])
    assert "average over many episodes are no tighter than the stated ranges" in unknown
    assert "The log supports no estimate" in unknown
    assert "contradict each other" in quantity_sentence(contradictory["variance"])
    for interval, words in (
        (replace(result["mean"].interval, upper=result["mean"].interval.a_priori[1]), "at least"),
        (replace(result["mean"].interval, lower=result["mean"].interval.a_priori[0]), "at most"),
        (replace(result["mean"].interval, guaranteed=False), "With about 95% confidence, not"),
    ):
        assert words in quantity_sentence(replace(result["mean"], interval=interval))


def test_values_on_hover_are_those_of_the_result(result: ove.Evaluation) -> None:
    shown = hovers(evaluation_page(result))
    for one in result.quantities.values():
        label = one.quantity.label if one.quantity.is_location else "guaranteed"
        assert any(
            text.startswith(label)
            and f"{bounds(one.interval)}, estimate {number(one.estimate)}" in text
            for text in shown
        ), label
    stats = result.stats
    assert stats is not None
    points = [
        (float(found[1]), float(found[2]), float(found[3]), float(found[4]), float(found[5]))
        for text in shown
        if (
            found := re.fullmatch(
                r"return at most (\S+): candidate (\S+)%, band \[(\S+), (\S+)\]%, behavior (\S+)%",
                text,
            )
        )
    ]
    assert len(points) == 60 + 30  # wide and narrow
    band = result.band
    assert band is not None
    for x, candidate, lower, upper, behavior in points:
        near = stats.returns <= x
        close = np.abs(stats.returns - x) < 1e-3 * max(1.0, abs(x))
        if close.any():
            continue  # the rounded number may lie on the other side of a return
        assert candidate == pytest.approx(
            100 * stats.weights[near].sum() / stats.weights.sum(), abs=1.0
        )
        assert behavior == pytest.approx(100 * near.mean(), abs=0.5)
        below, above = band.at(x)
        assert lower <= 100 * float(below) + 1e-6
        assert upper >= 100 * float(above) - 1e-6


def test_a_legend_says_where_lines_coincide(result: ove.Evaluation) -> None:
    assert "coincide" not in text_of(evaluation_page(result))
    data, _ = log(100)
    same = ove.evaluate(data, data.log_probs, gamma=0.95, approximate=None)
    assert "behavior, as logged (the two lines coincide)" in text_of(evaluation_page(same))
    (axes, *_) = same.plot().axes
    legend = axes.get_legend()
    assert legend is not None
    named = [text.get_text() for text in legend.get_texts()]
    assert "behavior, as logged (the two lines coincide)" in named
    page = evaluation_page(same)
    assert page.index('class="function candidate" d="M1') < page.index(
        'class="function behavior" d="M1'
    )


def test_every_assumption_is_shown_once_with_how_it_was_checked(result: ove.Evaluation) -> None:
    text = text_of(evaluation_page(result))
    assumptions = result["variance"].interval.assumptions
    assert len(assumptions) == 6
    for assumption in assumptions:
        assert isinstance(assumption, Assumption)
        sentence = f"{assumption[0].upper()}{assumption[1:]}"
        assert text.count(sentence) == 1
        assert f"{sentence} {assumption.checked}" in text
    unchecked = [text for text in assumptions if how_checked(text) == NOT_CHECKED]
    assert unchecked == ["the number of trajectories was fixed in advance"]
    assert how_checked("a user's own method assumes this") == NOT_CHECKED


def test_reasons_name_the_candidate_they_are_about(comparison: ove.Comparison) -> None:
    name = "far"
    interval = comparison[name]["variance"].interval
    doubtful = replace(
        interval,
        guaranteed=False,
        reasons=("the moon was full",),
        assumptions=(*interval.assumptions, "the moon was full"),
    )
    quantities = {
        key: replace(one, interval=doubtful) if key == "variance" else one
        for key, one in comparison[name].quantities.items()
    }
    changed = replace(
        comparison,
        evaluations={
            **comparison.evaluations,
            name: replace(comparison[name], quantities=quantities),
        },
    )
    text = text_of(comparison_page(changed))
    assert "The moon was full (far, betting)." in text
    assert "choosing by them is not sound" in text


def test_no_winner_without_proof(comparison: ove.Comparison) -> None:
    assert comparison.best is None
    verdicts = {name: result.check_all("variance <= 9") for name, result in evaluations(comparison)}
    text = text_of(comparison_page(comparison, verdicts))
    assert "No candidate is proven best" in text
    assert "than all others" not in text
    assert "an order alone proves nothing" in text
    for name, decided in verdicts.items():
        assert f"{name}: {decided[0]}" in text
    near = comparison["near"]
    interval = near["variance"].interval
    apart = replace(near["variance"], interval=replace(interval, lower=98.0, upper=99.0))
    other = replace(near, quantities={**near.quantities, "variance": apart})
    proven = replace(comparison, evaluations={"near": near, ODD: other})
    assert proven.best == "near"
    assert "near has a smaller variance than all others" in text_of(comparison_page(proven))


def evaluations(comparison: ove.Comparison) -> list[tuple[str, ove.Evaluation]]:
    return list(comparison.evaluations.items())


def test_next_steps_follow_from_the_verdicts(result: ove.Evaluation) -> None:
    estimate = result["variance"].estimate
    for limit, words in (
        (1e3, "Nothing is missing: all requirements are proven."),
        (1e-3, "More episodes will not prove a requirement that is refuted"),
        (estimate, "An undecided requirement needs narrower intervals"),
    ):
        text = text_of(evaluation_page(result, result.check_all(f"variance <= {limit}")))
        assert words in text
        for advice in result.advice:
            assert advice in text


def test_terms_are_explained_only_where_they_occur(result: ove.Evaluation) -> None:
    def terms(page: str) -> set[str]:
        glossary = page.partition("<h2>Glossary</h2>")[2].partition("</dl>")[0]
        return set(re.findall("<dt>([^<]*)</dt>", glossary))

    plain = terms(evaluation_page(result))
    assert {"candidate", "behavior", "weight", "guaranteed", "quantile", "CVaR"} <= plain
    assert not {"proven", "refuted", "undecided"} & plain
    decided = terms(evaluation_page(result, result.check_all("variance <= 1e3")))
    assert decided - plain == {"proven"}


def test_names_in_a_chart_do_not_cover_each_other() -> None:
    data, candidates = log(200)
    near = [f"quantile:{p}" for p in (0.04, 0.05, 0.06, 0.5, 0.93, 0.94, 0.95)]
    result = ove.evaluate(
        data, candidates["near"], gamma=0.95, quantities=["mean", *near], approximate=None
    )
    assert result.stats is not None
    assert len(distribution_chart(result, result.stats).marks) == 7
    page = evaluation_page(result)
    for svg in re.findall(r"<svg class=\"(?:wide|narrow)-only\".*?</svg>", page):
        width = float(re.findall(r'viewBox="0 0 (\d+)', svg)[0])
        pattern = r'<text class="note" x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)">([^<]*)<'
        boxes: list[tuple[float, float, float]] = []
        for x, y, anchor, name in re.findall(pattern, svg):
            length = 7.0 * len(unescape(name))
            begin = float(x) if anchor == "start" else float(x) - length
            assert begin >= 0.0, name
            assert begin + length <= width + 1, name
            for other, end, height in boxes:
                assert begin >= end or begin + length <= other or abs(float(y) - height) >= 12
            boxes.append((begin, begin + length, float(y)))
    assert "quantile" in "".join(re.findall(r'class="note"[^>]*>([^<]*)<', page))
