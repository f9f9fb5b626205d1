"""The tests on every Python that is present, and on the oldest gymnasium that is supported.

``make test-matrix`` runs this. Pythons are found on the path and among those of pyenv; missing ones
are listed. Every combination has an environment of its own, built on first use from
``constraints.txt``, or from ``constraints-3.10.txt`` and the like where wheels differ.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
OLDEST_GYMNASIUM = "0.29.1"
NEEDS_NEWER = ("gymnasium", "minari")  # pins that do not go with the oldest gymnasium


@dataclass(frozen=True)
class Combination:
    """A Python, with the gymnasium of the constraints or the oldest one."""

    python: str
    oldest: bool = False

    @property
    def name(self) -> str:
        """Display name, also part of the folder's name."""
        return f"python-{self.python}" + (f"-gymnasium-{OLDEST_GYMNASIUM}" if self.oldest else "")

    @property
    def folder(self) -> Path:
        """Folder of the environment."""
        return ROOT / f".venv-{self.name}"

    def constraints(self) -> str:
        """Pinned versions."""
        own = ROOT / f"constraints-{self.python}.txt"
        lines = (own if own.exists() else ROOT / "constraints.txt").read_text().splitlines()
        if self.oldest:
            lines = [line for line in lines if line.split("==")[0] not in NEEDS_NEWER]
            lines.append(f"gymnasium=={OLDEST_GYMNASIUM}")
        return "\n".join(lines) + "\n"


def interpreter(version: str) -> str | None:
    """Command of a Python, or None; a shim of pyenv for a version that is not selected fails."""
    name = f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    installed = sorted(pyenv.glob(f"versions/{version}.*/bin/{name}"))
    for command in (shutil.which(name), *map(str, installed)):
        if command and not subprocess.run([command, "-c", ""], capture_output=True).returncode:
            return command
    return None


def combinations(present: Sequence[str]) -> list[Combination]:
    """Every Python that is present, and the first of them with the oldest gymnasium."""
    return [*map(Combination, present), *(Combination(python, True) for python in present[:1])]


def build(combination: Combination) -> Path:
    """Build the environment if that was not done before; return its Python."""
    folder = combination.folder
    python = folder / "bin" / "python"
    if (folder / ".ready").exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    command = interpreter(combination.python)
    assert command is not None
    subprocess.run([command, "-m", "venv", str(folder)], check=True)
    constraints = folder / "constraints.txt"
    constraints.write_text(combination.constraints())
    for what in (
        ["pip", "setuptools"],
        ["--no-build-isolation", "--editable", ".[dev]"],
        ["--no-deps", "simglucose"],
    ):
        install = [str(python), "-m", "pip", "install", "--quiet"]
        subprocess.run([*install, "--constraint", str(constraints), *what], cwd=ROOT, check=True)
    (folder / ".ready").touch()
    return python


def main() -> int:
    """Run all combinations, print how each ended, and return 1 if one failed."""
    present = [version for version in PYTHONS if interpreter(version)]
    ended = {f"python-{version}": "absent" for version in PYTHONS if version not in present}
    for combination in combinations(present):
        print(f"== {combination.name}", flush=True)
        try:
            python = build(combination)
        except subprocess.CalledProcessError as error:
            ended[combination.name] = f"not installed: {error}"
            continue
        tests = [str(python), "-m", "pytest", "-n", "2", "-m", "not slow and not browser"]
        failed = subprocess.run(tests, cwd=ROOT, check=False).returncode
        ended[combination.name] = "FAILED" if failed else "passed"
    for name, how in ended.items():
        print(f"{name:40} {how}")
    return int(any(how not in ("passed", "absent") for how in ended.values()))


if __name__ == "__main__":
    sys.exit(main())
