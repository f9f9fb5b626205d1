"""Options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ove_sb3._validation import local_path

from .running import usage

PICKLE = "Loading a model file can execute code in it (it is a pickle), except with --safe-load."


def log_path(value: Path) -> Path:
    """Callback of the argument LOG: the path of a ``file:`` URI, any other as it is."""
    path: Path = usage(local_path, value)
    return path


Log = Annotated[
    Path,
    typer.Argument(help="Directory of logged episodes.", show_default=False, callback=log_path),
]
LogOrTable = Annotated[
    Path,
    typer.Argument(
        help="Directory of logged episodes, or a table: .csv, .parquet or .feather.",
        show_default=False,
        callback=log_path,
    ),
]
Reward = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column to evaluate in place of the reward."),
]
Episode = Annotated[
    str, typer.Option(metavar="COLUMN", help="For tables: column that names the episode.")
]
Step = Annotated[
    str,
    typer.Option(
        metavar="COLUMN",
        help="For tables: column that numbers the steps; `none` if the rows are in order.",
    ),
]
Propensity = Annotated[
    str,
    typer.Option(metavar="COLUMN", help="For tables: probability of the logged action."),
]
CandidatePropensity = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="For tables: probability of the logged action under the candidate, in place of "
        "CANDIDATE.",
    ),
]
Density = Annotated[
    bool,
    typer.Option(
        "--density", metavar="", help="For tables: propensities are densities and may exceed 1."
    ),
]
Gamma = Annotated[float, typer.Option(help="Discount factor.", show_default=False)]
RewardRange = Annotated[
    tuple[float, float] | None,
    typer.Option(
        metavar="LOW HIGH", help="Rewards the environment can give. Default: as stated in the log."
    ),
]
ReturnRange = Annotated[
    tuple[float, float] | None,
    typer.Option(
        metavar="LOW HIGH", help="Range of the return, if it is narrower than the rewards imply."
    ),
]
ModelClass = Annotated[
    str | None,
    typer.Option(
        metavar="CLASS", help="Class that saved the model: PPO, ..., or package.module:Class."
    ),
]
Horizon = Annotated[
    int | None,
    typer.Option(help="Maximum number of steps of an episode. Default: as stated in the log."),
]
MaxRatio = Annotated[
    float | None,
    typer.Option(help="Known bound on the importance ratio of a step."),
]
MaxWeight = Annotated[
    float | None,
    typer.Option(help="Known bound on the importance weight of an episode."),
]
Behavior = Annotated[
    Path | None,
    typer.Option(help="Saved model of the policy that wrote the log (a pickle too)."),
]
BehaviorClass = Annotated[
    str | None,
    typer.Option(help="Class of that model. Default: that of --model-class."),
]
Delta = Annotated[float, typer.Option(help="Probability that an interval misses the truth.")]
Quantities = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="Further quantity of the return to evaluate; may be repeated."
    ),
]
MethodName = Annotated[
    str, typer.Option(help="Method of the main intervals: betting, paper, bootstrap or normal.")
]
Approximate = Annotated[str, typer.Option(help="Method of the approximate intervals, or `none`.")]
Estimators = Annotated[
    list[str] | None,
    typer.Option(
        metavar="QUANTITY=NAME", help="Estimator other than the default; may be repeated."
    ),
]
Require = Annotated[
    list[str] | None,
    typer.Option(
        metavar="EXPRESSION",
        help="Requirement to prove, such as 'variance <= 80'; may be repeated.",
    ),
]
Deterministic = Annotated[
    bool,
    typer.Option("--deterministic", metavar="", help="Let the model act with deterministic=True."),
]
Normalize = Annotated[
    Path | None,
    typer.Option(
        help="Saved VecNormalize statistics of the model (a pickle too), or `none` to ignore those "
        "beside it."
    ),
]
SafeLoad = Annotated[
    bool,
    typer.Option(
        "--safe-load", metavar="", help="Load model files without unpickling: no code is executed."
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of shuffling and resampling.")]
Jobs = Annotated[int, typer.Option(help="Number of processes that share the work.")]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Dask cluster that shares the work, such as tcp://host:8786; in place of --n-jobs.",
    ),
]
Progress = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress",
        metavar="",
        help="Show a progress bar. Default: in a terminal, after 2 s.",
    ),
]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON and nothing else.")]
Html = Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")]
Author = Annotated[str | None, typer.Option(metavar="TEXT", help="Author of the report.")]
Purpose = Annotated[str | None, typer.Option(metavar="TEXT", help="Purpose of the report.")]
