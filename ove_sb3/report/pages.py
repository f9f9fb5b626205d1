"""The HTML reports: question, answer, numbers, pictures, assumptions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ove_sb3._escape import escape

from . import html
from .charts import distribution_svg, intervals_chart, locations_svg, weights_chart
from .numbers import count, label, number, percent
from .sentences import Answer, comparison_answer, evaluation_answer, tail_sentence
from .shapes import (
    Bar,
    IntervalChart,
    distribution_chart,
    location_results,
    quantity_chart,
    return_extent,
)
from .views import ComparisonView, EvaluationView, VerdictView

_KEY = (
    '<span class="key candidate">solid: candidate</span>, '
    '<span class="key behavior">dashed: behavior</span>'
)


def evaluation_page(result: EvaluationView, verdicts: Sequence[VerdictView] = ()) -> str:
    """The report of an evaluation."""
    where = f" in {result.env_id}" if result.env_id else ""
    question = f"What return would {result.candidate} get{where}, and how much would it vary?"
    return html.page(
        question,
        [
            _opening(question, result.headline, evaluation_answer(result, verdicts)),
            html.heading("Distribution of the return"),
            html.table(result.table),
            html.paragraph(_remark(result), faint=True),
            html.paragraph(tail) if verdicts and (tail := tail_sentence(result)) else "",
            _titled("Warnings", _sentences(result.warnings), "warnings"),
            _titled("Advice", result.advice),
            html.heading("Pictures"),
            _evaluation_charts(result),
            html.heading("How informative the log is"),
            _diagnostics(result),
            html.heading("Assumptions"),
            _assumptions(result),
            _provenance(result),
        ],
    )


def comparison_page(comparison: ComparisonView) -> str:
    """The report of a comparison."""
    first = next(iter(comparison.evaluations.values()))
    warnings = [
        f"{name}: {text}"
        for name, result in comparison.evaluations.items()
        for text in result.warnings
    ]
    return html.page(
        comparison.question,
        [
            _opening(comparison.question, comparison.headline, comparison_answer(comparison)),
            html.heading("Candidates"),
            html.table(comparison.table),
            html.paragraph(_comparison_remark(comparison), faint=True),
            _titled("Warnings", warnings, "warnings"),
            html.heading("Pictures"),
            _comparison_charts(comparison),
            html.heading("Assumptions"),
            _assumptions(first),
            _provenance(first),
        ],
    )


def _opening(question: str, headline: str, answer: Answer) -> str:
    return (
        f'<h1>{escape(question)}</h1>\n<p class="faint">{escape(headline)}</p>\n'
        f'<div class="verdict {answer.tone}"><strong>{escape(answer.title)}</strong>'
        f"{html.bullets(answer.details)}</div>"
    )


def _titled(title: str, items: Sequence[str], kind: str = "") -> str:
    return html.heading(title) + html.bullets(items, kind) if items else ""


def _sentences(texts: Sequence[str]) -> list[str]:
    return [text[0].upper() + text[1:] for text in texts]


def _remark(result: EvaluationView) -> str:
    if _label(result) == "contradictory":
        return "The intervals do not hold: bounds contradict each other."
    about = "" if _label(result) == "guaranteed" else "about "
    if result.joint_delta is None:
        return f"Each interval by itself holds with {about}the probability above it."
    together = f"{about or 'at least '}{percent(result.joint_delta)}"
    return f"The intervals of all quantities hold together with probability {together}."


def _comparison_remark(comparison: ComparisonView) -> str:
    if all(_label(result) == "guaranteed" for result in comparison.evaluations.values()):
        return (
            "All guaranteed bounds of this table hold together with probability at least "
            f"{percent(comparison.delta)}, so choosing by them is sound."
        )
    return "Not all bounds of this table are guaranteed, so choosing by them is not sound."


def _label(result: EvaluationView) -> str:
    return label(*(one.interval for one in result.quantities.values()))


def _evaluation_charts(result: EvaluationView) -> str:
    wide, charts = [], []
    stats, located = result.stats, location_results(result)
    if stats is not None:
        chart = distribution_chart(result, stats)
        band = f" Shaded: {chart.band_label}, for all returns together." if chart.band else ""
        marks = " Marks: quantiles and their intervals." if chart.marks else ""
        caption = f"Share of episodes at or below a {result.subject}. {_KEY}.{band}{marks}"
        wide.append((distribution_svg(chart, result.subject), caption))
    if located:
        rows = [(one.quantity.label, quantity_chart(one)) for one in located]
        svg = locations_svg(rows, return_extent(result), result.subject)
        names = ", ".join(one.quantity.label for one in located)
        bars = [bar.label for bar in rows[0][1].bars]
        caption = f"{_sentences([names])[0]}: {' and '.join(bars)} intervals, estimates. {_KEY}"
        wide.append((svg, caption))
    for one in result.quantities.values():
        if not one.quantity.is_location:
            caption = f"{_sentences([one.quantity.label])[0]}: intervals and estimate. {_KEY}"
            charts.append((intervals_chart(quantity_chart(one)), caption))
    if stats is not None:
        caption = "Concentration of the weight; dotted: all weights equal"
        charts.append((weights_chart(stats), caption))
    return html.figures(charts, wide)


def _comparison_charts(comparison: ComparisonView) -> str:
    evaluations = comparison.evaluations
    first = next(iter(evaluations.values()))
    charts = []
    for key, logged in first.quantities.items():
        bars = tuple(
            Bar(
                name,
                result.quantities[key].interval.lower,
                result.quantities[key].interval.upper,
                result.quantities[key].estimate,
                "main",
            )
            for name, result in evaluations.items()
        )
        name = logged.quantity.label
        word = label(*(result.quantities[key].interval for result in evaluations.values()))
        chart = IntervalChart(f"{name} of the return", bars, logged.behavior)
        caption = f"{_sentences([name])[0]}: {word} intervals. {_KEY}"
        charts.append((intervals_chart(chart), caption))
    return html.figures(charts)


def _diagnostics(result: EvaluationView) -> str:
    d = result.diagnostics
    if math.isnan(d.mean_weight):
        return html.paragraph(d.verdict)
    rows = [
        (
            "effective sample size",
            f"{count(d.effective_sample_size)} of {d.n_trajectories} episodes",
        ),
        ("95% of the weight is on", f"{d.n_for_95_percent} episodes"),
        ("mean weight (should be 1)", f"{d.mean_weight:.4g} ± {d.mean_weight_error:.2g}"),
        ("largest weight, largest ratio of a step", f"{d.max_weight:.4g}, {d.max_ratio:.4g}"),
        (
            "Pareto k of the weights",
            "unknown" if math.isnan(d.pareto_k) else f"{d.pareto_k:.2f}",
        ),
        ("actions the candidate never takes", f"{100 * d.zero_ratio_fraction:.2g}% of steps"),
    ]
    return html.paragraph(d.verdict) + html.facts(rows)


def _assumptions(result: EvaluationView) -> str:
    parts = []
    least = min(result.quantities.values(), key=lambda one: one.interval.guaranteed)
    for interval in least.intervals:
        word = label(interval).capitalize()
        if interval.guaranteed:
            text = (
                f"{word} ({interval.method}): at this number of episodes, "
                f"an interval misses with probability at most {number(interval.delta)}, provided "
                "that"
            )
        else:
            text = f"{word} ({interval.method}), assuming that"
        stated = [a for a in interval.assumptions if a not in interval.reasons]
        parts.append(html.paragraph(text) + html.bullets(stated))
        if interval.reasons:
            parts.append(html.paragraph("Not guaranteed because") + html.bullets(interval.reasons))
    return "".join(parts)


def _provenance(result: EvaluationView) -> str:
    values = result.settings()
    versions = values.pop("versions")
    settings = ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)
    estimators = ", ".join(
        f"{result.quantities[name].quantity.label} {result.quantities[name].estimator}"
        for name in result.quantities
    )
    libraries = ", ".join(f"{name} {version}" for name, version in versions.items())
    text = f"Settings: {settings}. Estimators: {estimators}. Versions: {libraries}."
    return html.heading("Settings and versions") + html.paragraph(text, faint=True)
