"""What all commands share: errors as messages, exit codes, and printing."""

from __future__ import annotations

import functools
import json
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import typer
from rich.console import Console

from ove_sb3.errors import OveError, OveWarning

Command = TypeVar("Command", bound=Callable[..., Any])
NOT_PROVEN, BAD_INPUT, UNEXPECTED, INTERRUPTED = 1, 2, 3, 130


def guarded(command: Command) -> Command:
    """Turn expected errors into a message and an exit code."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", OveWarning)  # results print their own
                return command(*args, **kwargs)
        except (OveError, OSError) as error:
            fail(str(error))
        except typer.Exit:
            raise
        except Exception:
            # Not 1, which says that a gate is not satisfied.
            traceback.print_exc()
            raise typer.Exit(UNEXPECTED) from None
        except KeyboardInterrupt:
            typer.echo("interrupted: files are as they were before.", err=True)
            raise typer.Exit(INTERRUPTED) from None

    return run  # type: ignore[return-value]


def fail(message: str) -> None:
    """Say what is wrong with the input, and leave."""
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(BAD_INPUT) from None


def console() -> Console:
    """Colours on a terminal; plain lines of any length elsewhere."""
    return Console(width=None if sys.stdout.isatty() else 200, highlight=False)


def print_json(values: Mapping[str, Any]) -> None:
    """One JSON document on standard output, and nothing else."""
    typer.echo(json.dumps(values, indent=2, allow_nan=False))
