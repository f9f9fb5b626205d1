"""Errors as messages, exit codes, and printing, for all commands.

Exit codes: 0 evaluated, and everything required (if anything) proven; 1 something required not
proven; 2 wrong usage of the command line; 3 anything else, such as refused data, a missing package
or a crash; 130 interrupted.
"""

from __future__ import annotations

import functools
import json
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import typer
from rich import markup
from rich.console import Console
from rich.table import Table as RichTable

from ove_sb3.core.registry import load_plugins
from ove_sb3.errors import OveError, OveWarning
from ove_sb3.report.escape import visible
from ove_sb3.report.table import Table

Command = TypeVar("Command", bound=Callable[..., Any])
NOT_PROVEN, FAILED, INTERRUPTED = 1, 3, 130


def guarded(command: Command) -> Command:
    """Turn errors into a message and an exit code."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            load_plugins()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", OveWarning)  # results print their own
                return command(*args, **kwargs)
        except (typer.Exit, typer.BadParameter):
            raise
        except (OveError, OSError, ImportError) as error:
            typer.echo(f"error: {visible(str(error))}", err=True)
            raise typer.Exit(FAILED) from None
        except Exception:
            traceback.print_exc()
            raise typer.Exit(FAILED) from None
        except KeyboardInterrupt:
            typer.echo("interrupted: files are as they were before.", err=True)
            raise typer.Exit(INTERRUPTED) from None

    return run  # type: ignore[return-value]


def usage(parse: Callable[..., Any], *values: Any) -> Any:
    """Parse a value of the command line; a bad one is wrong usage."""
    try:
        return parse(*values)
    except OveError as error:
        raise typer.BadParameter(str(error)) from None


def console() -> Console:
    """Colors on a terminal; plain lines of any length elsewhere."""
    return Console(width=None if sys.stdout.isatty() else 200, highlight=False)


def escape(text: str) -> str:
    """Text for the console: no markup, no control characters."""
    return markup.escape(visible(text))


def print_table(out: Console, title: str, model: Table) -> None:
    """Print a result table with rich."""
    table = RichTable(title=escape(title), title_justify="left", box=None)
    for k, name in enumerate(model.header):
        style = "bold" if k == model.strong else None
        table.add_column(escape(name), justify="right" if k else "left", style=style)
    for k, row in enumerate(model.rows):
        faint = model.faint_last and k == len(model.rows) - 1
        table.add_row(*map(escape, row), style="dim" if faint else None)
    out.print(table)


def print_json(values: Mapping[str, Any]) -> None:
    """One JSON document on standard output, and nothing else."""
    typer.echo(json.dumps(values, indent=2, allow_nan=False))
