"""Exit codes of the installed program, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .running import PROGRAM, program


def evaluate_small(small: Path, *more: object, candidate: str = "new.npy") -> tuple[object, ...]:
    return ("evaluate", small / "log", small / candidate, "--gamma", 1, *more)


def test_the_installed_command(folder: Path) -> None:
    inspected = program("inspect", folder / "log", "--json")
    assert inspected.returncode == 0
    assert json.loads(inspected.stdout)["episodes"] == 500


def test_exit_code_0_evaluated(small: Path) -> None:
    done = program(*evaluate_small(small))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Estimated return of the candidate from 400 episodes")
    assert done.stderr == ""


def test_exit_code_0_everything_required_is_proven(small: Path) -> None:
    done = program(*evaluate_small(small, "--require", "variance <= 0.3", "--require", "mean>0.4"))
    assert done.returncode == 0, done.stderr
    assert "variance <= 0.3: proven." in done.stdout
    assert "mean > 0.4: proven." in done.stdout


def test_exit_code_1_something_required_is_not_proven(small: Path) -> None:
    done = program(*evaluate_small(small, "--require", "variance <= 0.3", "--require", "mean>0.65"))
    assert done.returncode == 1, done.stderr
    assert "variance <= 0.3: proven." in done.stdout
    assert "mean > 0.65: undecided." in done.stdout
    refuted = program(*evaluate_small(small, "--require", "mean <= 0.3"))
    assert refuted.returncode == 1, refuted.stderr
    assert "mean <= 0.3: refuted." in refuted.stdout


@pytest.mark.parametrize(
    "options",
    [
        ("--no-such-option",),
        ("--delta", "small"),
        ("--require", "variance is small"),
        ("--require", "wealth >= 3"),
        ("--quantity", "wealth"),
    ],
)
def test_exit_code_2_wrong_usage(small: Path, options: tuple[str, ...]) -> None:
    done = program(*evaluate_small(small, *options))
    assert done.returncode == 2, done.stderr
    assert "Usage: " in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_exit_code_3_refused_data(small: Path) -> None:
    refused = program(*evaluate_small(small, "--require", "mean >= 0", candidate="wrong.npy"))
    assert refused.returncode == 3, refused.stderr
    assert refused.stderr.startswith("error: importance weights must be 1 on average")
    missing = program("inspect", small / "nowhere")
    assert missing.returncode == 3
    assert missing.stderr.startswith("error: ")
    assert refused.stdout == missing.stdout == ""


def without(package: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process where a package is not installed."""
    code = (
        "import sys\n"
        "class Blocker:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] == {package!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Blocker())\n"
        "from ove_sb3.cli import main\nmain()"
    )
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_exit_code_3_without_typer_or_rich() -> None:
    for package in ("typer", "rich"):
        done = without(package, "--version")
        assert done.returncode == 3, done.stderr
        assert f"needs {package}. Install it: pip install {package}" in done.stderr
        assert "Traceback" not in done.stderr


def test_exit_code_3_without_matplotlib(small: Path, tmp_path: Path) -> None:
    plot = ("--plot", tmp_path / "figure.png")
    done = without("matplotlib", *evaluate_small(small, *plot))
    assert done.returncode == 3, done.stderr
    assert "error: No module named 'matplotlib" in done.stderr
    assert without("matplotlib", *evaluate_small(small)).returncode == 0


def test_exit_code_3_without_a_package_that_is_required(small: Path) -> None:
    assert without("numpy", *evaluate_small(small)).returncode == 3


def test_exit_code_3_crash(small: Path) -> None:
    code = (
        "import ove_sb3.cli.evaluation as module\n"
        "def crash(*_, **__): raise RuntimeError('an unforeseen error')\n"
        "module.evaluate_candidate = crash\n"
        "from ove_sb3.cli import main\nmain()"
    )
    arguments = [str(argument) for argument in evaluate_small(small, "--require", "mean >= 0")]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 3
    assert "RuntimeError: an unforeseen error" in done.stderr


def test_exit_code_130_interrupted(tmp_path: Path) -> None:
    command: list[str] = [str(PROGRAM), "collect", "uniform", "CartPole-v1", str(tmp_path / "log"),
               "--episodes", "100000000", "--progress"]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stderr is not None
        shown = b""
        while b"%" not in shown:  # the progress bar: episodes are being collected
            more = os.read(process.stderr.fileno(), 1000)
            assert more, shown
            shown += more
        rest = b""
        for _ in range(6):  # Python drops an interrupt that arrives in a finalizer: press again
            process.send_signal(signal.SIGINT)
            try:
                rest = process.communicate(timeout=20)[1]
                break
            except subprocess.TimeoutExpired:
                continue
    assert process.returncode == 130, rest
    assert b"interrupted: no file is incomplete." in rest
    assert b"Traceback" not in rest
    assert not (tmp_path / "log").exists()
