"""Follow a page as a new user would: ``python first_screen.py README.md [--whole]``.

It needs nothing but the installed package and runs in an empty directory: the first Python block,
or the whole page with all commands except those for the source code.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SOURCE_ONLY = ("git ", "make ", "pip install ")
SHELL = "import subprocess\nsubprocess.run({command!r}, shell=True, check=True)\n"


def blocks(page: Path) -> list[tuple[str, str]]:
    """The Python and shell blocks of a Markdown page, with their kinds."""
    return BLOCK.findall(page.read_text())


def first_block(page: Path) -> str:
    """The first Python block of a Markdown page."""
    found = [code for kind, code in blocks(page) if kind == "python"]
    assert found, f"{page} has no Python block"
    return found[0]


def commands(block: str) -> list[str]:
    """The commands of a shell block, except those for the source code."""
    lines = block.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.startswith(SOURCE_ONLY)]


def whole_page(page: Path) -> str:
    """All blocks of a page as one program."""
    parts = []
    for kind, text in blocks(page):
        if kind == "python":
            parts.append(text)
        else:
            parts += [SHELL.format(command=command) for command in commands(text)]
    return "\n".join(parts)


def follow(page: Path, *, whole: bool) -> None:
    """Run the page in a process of its own, in an empty directory."""
    code = whole_page(page) if whole else first_block(page)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    programs = str(Path(sys.executable).parent)
    environment["PATH"] = os.pathsep.join([programs, environment.get("PATH", "")])
    with tempfile.TemporaryDirectory() as folder:
        for command in (["-c", code], ["-m", "ove_sb3", "--version"]):
            subprocess.run([sys.executable, *command], cwd=folder, env=environment, check=True)


def main() -> None:
    """Follow the page and report the time it took."""
    begin = time.perf_counter()
    whole = "--whole" in sys.argv[2:]
    follow(Path(sys.argv[1]), whole=whole)
    what = "whole page" if whole else "first screen"
    print(f"{what}: {time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
