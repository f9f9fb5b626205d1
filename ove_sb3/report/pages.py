"""The HTML reports: question, answer, numbers, pictures, assumptions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ove_sb3._escape import escape

from . import html
from .about import About
from .assumed import assumptions_section
from .figures import comparison_figures, evaluation_figures
from .meanings import diagnostic_rows, glossary_rows, quantity_rows
from .numbers import label, percent
from .sentences import Answer, comparison_answer, evaluation_answer, next_steps, tail_sentence
from .views import ComparisonView, EvaluationView, VerdictView


def evaluation_page(
    result: EvaluationView, verdicts: Sequence[VerdictView] = (), about: About | None = None
) -> str:
    """The report of an evaluation."""
    where = f" in {result.env_id}" if result.env_id else ""
    got = f"What {result.subject} would {result.candidate} get{where}"
    question = f"{got}, and how much would it vary?"
    named = {result.candidate: result}
    return _page(
        question,
        [
            _opening(question, result.headline, evaluation_answer(result, verdicts)),
            html.definitions((about or About()).rows(named), "about"),
            _titled("Warnings", _sentences(result.warnings), "warnings"),
            html.heading("Estimates and intervals"),
            html.table(result.table),
            html.paragraph(_remark(result), faint=True),
            html.paragraph(tail) if verdicts and (tail := tail_sentence(result)) else "",
            evaluation_figures(result),
            html.heading("What the numbers mean"),
            html.definitions(quantity_rows(result)),
            _titled("What to do next", next_steps(result.advice, verdicts)),
            html.heading("How informative the log is"),
            _diagnostics(result),
            html.heading("Assumptions"),
            assumptions_section(named),
        ],
        [_provenance(result)],
    )


def comparison_page(
    comparison: ComparisonView,
    verdicts: Mapping[str, Sequence[VerdictView]] | None = None,
    about: About | None = None,
) -> str:
    """The report of a comparison."""
    evaluations = comparison.evaluations
    first = next(iter(evaluations.values()))
    warnings = [
        f"{name}: {text}" for name, result in evaluations.items() for text in result.warnings
    ]
    meanings = "".join(
        html.subheading(name) + html.definitions(quantity_rows(result))
        for name, result in evaluations.items()
    )
    decided = [f"{name}: {verdict}" for name, own in (verdicts or {}).items() for verdict in own]
    return _page(
        comparison.question,
        [
            _opening(comparison.question, comparison.headline, comparison_answer(comparison)),
            html.definitions((about or About()).rows(evaluations), "about"),
            _titled("Requirements", decided),
            _titled("Warnings", warnings, "warnings"),
            html.heading("Candidates"),
            html.table(comparison.table),
            html.paragraph(_comparison_remark(comparison), faint=True),
            comparison_figures(comparison),
            html.heading("What the numbers mean"),
            meanings,
            _next_steps(comparison),
            html.heading("Assumptions"),
            assumptions_section(evaluations),
        ],
        [_provenance(first)],
    )


def _page(title: str, parts: Sequence[str], last: Sequence[str]) -> str:
    """A page with a glossary of the terms that occur in `parts`."""
    glossary = html.definitions(glossary_rows(" ".join(parts)), "long")
    return html.page(title, [*parts, html.heading("Glossary"), glossary, *last])


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


def _next_steps(comparison: ComparisonView) -> str:
    """Advice by candidate."""
    parts = [
        html.subheading(name) + html.bullets(result.advice)
        for name, result in comparison.evaluations.items()
        if result.advice
    ]
    return "".join([html.heading("What to do next"), *parts]) if parts else ""


def _remark(result: EvaluationView) -> str:
    if _label(result) == "contradictory":
        return "The intervals do not hold: bounds contradict each other."
    about = "" if _label(result) == "guaranteed" else "about "
    if result.joint_delta is None:
        probability = f"{about}the probability in its column heading"
        return f"Each interval holds individually with {probability}."
    together = f"{about or 'at least '}{percent(result.joint_delta)}"
    return f"The intervals of all quantities hold simultaneously with probability {together}."


def _comparison_remark(comparison: ComparisonView) -> str:
    order = "Candidates are in the order of their bounds; an order alone proves nothing."
    if all(_label(result) == "guaranteed" for result in comparison.evaluations.values()):
        return (
            "All guaranteed bounds of this table hold simultaneously with probability at least "
            f"{percent(comparison.delta)}, so choosing by them is sound. {order}"
        )
    return f"Not all bounds of this table are guaranteed, so choosing by them is not sound. {order}"


def _label(result: EvaluationView) -> str:
    return label(*(one.interval for one in result.quantities.values()))


def _diagnostics(result: EvaluationView) -> str:
    d = result.diagnostics
    known = not math.isnan(d.mean_weight)
    return html.paragraph(d.verdict) + (html.definitions(diagnostic_rows(d)) if known else "")


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
