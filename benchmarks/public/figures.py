"""Figures of ``docs/public.md``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .icu_sepsis import CELLS
from .open_bandit import CAMPAIGNS
from .pages import study_rows
from .results import Content

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE, _RED, _BLACK, _GREEN, _GRAY = "#0072B2", "#D55E00", "#000000", "#009E73", "#888888"
_STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
    "legend.frameon": False,
}


def save_figure(part: str, content: Content, path: Path) -> None:
    """Draw the figure of a part into a file."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    draw = {"icu_sepsis": _icu_sepsis, "open_bandit": _open_bandit, "control": _control}[part]
    with mpl.rc_context(_STYLE):
        figure = draw(content)
        FigureCanvasAgg(figure)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130)


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _icu_sepsis(content: Content) -> Figure:
    """Mean bounds against n, one column per cell."""
    figure = _figure(13.0, 6.2)
    panels = figure.subplots(2, len(CELLS), sharex=True, sharey="row")
    sizes = content["settings"]["sizes"]
    for line, quantity in enumerate(("mean", "variance")):
        rows = study_rows(content, quantity)
        for axes, (behavior, candidate) in zip(panels[line], CELLS, strict=True):
            mine = [r for r in rows if (r["behavior"], r["candidate"]) == (behavior, candidate)]
            for method, color, shade, marker, label in (
                ("paper", _RED, 0.12, "s", "paper's CI"),
                ("betting", _BLUE, 0.35, "o", "betting (ours)"),
            ):
                lower, upper = ([row[method][side] for row in mine] for side in ("lower", "upper"))
                axes.fill_between(range(len(sizes)), lower, upper, color=color, alpha=shade, lw=0)
                axes.plot(range(len(sizes)), lower, color=color, marker=marker, label=label)
                axes.plot(range(len(sizes)), upper, color=color, marker=marker)
            axes.axhline(mine[0]["truth"], color=_BLACK, linestyle="--", lw=1.2, label="truth")
            if line == 0:
                axes.set_title(f"{candidate}\nfrom {behavior}", fontsize=10)
            else:
                axes.set_xticks(range(len(sizes)), [f"{n:,}" for n in sizes])
                axes.set_xlabel("episodes n")
                axes.set_xlim(-0.25, len(sizes) - 0.75)
        panels[line, 0].set_ylabel(f"{quantity} of survival")
    figure.suptitle(f"ICU-Sepsis: 95% intervals, mean over {len(content['logs'])} logs")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def _bar(axes: Axes, place: float, entry: Any, color: str, scale: float = 1.0) -> None:
    """Interval as a line, estimate as a dot."""
    if "error" in entry:
        return
    lower, upper = scale * entry["lower"], scale * entry["upper"]
    axes.plot([lower, upper], [place, place], color=color, lw=3, solid_capstyle="butt")
    if entry["estimate"] is not None:
        axes.plot(scale * entry["estimate"], place, "o", color=color, mec="white", ms=7)


def _open_bandit(content: Content) -> Figure:
    """Click rates and their intervals, one panel per campaign."""
    lines = (
        ("uniform, its own log", "uniform_own", _GRAY),
        ("Thompson, its own log", "thompson_own", _GREEN),
        ("Thompson from uniform's,\nbehavior= given", "known", _BLUE),
        ("Thompson from uniform's", "plain", _BLUE),
        ("Thompson from uniform's,\npaper's CI", "paper", _RED),
    )
    figure = _figure(12.0, 3.6)
    panels = figure.subplots(1, len(CAMPAIGNS), sharex=True, sharey=True)
    places = np.arange(len(lines))[::-1]
    for axes, campaign in zip(panels, CAMPAIGNS, strict=True):
        study = content["campaigns"][campaign]
        for place, (_, name, color) in zip(places, lines, strict=True):
            _bar(axes, place, study[name]["quantities"]["mean"], color, 100.0)
        axes.set_title(f"campaign {campaign}, {study['n_items']} items", fontsize=10)
        axes.set_xlabel("clicks per 100 recommendations")
        axes.grid(visible=False, axis="y")
    panels[0].set_yticks(places, [label for label, _, _ in lines])
    panels[0].set_xscale("log")
    panels[0].set_xlim(0.05, 20.0)
    panels[0].set_xticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
    panels[0].minorticks_off()
    figure.suptitle("Open Bandit data: 95% guaranteed intervals from 10,000 rows (dot: estimate)")
    return figure


def _control(content: Content) -> Figure:
    """Intervals of the variance, one panel per environment."""
    tasks = content["tasks"]
    figure = _figure(4.4 * len(tasks) + 1.0, 4.2)
    panels = figure.subplots(1, len(tasks), squeeze=False)[0]
    kinds = (
        ("canary", _BLUE, "10% canary log"),
        ("plain", _RED, "older checkpoint's log"),
    )
    for axes, (env_id, task) in zip(panels, tasks.items(), strict=True):
        labels = []
        least = min(truth["variance"] for truth in task["truth"].values())
        for k, (pair, logs) in enumerate(task["pairs"].items()):
            old, new = map(int, pair.split("-"))
            truth = task["truth"][str(new)]["variance"]
            for shift, (kind, color, _) in zip((0.15, -0.15), kinds, strict=True):
                _bar(axes, -k + shift, logs[kind]["quantities"]["variance"], color)
            axes.plot([truth, truth], [-k - 0.32, -k + 0.32], color=_BLACK, linestyle="--", lw=1.2)
            labels.append(f"{task['checkpoints'][new]:,}\nfrom {task['checkpoints'][old]:,}")
        axes.set_yticks(-np.arange(len(labels)), labels)
        axes.set_xlabel("variance of the return (symmetric log scale)")
        axes.set_xscale("symlog", linthresh=least / 2, linscale=0.6)
        axes.set_xlim(left=0.0)
        axes.set_title(env_id, fontsize=10)
        axes.grid(visible=False, axis="y")
    handles = [panels[0].plot([], [], color=color, lw=3)[0] for _, color, _ in kinds]
    handles.append(panels[0].plot([], [], color=_BLACK, linestyle="--")[0])
    names = [*(label for _, _, label in kinds), "on-policy truth"]
    figure.legend(handles, names, loc="outside lower center", ncols=3)
    figure.suptitle("Newer checkpoint from the older one: 95% intervals of the variance")
    return figure
