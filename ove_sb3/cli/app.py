"""The commands of ``ove-sb3``; exit codes are listed in `running`."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ove_sb3 import __version__

from .evaluation import compare, evaluate
from .logs import collect, compact, inspect, repair
from .running import guarded
from .watching import watch


class _Group(TyperGroup):
    """The program: its option --help shows no type, as no flag does."""

    def get_help_option(self, ctx: Any) -> Any:
        return _without_type(super().get_help_option(ctx))


class _Command(TyperCommand):
    """A command, see `_Group`."""

    def get_help_option(self, ctx: Any) -> Any:
        return _without_type(super().get_help_option(ctx))


def _without_type(option: Any) -> Any:
    if option is not None:
        option.metavar = ""
    return option


app = typer.Typer(
    name="ove-sb3",
    cls=_Group,
    no_args_is_help=True,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help=(
        "Estimate the mean, variance and risk of a new policy's return from logs of the old one, "
        "with guarantees. Loading a model file can execute code in it (it is a pickle): load only "
        "files you trust, or use --safe-load."
    ),
)


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", metavar="", help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of the program itself."""
    if version:
        typer.echo(f"ove-sb3 {__version__}")
        raise typer.Exit


for command in (collect, inspect, evaluate, compare, watch, compact, repair):
    app.command(cls=_Command)(guarded(command))


@app.command(
    add_help_option=False,  # the experiments have a help of their own
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
@guarded
def reproduce(context: typer.Context) -> None:
    """Repeat the paper's experiments; `ove-sb3 reproduce --help` lists the options."""
    experiments = import_module("ove_sb3.experiments.__main__")
    raise typer.Exit(experiments.main(context.args, prog="ove-sb3 reproduce"))
