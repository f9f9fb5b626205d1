"""``evaluate`` and ``compare``."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from ove_sb3._files import write_bytes
from ove_sb3._validation import check_choice
from ove_sb3.core.methods import Method, as_method
from ove_sb3.core.quantities import DEFAULT_QUANTITIES, MOMENTS, Quantity, as_quantity
from ove_sb3.data.log import open_log
from ove_sb3.errors import InvalidInputError
from ove_sb3.evaluation.compare import RANKINGS
from ove_sb3.evaluation.compare import compare as compare_candidates
from ove_sb3.evaluation.evaluate import evaluate as evaluate_candidate
from ove_sb3.evaluation.model_files import load_model
from ove_sb3.evaluation.origins import from_files
from ove_sb3.evaluation.requirements import Requirement, Verdict
from ove_sb3.evaluation.result import Evaluation

from . import options
from .models import candidate_of, find_class, named_classes, named_paths, normalizers
from .running import NOT_PROVEN, check_output, console, escape, print_json, print_table, usage
from .tables import TABLE_SUFFIXES, StepTable, read_table
from .wording import in_options

_COLORS = {"proven": "green", "refuted": "red", "undecided": "yellow"}


def evaluate(
    log: options.LogOrTable,
    gamma: options.Gamma,
    candidate: Annotated[
        str | None,
        typer.Argument(
            help=f"Saved model, or .npy with its log-probabilities. {options.PICKLE} Not with "
            "--candidate-propensity.",
            show_default=False,
        ),
    ] = None,
    episode: options.Episode = "episode_id",
    step: options.Step = "step",
    propensity: options.Propensity = "p_old",
    candidate_propensity: options.CandidatePropensity = None,
    density: options.Density = False,
    reward: options.Reward = None,
    model_class: options.ModelClass = None,
    reward_range: options.RewardRange = None,
    return_range: options.ReturnRange = None,
    horizon: options.Horizon = None,
    max_ratio: options.MaxRatio = None,
    max_weight: options.MaxWeight = None,
    behavior: options.Behavior = None,
    behavior_class: options.BehaviorClass = None,
    quantity: options.Quantities = None,
    delta: options.Delta = 0.05,
    simultaneous: Annotated[
        bool,
        typer.Option(
            "--simultaneous",
            metavar="",
            help="Make all intervals hold simultaneously with probability 1 - delta.",
        ),
    ] = False,
    method: options.MethodName = "betting",
    approximate: options.Approximate = "bootstrap",
    estimator: options.Estimators = None,
    require: options.Require = None,
    deterministic: options.Deterministic = False,
    safe_load: options.SafeLoad = False,
    vec_normalize: options.Normalize = None,
    seed: options.Seed = 0,
    n_jobs: options.Jobs = 1,
    scheduler: options.Scheduler = None,
    progress: options.Progress = None,
    html: options.Html = None,
    author: options.Author = None,
    purpose: options.Purpose = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Save a figure to this file (.png, .svg or .pdf)."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Evaluate a candidate from a log: its mean, variance and other quantities, with guarantees.

    Exits with 0 if every requirement (if any) is proven, 1 if not, 2 on wrong usage, 3 on any other
    error.
    """
    requirements = requirements_of(require)
    check_output(html, "--html")
    _check_about(html, author, purpose)
    _check_picture(plot)
    data: Any = log
    policy: Any = candidate
    if log.suffix.lower() in TABLE_SUFFIXES:
        table = StepTable(log, episode, step, propensity, reward or "reward", density)
        data, policy = read_table(table, candidate, candidate_propensity, progress=progress)
        reward = None
    elif candidate is None or candidate_propensity is not None:
        raise typer.BadParameter(
            "Missing argument CANDIDATE, which a log directory needs; --candidate-propensity is "
            "for tables."
        )
    result = evaluate_candidate(
        data,
        candidate_of(policy) if isinstance(policy, str) else policy,
        gamma=gamma,
        reward=reward,
        reward_range=reward_range,
        return_range=return_range,
        horizon=horizon,
        max_ratio=max_ratio,
        max_weight=max_weight,
        behavior=_behavior(behavior, behavior_class or model_class, safe_load and log),
        quantities=_quantities(DEFAULT_QUANTITIES, quantity, requirements),
        delta=delta,
        simultaneous=simultaneous,
        method=usage(as_method, method),
        approximate=_approximate(approximate),
        estimators=_estimators(estimator),
        model_class=None if model_class is None else usage(find_class, model_class),
        safe_load=safe_load,
        vec_normalize=vec_normalize,
        deterministic=deterministic,
        rng=seed,
        n_jobs=n_jobs,
        scheduler=scheduler,
        progress=progress,
    )
    result = from_files(result, log, candidate)
    verdicts = result.check_all(*requirements) if requirements else ()
    if html is not None:
        result.save_html(html, *requirements, author=author, purpose=purpose)
    if plot is not None:
        _save_figure(result, plot)
    if json:
        decided = [verdict.to_dict() for verdict in verdicts]
        origin = result.origin.to_dict()
        print_json({**result.to_dict(), "origin": origin, "requirements": decided})
    else:
        out = console()
        print_table(out, result.headline, result.table)
        _print_lines(out, [in_options(line, evaluate) for line in result.remarks])
        for verdict in verdicts:
            print_verdict(out, verdict)
    if not all(verdict.proven for verdict in verdicts):
        raise typer.Exit(NOT_PROVEN)


def compare(
    log: options.Log,
    candidates: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=CANDIDATE...",
            help="Saved models, a directory of them with their VecNormalize, or .npy with "
            f"log-probabilities. {options.PICKLE}",
            show_default=False,
        ),
    ],
    gamma: options.Gamma,
    model_class: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]CLASS", help="Class that saved the models, or NAME=CLASS for each."
        ),
    ] = None,
    reward_range: options.RewardRange = None,
    return_range: options.ReturnRange = None,
    horizon: options.Horizon = None,
    max_ratio: options.MaxRatio = None,
    max_weight: options.MaxWeight = None,
    behavior: options.Behavior = None,
    behavior_class: options.BehaviorClass = None,
    quantity: options.Quantities = None,
    delta: options.Delta = 0.05,
    rank_by: Annotated[
        str, typer.Option(help="Order of the candidates: variance or mean.")
    ] = "variance",
    method: options.MethodName = "betting",
    approximate: options.Approximate = "bootstrap",
    estimator: options.Estimators = None,
    require: options.Require = None,
    deterministic: options.Deterministic = False,
    safe_load: options.SafeLoad = False,
    vec_normalize: options.Normalize = None,
    seed: options.Seed = 0,
    n_jobs: options.Jobs = 1,
    scheduler: options.Scheduler = None,
    progress: options.Progress = None,
    html: options.Html = None,
    author: options.Author = None,
    purpose: options.Purpose = None,
    json: options.Json = False,
) -> None:
    """Evaluate several candidates from one log, with bounds that hold for all of them together.

    Exits with 0 if every requirement (if any) is proven for at least one candidate, else 1.
    """
    usage(check_choice, rank_by, "--rank-by", RANKINGS)
    requirements = requirements_of(require)
    check_output(html, "--html")
    _check_about(html, author, purpose)
    paths = usage(named_paths, candidates)
    statistics = {} if vec_normalize is not None else normalizers(paths, candidates)
    comparison = compare_candidates(
        log,
        {name: candidate_of(path) for name, path in paths.items()},
        gamma=gamma,
        reward_range=reward_range,
        return_range=return_range,
        horizon=horizon,
        max_ratio=max_ratio,
        max_weight=max_weight,
        behavior=_behavior(
            behavior, behavior_class or next(iter(model_class or []), None), safe_load and log
        ),
        quantities=_quantities(MOMENTS, quantity, requirements),
        delta=delta,
        rank_by=rank_by,
        method=usage(as_method, method),
        approximate=_approximate(approximate),
        estimators=_estimators(estimator),
        model_class=usage(named_classes, model_class or []),
        safe_load=safe_load,
        vec_normalize=statistics or vec_normalize,
        deterministic=deterministic,
        rng=seed,
        n_jobs=n_jobs,
        scheduler=scheduler,
        progress=progress,
    )
    evaluations = {
        name: from_files(result, log, paths[name])
        for name, result in comparison.evaluations.items()
    }
    comparison = replace(comparison, evaluations=evaluations)
    decided: dict[str, tuple[Verdict, ...]] = {}
    if requirements:
        decided = {
            name: result.check_all(*requirements) for name, result in comparison.evaluations.items()
        }
    if html is not None:
        comparison.save_html(html, *requirements, author=author, purpose=purpose)
    if json:
        verdicts = {name: [v.to_dict() for v in some] for name, some in decided.items()}
        origins = {name: result.origin.to_dict() for name, result in evaluations.items()}
        print_json({**comparison.to_dict(), "origins": origins, "requirements": verdicts})
    else:
        out = console()
        print_table(out, comparison.headline, comparison.table)
        for file in sorted(set(statistics.values())):
            out.print(escape(f"observations are normalized by {file}"))
        _print_lines(out, [in_options(line, compare) for line in comparison.remarks])
        for name, some in decided.items():
            for verdict in some:
                print_verdict(out, verdict, f"{name}: ")
    if decided and not any(all(v.proven for v in some) for some in decided.values()):
        raise typer.Exit(NOT_PROVEN)


def requirements_of(expressions: Sequence[str] | None) -> list[Requirement]:
    """Requirements from the command line."""
    return [usage(Requirement.parse, expression) for expression in expressions or ()]


def _quantities(
    defaults: Sequence[Quantity],
    names: Sequence[str] | None,
    requirements: Sequence[Requirement],
) -> list[str | Quantity]:
    asked = [usage(as_quantity, name) for name in names or ()]
    return [*defaults, *asked, *(requirement.quantity for requirement in requirements)]


def _behavior(path: Path | None, name: str | None, safe_for: Path | Literal[False]) -> Any:
    """The model that wrote the log; its class is named, or that of the (first) candidate.

    With `safe_for`, the log, it is loaded without unpickling.
    """
    if path is None:
        return None
    if name is None:
        raise typer.BadParameter("`--behavior` needs `--behavior-class` or `--model-class`.")
    cls = usage(find_class, name.rpartition("=")[2])
    return load_model(
        path, cls, "behavior", safe_for=open_log(safe_for).metadata if safe_for else False
    )


def _approximate(name: str) -> Method | None:
    return None if name == "none" else usage(as_method, name)


def _estimators(entries: Sequence[str] | None) -> dict[str, str] | None:
    if not entries:
        return None
    pairs = [entry.partition("=") for entry in entries]
    for (quantity, separator, name), entry in zip(pairs, entries, strict=True):
        if not (quantity and separator and name):
            raise typer.BadParameter(f"`--estimator` must be QUANTITY=NAME, got {entry!r}.")
        usage(usage(as_quantity, quantity).find_estimator, name)
    return {quantity: name for quantity, _, name in pairs}


def _check_about(html: Path | None, author: str | None, purpose: str | None) -> None:
    """Refuse facts about a report that is not written."""
    if html is None and (author is not None or purpose is not None):
        raise typer.BadParameter("`--author` and `--purpose` must come with `--html`.")


def _check_picture(path: Path | None) -> None:
    """Refuse a picture that cannot be written, before the work is done."""
    if path is None:
        return
    from matplotlib.backend_bases import FigureCanvasBase

    if _kind(path) not in FigureCanvasBase.get_supported_filetypes():
        raise InvalidInputError(
            f"`--plot` must name a picture such as report.png, .svg or .pdf, got {path}."
        )
    check_output(path, "--plot")


def _kind(path: Path) -> str:
    return path.suffix.lstrip(".") or "png"


def _save_figure(result: Evaluation, path: Path) -> None:
    picture = io.BytesIO()
    result.plot().savefig(picture, format=_kind(path), dpi=150)
    write_bytes(path, picture.getvalue())


def _print_lines(out: Console, lines: Sequence[str]) -> None:
    for line in lines:
        out.print(escape(line), style="yellow" if line.startswith("warning") else None)


def print_verdict(out: Console, verdict: Verdict, prefix: str = "") -> None:
    """Print a verdict in its color."""
    out.print(escape(f"{prefix}{verdict}"), style=f"bold {_COLORS[verdict.status]}")
