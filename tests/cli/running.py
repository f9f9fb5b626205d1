"""Run the command line, in this process or in one of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from ove_sb3.cli.app import app
from tests.problems.corridor import GAMMA

ENV = "tests.problems.corridor:Corridor-v0"

PROGRAM = Path(sys.executable).with_name("ove-sb3")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def program(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300, **options
    )


def evaluate(folder: Path, *more: object, candidate: str = "new.zip") -> Result:
    common = ("--model-class", "PPO") if candidate.endswith(".zip") else ()
    return run("evaluate", folder / "log", folder / candidate, "--gamma", GAMMA, *common, *more)


def as_json(result: Result) -> dict[str, Any]:
    assert result.exit_code in (0, 1), result.output
    values: dict[str, Any] = json.loads(result.stdout)
    return values
