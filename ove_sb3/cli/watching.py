"""``watch``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ove_sb3.evaluation.decision import Decision
from ove_sb3.evaluation.watch import watch as watch_log

from . import options
from .evaluation import print_verdict, requirements_of
from .models import find_class
from .running import NOT_PROVEN, console, print_json, usage


def watch(
    log: options.Log,
    candidate: Annotated[
        str,
        typer.Argument(
            help=f"Saved model. {options.PICKLE}",
            show_default=False,
        ),
    ],
    gamma: options.Gamma,
    require: Annotated[
        list[str],
        typer.Option(
            metavar="EXPRESSION",
            help="Requirement to prove, such as 'variance <= 80'; may be repeated.",
            show_default=False,
        ),
    ],
    model_class: options.ModelClass = None,
    reward_range: options.RewardRange = None,
    return_range: options.ReturnRange = None,
    horizon: options.Horizon = None,
    max_ratio: options.MaxRatio = None,
    max_weight: options.MaxWeight = None,
    reward: options.Reward = None,
    delta: options.Delta = 0.05,
    target_n: Annotated[
        int | None,
        typer.Option(help="Number of episodes at which the bounds are to be tightest."),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(help="Seconds to wait for a decision; 0 evaluates the log once, as it is."),
    ] = None,
    max_episodes: Annotated[
        int | None, typer.Option(help="Number of episodes after which to give up.")
    ] = None,
    poll: Annotated[float, typer.Option(help="Seconds between checks for new episodes.")] = 1.0,
    state: Annotated[
        Path | None,
        typer.Option(
            help="File with the state, so that a later call continues from it. Default: "
            "LOG.watch.json."
        ),
    ] = None,
    safe_load: options.SafeLoad = False,
    deterministic: options.Deterministic = False,
    vec_normalize: options.Normalize = None,
    json: options.Json = False,
) -> None:
    """Follow a log that is being written until all requirements are proven, or one is refuted.

    The bounds hold simultaneously at every number of episodes. Exits with 0 if all requirements are
    proven, 1 if one is refuted or time is up, 2 on wrong usage, 3 on any other error.
    """
    out = console()

    def show(decision: Decision) -> None:
        if not json:
            out.print(escape(decision.progress), soft_wrap=True)

    decision = watch_log(
        log,
        candidate,
        requirements_of(require),
        gamma=gamma,
        reward_range=reward_range,
        return_range=return_range,
        horizon=horizon,
        max_ratio=max_ratio,
        max_weight=max_weight,
        reward=reward,
        delta=delta,
        target_n=target_n,
        timeout=timeout,
        max_episodes=max_episodes,
        poll_seconds=poll,
        state=state,
        progress=show,
        model_class=None if model_class is None else usage(find_class, model_class),
        safe_load=safe_load,
        vec_normalize=vec_normalize,
        deterministic=deterministic,
    )
    if json:
        print_json(decision.to_dict())
    else:
        out.print(escape(f"{decision.status} after {decision.n} episodes"))
        for verdict in decision.verdicts:
            print_verdict(out, verdict)
    if not decision.proven:
        raise typer.Exit(NOT_PROVEN)
