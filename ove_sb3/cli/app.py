"""The commands of ``ove-sb3``; exit codes are listed in `running`."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from ove_sb3 import __version__

from .evaluation import compare, evaluate
from .logs import collect, compact, inspect, repair
from .running import guarded
from .watching import watch

app = typer.Typer(
    name="ove-sb3",
    no_args_is_help=True,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help=(
        "How variable will a new policy's outcomes be? Answers from the logs of the old one, with "
        "guarantees. Model files are pickles: loading one executes code in it. Load only files you "
        "trust."
    ),
)


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Options of the program itself."""
    if version:
        typer.echo(f"ove-sb3 {__version__}")
        raise typer.Exit


for command in (collect, inspect, evaluate, compare, watch, compact, repair):
    app.command()(guarded(command))


@app.command(
    add_help_option=False,  # the experiments have a help of their own
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
@guarded
def reproduce(context: typer.Context) -> None:
    """Repeat the paper's experiments; `ove-sb3 reproduce --help` lists the options."""
    experiments = import_module("ove_sb3.experiments.__main__")
    raise typer.Exit(experiments.main(context.args, prog="ove-sb3 reproduce"))
