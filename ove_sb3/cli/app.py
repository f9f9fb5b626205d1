"""The commands of ``ove-sb3``, put together.

Exit codes: 0 all is well, 1 the guaranteed bounds do not satisfy the gate, 2 bad usage or input,
130 interrupted.
"""

from __future__ import annotations

import typer

from .judging import compare, evaluate
from .logs import collect, compact, inspect
from .running import guarded

app = typer.Typer(
    name="ove-sb3",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help=(
        "How variable will a new policy's outcomes be? Answers from the logs of the old one, with "
        "guarantees. Model files are pickles: loading one executes code in it. Load only files you "
        "trust."
    ),
)
for command in (collect, inspect, evaluate, compare, compact):
    app.command()(guarded(command))
