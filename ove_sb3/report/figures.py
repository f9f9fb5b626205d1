"""The pictures of a report, each with a title, a legend and a sentence on how to read it."""

from __future__ import annotations

from . import html
from .charts import distribution_svg, intervals_chart, locations_svg, weights_chart
from .legend import Entry
from .numbers import label, percent
from .shapes import (
    Bar,
    DistributionChart,
    IntervalChart,
    distribution_chart,
    location_results,
    quantity_chart,
    return_extent,
)
from .views import ComparisonView, EvaluationView

_LOGGED: Entry = ("logged", "behavior, as logged")


def evaluation_figures(result: EvaluationView) -> str:
    """Distribution of the return, intervals of every quantity, concentration of the weight."""
    stats, located = result.stats, location_results(result)
    parts = []
    if stats is not None:
        chart = distribution_chart(result, stats)
        parts.append(
            html.figure(
                f"Distribution of the {result.subject}",
                _distribution_legend(chart),
                distribution_svg(chart, result.subject),
                f"Share of episodes at or below a {result.subject}.",
                wide=True,
            )
        )
    confidence = percent(result.interval_delta)
    if located:
        rows = [(one.quantity.label, quantity_chart(one)) for one in located]
        parts.append(
            html.figure(
                f"Intervals on the axis of the {result.subject}",
                _bars_legend(rows[0][1], confidence, _label(result)),
                locations_svg(rows, return_extent(result), result.subject),
                "The circle is the estimate. A triangle: the interval continues.",
                wide=True,
            )
        )
    for one in result.quantities.values():
        if not one.quantity.is_location:
            title = one.quantity.title
            shown = quantity_chart(one)
            entries = _bars_legend(shown, confidence, label(one.interval))
            parts.append(html.figure(_capital(title), entries, intervals_chart(shown)))
    if stats is not None:
        parts.append(
            html.figure(
                "Concentration of the weight",
                [("candidate", "this log"), ("equal", "all weights equal")],
                weights_chart(stats),
                "The further the line is from the diagonal, the fewer episodes count.",
            )
        )
    return html.charts(parts)


def comparison_figures(comparison: ComparisonView) -> str:
    """Intervals of all candidates, a picture for every quantity."""
    evaluations = comparison.evaluations
    first = next(iter(evaluations.values()))
    parts = []
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
        word = label(*(result.quantities[key].interval for result in evaluations.values()))
        chart = IntervalChart(logged.quantity.title, bars, logged.behavior)
        title = f"{_capital(logged.quantity.label)}: {word} intervals"
        entries: list[Entry] = [("main", "candidate and estimate"), _LOGGED]
        parts.append(html.figure(title, entries, intervals_chart(chart)))
    return html.charts(parts)


def _distribution_legend(chart: DistributionChart) -> list[Entry]:
    entries: list[Entry] = []
    if chart.candidate[0].size:
        entries.append(("candidate", "candidate"))
    entries.append(("behavior", chart.behavior_label))
    if chart.band is not None:
        entries.append(("band", f"{chart.band_label}, for all returns together"))
    if chart.marks:
        entries.append(("mark", "quantiles and their intervals"))
    return entries


def _bars_legend(chart: IntervalChart, confidence: str, main: str) -> list[Entry]:
    """Entries for the bars; `main` is the label of the main intervals."""
    names = {"main": main}
    bars = [(bar.kind, f"{confidence} {names.get(bar.kind, bar.label)}") for bar in chart.bars]
    return [*bars, _LOGGED]


def _label(result: EvaluationView) -> str:
    return label(*(one.interval for one in result.quantities.values()))


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
