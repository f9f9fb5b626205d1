"""Run the first Python block of a page, as a new user would: ``python first_screen.py README.md``.

It needs nothing but the installed package and runs in an empty directory.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def first_block(page: Path) -> str:
    """The first Python block of a Markdown page."""
    match = re.search(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    assert match is not None, f"{page} has no Python block"
    return match[1]


def main() -> None:
    """Run the block in a process of its own and report the time it took."""
    code = first_block(Path(sys.argv[1]))
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, check=True)
        subprocess.run(
            [sys.executable, "-m", "ove_sb3", "--version"], cwd=folder, env=environment, check=True
        )
    print(f"first screen: {time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
