"""Errors as messages, exit codes, and printing, for all commands.

Exit codes: 0 evaluated, and everything required (if anything) proven; 1 something required not
proven; 2 wrong usage of the command line; 3 anything else, such as refused data, a missing package
or a crash; 130 interrupted.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import typer
from rich import markup
from rich.console import Console
from rich.table import Table as RichTable

from ove_sb3._escape import visible
from ove_sb3.core.registry import load_plugins
from ove_sb3.errors import InvalidInputError, OveError, OveWarning
from ove_sb3.report.table import Table

from .wording import in_options

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
        except typer.Exit:
            raise
        except typer.BadParameter as error:
            error.message = in_options(error.message, command)
            raise
        except OveError as error:
            typer.echo(f"error: {visible(in_options(str(error), command))}", err=True)
            raise typer.Exit(FAILED) from None
        except (OSError, ImportError) as error:
            typer.echo(f"error: {visible(str(error))}", err=True)
            raise typer.Exit(FAILED) from None
        except Exception:
            traceback.print_exc()
            raise typer.Exit(FAILED) from None
        except KeyboardInterrupt:
            typer.echo("interrupted: no file is incomplete.", err=True)
            raise typer.Exit(INTERRUPTED) from None

    return run  # type: ignore[return-value]


def usage(parse: Callable[..., Any], *values: Any) -> Any:
    """Parse a value of the command line; a bad one is wrong usage."""
    try:
        return parse(*values)
    except OveError as error:
        raise typer.BadParameter(str(error)) from None


def check_output(path: Path | None, option: str) -> None:
    """Refuse a file that cannot be written, before the work is done."""
    if path is None:
        return
    folder = path.parent
    if path.is_dir() or not folder.is_dir():
        raise InvalidInputError(
            f"`{option}` must be a file in an existing directory, got {path}. Create {folder} "
            "first, or choose another path."
        )
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise InvalidInputError(
            f"`{option}` must be a file that can be written, got {path}. Choose another path."
        )


def check_directory(path: Path, argument: str) -> None:
    """Refuse a directory that cannot be created or written, before the work is done."""
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise InvalidInputError(
            f"`{argument}` must be a directory that can be written, got {path}. Choose another one."
        )


def console() -> Console:
    """Colors on a terminal; plain lines elsewhere, of any length unless COLUMNS is set."""
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if known else 200, highlight=False)


def escape(text: str) -> str:
    """Text for the console: no markup, no control characters."""
    return markup.escape(visible(text))


def print_table(out: Console, title: str, model: Table) -> None:
    """Print a result table with rich; where it is too wide, a block of lines for every row."""
    if max(map(len, model.lines())) > out.width:
        model = stacked(model)
    table = RichTable(title=escape(title), title_justify="left", box=None)
    for k, name in enumerate(model.header):
        style = "bold" if k == model.strong else None
        table.add_column(escape(name), justify="right" if k else "left", style=style)
    for k, row in enumerate(model.rows):
        faint = model.faint_last and k == len(model.rows) - 1
        table.add_row(*map(escape, row), style="dim" if faint else None)
    out.print(table)


def stacked(model: Table) -> Table:
    """Table of two columns: a line for every row, then one for each of its cells."""
    rows: list[tuple[str, str]] = []
    for row in model.rows:
        rows.append((row[0], ""))
        rows += [
            (f"  {name}", cell)
            for name, cell in zip(model.header[1:], row[1:], strict=True)
            if cell
        ]
    return Table.of([model.header[0], ""], rows)


def print_json(values: Mapping[str, Any]) -> None:
    """One JSON document on standard output, and nothing else."""
    typer.echo(json.dumps(values, indent=2, allow_nan=False))
