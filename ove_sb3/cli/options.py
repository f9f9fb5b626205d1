"""Options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Log = Annotated[Path, typer.Argument(help="Directory of logged episodes.", show_default=False)]
LogOrTable = Annotated[
    Path,
    typer.Argument(
        help="Directory of logged episodes, or a table: .csv, .parquet or .feather.",
        show_default=False,
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
    str, typer.Option(metavar="COLUMN", help="For tables: column that numbers the steps, or none.")
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
    typer.Option("--density", help="For tables: propensities are densities and may exceed 1."),
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
Horizon = Annotated[
    int | None,
    typer.Option(help="Most steps that an episode can have. Default: as stated in the log."),
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
    typer.Option(metavar="QUANTITY=NAME", help="Estimator other than the default; repeatable."),
]
Require = Annotated[
    list[str] | None,
    typer.Option(
        metavar="EXPRESSION",
        help="Requirement to prove, such as 'variance <= 80'; may be repeated.",
    ),
]
Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="Let the model act with deterministic=True.")
]
Normalize = Annotated[
    Path | None,
    typer.Option(
        help="Statistics saved by VecNormalize, for the model (a pickle too); 'none' if those "
        "beside it are not its own."
    ),
]
SafeLoad = Annotated[
    bool,
    typer.Option("--safe-load", help="Load model files without unpickling: no code is executed."),
]
Seed = Annotated[int, typer.Option(help="Seed of shuffling and resampling.")]
Jobs = Annotated[int, typer.Option(help="Processes that share the work.")]
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
        "--progress/--no-progress", help="Show a progress bar. Default: in a terminal, after 2 s."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Html = Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")]
Author = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Who made the report; shown with its date.")
]
Purpose = Annotated[str | None, typer.Option(metavar="TEXT", help="What the report is for.")]
