"""``evaluate`` and ``compare``."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from ove_sb3._files import write_bytes
from ove_sb3.errors import InvalidInputError
from ove_sb3.evaluation.many import Comparison
from ove_sb3.evaluation.many import compare as compare_candidates
from ove_sb3.evaluation.one import evaluate as evaluate_candidate
from ove_sb3.evaluation.result import Evaluation
from ove_sb3.evaluation.text import bounds, count, number, percent

from . import options
from .models import candidate_of, find_class, named_candidates, named_classes
from .running import NOT_PROVEN, console, print_json


def evaluate(
    log: options.Log,
    candidate: Annotated[
        str,
        typer.Argument(
            help="Saved model, or .npy with its log-probabilities. A model file is a pickle: "
            "loading it executes code in it.",
            show_default=False,
        ),
    ],
    gamma: options.Gamma,
    model_class: Annotated[
        str | None,
        typer.Option(help="Class that saved the model: PPO, ..., or package.module:Class."),
    ] = None,
    reward_range: options.RewardRange = None,
    return_range: options.ReturnRange = None,
    horizon: options.Horizon = None,
    max_ratio: options.MaxRatio = None,
    max_weight: options.MaxWeight = None,
    delta: options.Delta = 0.05,
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="Mean and variance hold together.")
    ] = False,
    deterministic: options.Deterministic = False,
    vec_normalize: options.Normalize = None,
    max_variance: Annotated[
        float | None,
        typer.Option(help="Gate: the guaranteed upper bound of the variance may not exceed it."),
    ] = None,
    min_mean: Annotated[
        float | None,
        typer.Option(help="Gate: the guaranteed lower bound of the mean may not be below it."),
    ] = None,
    seed: options.Seed = 0,
    n_jobs: options.Jobs = 1,
    scheduler: options.Scheduler = None,
    progress: options.Progress = False,
    html: options.Html = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw a figure to this file (.png, .svg, .pdf; needs matplotlib)."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Judge a candidate by a log: its mean, variance and standard deviation, with guarantees.

    Exits with 0 if the *guaranteed bounds* satisfy the gate, if any; else 1, or 2 on bad input.
    """
    result = evaluate_candidate(
        log,
        candidate_of(candidate),
        gamma=gamma,
        reward_range=reward_range,
        return_range=return_range,
        horizon=horizon,
        max_ratio=max_ratio,
        max_weight=max_weight,
        delta=delta,
        simultaneous=simultaneous,
        model_class=None if model_class is None else find_class(model_class),
        vec_normalize=vec_normalize,
        deterministic=deterministic,
        rng=seed,
        n_jobs=n_jobs,
        scheduler=scheduler,
        progress=progress,
    )
    gate = None
    if max_variance is not None or min_mean is not None:
        gate = {
            "max_variance": max_variance,
            "min_mean": min_mean,
            "passed": result.satisfies(max_variance=max_variance, min_mean=min_mean),
        }
    if html is not None:
        result.save_html(html, max_variance=max_variance, min_mean=min_mean)
    if plot is not None:
        _save_figure(result, plot)
    if json:
        print_json({**result.to_dict(), "gate": gate})
    else:
        _print_evaluation(result, gate)
    if gate is not None and not gate["passed"]:
        raise typer.Exit(NOT_PROVEN)


def compare(
    log: options.Log,
    candidates: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=CANDIDATE...",
            help="Saved models, or .npy with log-probabilities. A model file is a pickle: loading "
            "it executes code in it.",
            show_default=False,
        ),
    ],
    gamma: options.Gamma,
    model_class: Annotated[
        list[str] | None,
        typer.Option(help="Class that saved the models, or NAME=CLASS for each."),
    ] = None,
    reward_range: options.RewardRange = None,
    return_range: options.ReturnRange = None,
    horizon: options.Horizon = None,
    max_ratio: options.MaxRatio = None,
    max_weight: options.MaxWeight = None,
    delta: options.Delta = 0.05,
    rank_by: Annotated[str, typer.Option(help="variance or mean.")] = "variance",
    deterministic: options.Deterministic = False,
    vec_normalize: options.Normalize = None,
    seed: options.Seed = 0,
    n_jobs: options.Jobs = 1,
    scheduler: options.Scheduler = None,
    progress: options.Progress = False,
    html: options.Html = None,
    json: options.Json = False,
) -> None:
    """Judge several candidates by one log, with bounds that hold for all of them at once."""
    found = compare_candidates(
        log,
        named_candidates(candidates),
        gamma=gamma,
        reward_range=reward_range,
        return_range=return_range,
        horizon=horizon,
        max_ratio=max_ratio,
        max_weight=max_weight,
        delta=delta,
        rank_by=rank_by,
        model_class=named_classes(model_class or []),
        vec_normalize=vec_normalize,
        deterministic=deterministic,
        rng=seed,
        n_jobs=n_jobs,
        scheduler=scheduler,
        progress=progress,
    )
    if html is not None:
        found.save_html(html)
    if json:
        print_json(found.to_dict())
    else:
        _print_comparison(found)


def _save_figure(result: Evaluation, path: Path) -> None:
    picture = io.BytesIO()
    figure, kind = result.plot(), path.suffix.lstrip(".") or "png"
    if kind not in figure.canvas.get_supported_filetypes():
        raise InvalidInputError(
            f"`--plot` must name a picture such as report.png, .svg or .pdf, got {path}."
        )
    figure.savefig(picture, format=kind, dpi=150)
    write_bytes(path, picture.getvalue())


def _print_evaluation(result: Evaluation, gate: dict[str, Any] | None) -> None:
    out = console()
    confidence = percent(result.settings.interval_delta)
    table = Table(title=escape(result.headline), title_justify="left", box=None)
    table.add_column("")
    table.add_column("estimate", justify="right")
    for kind in result.intervals:
        style = "bold" if kind == "guaranteed" else None
        table.add_column(f"{confidence} {kind}", justify="right", style=style)
    table.add_column("behavior", justify="right")
    for name, value, intervals, logged in result.rows:
        shown = [escape(bounds(found)) for found in intervals.values()]
        table.add_row(name, number(value), *shown, number(logged))
    out.print(table)
    for line in result.remarks:
        out.print(escape(line), style="yellow" if line.startswith("warning") else None)
    if gate is not None:
        color, word = ("green", "passed") if gate["passed"] else ("red", "not proven")
        asked = [
            f"{name.replace('_', '-')} {number(gate[name])}"
            for name in ("max_variance", "min_mean")
            if gate[name] is not None
        ]
        out.print(f"gate {word}: {', '.join(asked)}", style=f"bold {color}")


def _print_comparison(found: Comparison) -> None:
    out = console()
    table = Table(title=escape(found.headline), title_justify="left", box=None)
    for name in ("", "candidate", "variance", "guaranteed", "mean", "guaranteed", "ESS"):
        table.add_column(name, justify="left" if name == "candidate" else "right")
    for rank, (name, each) in enumerate(found.evaluations.items(), start=1):
        table.add_row(
            str(rank),
            escape(name),
            number(each.variance),
            escape(bounds(each.intervals["guaranteed"])),
            number(each.mean),
            escape(bounds(each.mean_intervals["guaranteed"])),
            count(each.diagnostics.effective_sample_size),
        )
    first = found[found.best]
    logged = number(first.behavior_variance), "", number(first.behavior_mean), ""
    table.add_row("", "(behavior)", *logged, str(first.n_trajectories), style="dim")
    out.print(table)
    for line in found.remarks:
        out.print(escape(line), style="yellow" if line.startswith("warning") else None)
