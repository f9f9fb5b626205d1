"""The paper's two figures for each study, and a third of its risk quantities."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import binomtest

from ove_sb3.core.quantities import as_quantity

from .runner import StudyResult
from .settings import ESTIMATORS, RISK, risk_bounds_of
from .tables import Row, bound_rows, estimate_rows, risk_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The colorblind-safe palette of Okabe and Ito; markers and dashes differ too.
_BLACK, _ORANGE, _SKY, _GREEN, _BLUE, _RED, _PURPLE = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
_BOUND_STYLES: dict[str, dict[str, Any]] = {
    "paper": {"color": _RED, "linestyle": (0, (5, 2)), "marker": "s"},
    "bootstrap": {"color": _PURPLE, "linestyle": (0, (1, 1.2)), "marker": "^"},
    "betting": {"color": _BLUE, "linestyle": "-", "marker": "o"},
    "betting_ratio": {"color": _SKY, "linestyle": (0, (4, 1, 1, 1)), "marker": "D"},
    "betting_known": {"color": _BLACK, "linestyle": (0, (2, 1)), "marker": "v"},
    "betting_canary": {"color": "#888888", "linestyle": (0, (6, 1, 1, 1)), "marker": "P"},
}
_BARS = ("paper", "bootstrap", "betting")
_ESTIMATOR_STYLES: dict[str, dict[str, Any]] = {
    "naive_is": {"color": "#888888", "marker": "x"},
    "naive_plugin": {"color": _ORANGE, "marker": "v"},
    "is": {"color": _PURPLE, "marker": "^"},
    "cdis": {"color": _RED, "marker": "s"},
    "pair": {"color": _SKY, "marker": "D"},
    "pair_cdis": {"color": _BLUE, "marker": "P"},
    "crossfit": {"color": _GREEN, "marker": "o"},
}
_STYLE: Any = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "hatch.linewidth": 0.6,
}


def save(result: StudyResult, folder: Path) -> list[Path]:
    """Write ``figure_a.png``, ``figure_b.png`` and ``figure_c.png``; returns their paths."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with mpl.rc_context(_STYLE):
        for name, draw in (
            ("figure_a", figure_a),
            ("figure_b", figure_b),
            ("figure_c", figure_c),
        ):
            figure = draw(result)
            FigureCanvasAgg(figure)
            paths.append(folder / f"{name}.png")
            figure.savefig(paths[-1], dpi=130)
    return paths


def figure_a(result: StudyResult) -> Figure:
    """Failure rates of the bounds (top), and the bounds themselves (bottom)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 9.2), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[1.0, 1.5])
    rows = bound_rows(result)
    _failure_bars(top, result, rows)
    _bound_lines(bottom, result, rows)
    figure.suptitle(result.study.title, fontsize=13)
    top.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.02), fontsize=9.5)
    bottom.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.14), fontsize=9.5)
    return figure


def figure_b(result: StudyResult) -> Figure:
    """Mean and one standard deviation of the estimators (left), and their error (right)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 5.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.7, 1.0])
    rows = estimate_rows(result)
    places = np.arange(len(result.sizes.n_grid))
    truth = result.truth.variance
    shifts = np.linspace(-0.33, 0.33, len(ESTIMATORS))
    for shift, (name, label) in zip(shifts, ESTIMATORS.items(), strict=True):
        mine = [row for row in rows if row["estimator"] == name]
        style = {"markersize": 5, **_ESTIMATOR_STYLES[name]}
        left.errorbar(
            places + shift,
            [row["mean"] for row in mine],
            yerr=[row["sd"] for row in mine],
            label=label,
            linestyle="none",
            elinewidth=1.4,
            capsize=2,
            **style,
        )
        right.plot(places, [row["error_percent"] for row in mine], linewidth=1.4, **style)
    left.axhline(truth, color=_BLACK, linestyle="--", linewidth=1.2, label="true variance")
    _variance_axis(left, truth)
    left.set_ylabel(f"estimate of the variance, {result.study.unit} (symmetric log scale)")
    left.set_title("mean and one standard deviation", fontsize=11)
    right.set_yscale("log")
    right.set_ylabel("root mean square error, % of the true variance")
    right.set_title("error", fontsize=11)
    for axes in (left, right):
        _count_axis(axes, result)
    right.tick_params(axis="x", labelsize=9)
    figure.suptitle(f"{result.study.title}: {result.sizes.n_trials} trials", fontsize=13)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def figure_c(result: StudyResult) -> Figure:
    """Bounds and estimates of quantiles and CVaR."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 8.0), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True).ravel()
    rows = risk_rows(result)
    for axes, quantity in zip(panels, RISK, strict=True):
        _risk_lines(axes, result, [row for row in rows if row["quantity"] == quantity])
    for axes in panels[2:]:
        _count_axis(axes, result)
    figure.suptitle(f"{result.study.title}: {result.sizes.n_trials} trials", fontsize=13)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


def _risk_lines(axes: Axes, result: StudyResult, rows: list[Row]) -> None:
    """Mean bounds and estimates of one risk quantity, the truth, and the misses in the title."""
    places = np.arange(len(result.sizes.n_grid))
    for name in risk_bounds_of(result.study):
        mine = [row for row in rows if row["bounds"] == name]
        for side in ("upper", "lower"):
            label = mine[0]["label"] if side == "upper" else None
            style = {"markersize": 5, **_BOUND_STYLES[name]}
            axes.plot(places, [row[side] for row in mine], label=label, **style)
        if name == "betting":
            estimates = [row["estimate"] for row in mine]
            axes.plot(places, estimates, color=_ORANGE, marker="X", label="estimate: wis")
    axes.axhline(rows[0]["truth"], color=_BLACK, linestyle="--", linewidth=1.2, label="truth")
    title = as_quantity(rows[0]["quantity"]).label
    guaranteed = [row for row in rows if row["bounds"] == "betting"]
    below, above = (sum(row[f"misses_{side}"] for row in guaranteed) for side in ("lower", "upper"))
    total = sum(row["trials"] for row in guaranteed)
    axes.set_title(
        f"{title[0].upper()}{title[1:]}: {below} lower and {above} upper of {total} bounds by "
        "betting miss",
        fontsize=10,
    )
    axes.set_ylabel("return")


def _failure_bars(axes: Axes, result: StudyResult, rows: list[Row]) -> None:
    """Fraction of trials in which a bound misses the truth, with 95% Clopper-Pearson intervals."""
    places = np.arange(len(result.sizes.n_grid))
    width = 0.8 / (2 * len(_BARS))
    names = {"paper": "CI", "bootstrap": "Bootstrap", "betting": "betting"}
    for k, name in enumerate(_BARS):
        mine = [row for row in rows if row["bounds"] == name]
        for side, sign, hatch in (("upper", "+", ""), ("lower", "−", "////")):
            position = places + width * (2 * k + (side == "lower") - len(_BARS) + 0.5)
            rates = np.array([row[f"misses_{side}"] / row["trials"] for row in mine])
            ends = np.array(
                [_proportion_interval(row[f"misses_{side}"], row["trials"]) for row in mine]
            )
            axes.bar(
                position,
                rates,
                width,
                label=f"{names[name]} {sign}",
                color=_BOUND_STYLES[name]["color"] if side == "upper" else "white",
                edgecolor=_BOUND_STYLES[name]["color"],
                hatch=hatch,
            )
            axes.errorbar(
                position,
                rates,
                yerr=np.array([rates - ends[:, 0], ends[:, 1] - rates]),
                linestyle="none",
                color="#555555",
                elinewidth=0.9,
                capsize=1.5,
            )
    delta = result.study.delta
    axes.axhline(delta, color=_BLACK, linestyle="--", linewidth=1.2, label=f"δ = {delta:g}")
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel("fraction of trials missed")
    axes.set_title(
        f"misses in {result.sizes.n_trials} trials (+ upper, − lower bound; bars: 95% interval)",
        fontsize=11,
    )
    axes.tick_params(axis="x", labelbottom=False)


def _bound_lines(axes: Axes, result: StudyResult, rows: list[Row]) -> None:
    """Mean bounds and estimates with their standard errors, and the truth."""
    places = np.arange(len(result.sizes.n_grid))
    truth = result.truth.variance
    for name, style in _BOUND_STYLES.items():
        mine = [row for row in rows if row["bounds"] == name]
        if name == "betting_ratio" and _same_widths(mine, rows):
            continue  # the bound on the weights of long episodes is too large to help
        for side in ("upper", "lower") if mine else ():
            middle = np.array([row[side] for row in mine])
            error = np.array([row[f"{side}_se"] for row in mine])
            label = mine[0]["label"] if side == "upper" else None
            axes.plot(places, middle, label=label, markersize=5, **style)
            axes.fill_between(
                places, middle - error, middle + error, color=style["color"], alpha=0.2, linewidth=0
            )
    for name, color, marker in (("cdis", _GREEN, "v"), ("crossfit", _ORANGE, "X")):
        mine = [row for row in estimate_rows(result) if row["estimator"] == name]
        middle = np.array([row["mean"] for row in mine])
        error = np.array([row["sd"] / np.sqrt(row["trials"]) for row in mine])
        label = f"estimate: {mine[0]['label']}"
        axes.plot(places, middle, color=color, marker=marker, markersize=5, label=label)
        axes.fill_between(
            places, middle - error, middle + error, color=color, alpha=0.25, linewidth=0
        )
    axes.axhline(truth, color=_BLACK, linestyle="--", linewidth=1.2, label="true variance")
    _variance_axis(axes, truth)
    axes.set_ylabel(f"variance, {result.study.unit} (symmetric log scale)")
    axes.set_title(
        "bounds and estimates, mean over the trials (shaded: standard error)", fontsize=11
    )
    _count_axis(axes, result)


def _same_widths(mine: list[Row], rows: list[Row]) -> bool:
    """Whether these bounds are as wide as those of ``"betting"``."""
    plain = [row["width"] for row in rows if row["bounds"] == "betting"]
    return bool(mine) and bool(np.allclose([row["width"] for row in mine], plain, rtol=1e-3))


def _variance_axis(axes: Axes, truth: float) -> None:
    """Linear scale up to the truth and logarithmic beyond, with room for the outermost points."""
    low, high = axes.dataLim.intervaly
    axes.set_yscale("symlog", linthresh=truth, linscale=1.5)
    axes.set_ylim(1.6 * low if low < -0.1 * truth else -0.15 * truth, 1.6 * max(high, truth))


def _count_axis(axes: Axes, result: StudyResult) -> None:
    grid = result.sizes.n_grid
    axes.set_xticks(range(len(grid)), [f"{n:,}" for n in grid])
    axes.set_xlabel("number of trajectories n")


def _proportion_interval(misses: int, trials: int) -> tuple[float, float]:
    interval = binomtest(misses, trials).proportion_ci(0.95, method="exact")
    return float(interval.low), float(interval.high)
