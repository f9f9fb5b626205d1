"""One self-contained page: the question, the verdict, the numbers, and what they rest on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from ove_sb3.core.results import Interval
from ove_sb3.evaluation.text import bounds, count, number, percent

from .charts import Bar, intervals_chart, returns_chart, weights_chart
from .style import STYLE
from .verdict import Verdict, comparison_verdict, evaluation_verdict

if TYPE_CHECKING:
    from ove_sb3.evaluation.many import Comparison
    from ove_sb3.evaluation.result import Evaluation

# The browser itself refuses to load anything.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_KEY = (
    '<span class="key candidate">solid: candidate</span>, '
    '<span class="key behavior">dashed: behavior</span>'
)


def evaluation_page(
    result: Evaluation, *, max_variance: float | None = None, min_mean: float | None = None
) -> str:
    """The report of an evaluation."""
    where = f" in {result.env_id}" if result.env_id else ""
    question = f"What return would {result.candidate} get{where}, and how much would it vary?"
    verdict = evaluation_verdict(result, max_variance=max_variance, min_mean=min_mean)
    kinds = list(result.intervals)
    header = ["", "estimate", *(_kind(result.intervals[kind], kind) for kind in kinds), "behavior"]
    rows = [
        [name, number(value), *(bounds(intervals[kind]) for kind in kinds), number(logged)]
        for name, value, intervals, logged in result.rows
    ]
    return _page(
        question,
        [
            _opening(question, result.headline, verdict),
            "<h2>Mean and spread of the return</h2>",
            _table(header, rows),
            _remark(result),
            _warnings([text[0].upper() + text[1:] for text in result.warnings]),
            "<h2>Pictures</h2>",
            _evaluation_charts(result),
            "<h2>How far the log speaks about the candidate</h2>",
            _diagnostics(result),
            "<h2>What the intervals rest on</h2>",
            _assumptions(result),
            _provenance(result),
        ],
    )


def comparison_page(found: Comparison) -> str:
    """The report of a comparison."""
    first = found[found.best]
    question = "Which candidate has the " + (
        "smaller variance of the return?" if found.rank_by == "variance" else "larger mean return?"
    )
    header = ["", "variance", "guaranteed", "mean", "guaranteed", "effective sample size"]
    rows = [
        [
            f"{rank}. {name}",
            number(each.variance),
            bounds(each.intervals["guaranteed"]),
            number(each.mean),
            bounds(each.mean_intervals["guaranteed"]),
            count(each.diagnostics.effective_sample_size),
        ]
        for rank, (name, each) in enumerate(found.evaluations.items(), start=1)
    ]
    logged = [number(first.behavior_variance), "", number(first.behavior_mean), ""]
    rows.append(["behavior, as logged", *logged, f"{first.n_trajectories}"])
    warnings = [
        f"{name}: {text}" for name, each in found.evaluations.items() for text in each.warnings
    ]
    return _page(
        question,
        [
            _opening(question, found.headline, comparison_verdict(found)),
            "<h2>Candidates, best first</h2>",
            _table(header, rows),
            f'<p class="faint">All guaranteed bounds of this table hold together with probability '
            f"at least {percent(found.delta)}, so choosing by them is sound.</p>",
            _warnings(warnings),
            "<h2>Pictures</h2>",
            _comparison_charts(found),
            "<h2>What the intervals rest on</h2>",
            _assumptions(first),
            _provenance(first),
        ],
    )


def _page(title: str, parts: Iterable[str]) -> str:
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n"
        "</body>\n</html>\n"
    )


def _opening(question: str, headline: str, verdict: Verdict) -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in verdict.details)
    return (
        f'<h1>{escape(question)}</h1>\n<p class="faint">{escape(headline)}</p>\n'
        f'<div class="verdict {verdict.tone}"><strong>{escape(verdict.title)}</strong>'
        f"<ul>{items}</ul></div>"
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    lines = []
    for name, *cells in rows:
        tds = "".join(
            f'<td data-label="{escape(label)}">{escape(cell)}</td>'
            for label, cell in zip(header[1:], cells, strict=True)
        )
        lines.append(f'<tr><td class="name">{escape(name)}</td>{tds}</tr>')
    return (
        f'<table class="wide"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'
    )


def _kind(interval: Interval, kind: str) -> str:
    return f"{percent(interval.delta)} {kind}"


def _remark(result: Evaluation) -> str:
    if result.settings.simultaneous:
        text = (
            "The guaranteed intervals of mean and variance hold together with probability at least "
            f"{percent(result.settings.delta)}."
        )
    else:
        text = "Each interval by itself holds with the probability above it."
    if result.episodes_to_halve is not None:
        text += f" About {result.episodes_to_halve} episodes would halve the guaranteed interval."
    return f'<p class="faint">{escape(text)}</p>'


def _warnings(texts: Sequence[str]) -> str:
    if not texts:
        return ""
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f'<h2>Warnings</h2><ul class="warnings">{items}</ul>'


def _evaluation_charts(result: Evaluation) -> str:
    def bars(value: float, intervals: dict[str, Interval]) -> list[Bar]:
        return [
            Bar(kind, found.lower, found.upper, value, kind) for kind, found in intervals.items()
        ]

    mean = intervals_chart(
        "mean of the return", bars(result.mean, result.mean_intervals), result.behavior_mean
    )
    variance = intervals_chart(
        "variance of the return", bars(result.variance, result.intervals), result.behavior_variance
    )
    return _figures(
        (returns_chart(result.stats), f"Distribution of the return. {_KEY}"),
        (weights_chart(result.stats), "Concentration of the weight; dotted: all weights equal"),
        (mean, f"Mean: intervals and estimate. {_KEY}"),
        (variance, f"Variance: intervals and estimate. {_KEY}"),
    )


def _comparison_charts(found: Comparison) -> str:
    first = found[found.best]
    charts = []
    for quantity, logged in (
        ("variance", first.behavior_variance),
        ("mean", first.behavior_mean),
    ):
        bars = []
        for name, each in found.evaluations.items():
            intervals = each.intervals if quantity == "variance" else each.mean_intervals
            value = each.variance if quantity == "variance" else each.mean
            bounds_of = intervals["guaranteed"]
            bars.append(Bar(name, bounds_of.lower, bounds_of.upper, value, "guaranteed"))
        chart = intervals_chart(f"{quantity} of the return", bars, logged)
        charts.append((chart, f"{quantity.capitalize()}: guaranteed intervals. {_KEY}"))
    return _figures(*charts)


def _figures(*charts: tuple[str, str]) -> str:
    figures = (f"<figure>{svg}<figcaption>{text}</figcaption></figure>" for svg, text in charts)
    return f'<div class="charts">{"".join(figures)}</div>'


def _diagnostics(result: Evaluation) -> str:
    d = result.diagnostics
    rows = [
        (
            "effective sample size",
            f"{count(d.effective_sample_size)} of {d.n_trajectories} episodes",
        ),
        ("95% of the weight is on", f"{d.n_for_95_percent} episodes"),
        ("mean weight (should be 1)", f"{d.mean_weight:.4g} ± {d.mean_weight_error:.2g}"),
        ("largest weight, largest ratio of a step", f"{d.max_weight:.4g}, {d.max_ratio:.4g}"),
        (
            "tail index of the weights",
            "unknown" if math.isnan(d.tail_index) else f"{d.tail_index:.2f}",
        ),
        ("actions the candidate never takes", f"{100 * d.zero_ratio_fraction:.2g}% of steps"),
    ]
    lines = (f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<p>{escape(d.verdict)}</p><table><tbody>{''.join(lines)}</tbody></table>"


def _assumptions(result: Evaluation) -> str:
    parts = []
    for kind, interval in result.intervals.items():
        if interval.guaranteed:
            text = (
                "Guaranteed: at this number of episodes, the probability of a miss is at most "
                f"{number(interval.delta)} per interval, provided that"
            )
        else:
            text = f"{kind.capitalize()}: approximately right for many episodes, provided that"
        items = "".join(f"<li>{escape(each)}</li>" for each in interval.assumptions)
        parts.append(f"<p>{escape(text)}</p><ul>{items}</ul>")
    return "".join(parts)


def _provenance(result: Evaluation) -> str:
    settings = ", ".join(
        f"{name} {value}"
        for name, value in result.settings.to_dict().items()
        if value is not None and name != "seed"
    )
    estimators = f"mean {result.mean_estimator}, variance {result.variance_estimator}"
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    return (
        f'<h2>Settings and versions</h2><p class="faint">Settings: {escape(settings)}. Estimators: '
        f"{escape(estimators)}. Seed: {result.settings.seed}. Versions: {escape(versions)}.</p>"
    )
