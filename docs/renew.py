"""Write the output of the Python blocks into the documentation: ``python docs/renew.py README.md``.

The pages are those that ``tests/test_docs.py`` compares with what their blocks print.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```(\w+(?: trained)?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def renewed(page: Path) -> str:
    """Text of the page, with the output that its blocks print now."""
    text, parts, at = page.read_text(), [], 0
    namespace: dict[str, Any] = {}
    printed = ""
    for block in BLOCK.finditer(text):
        if block[1] == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(block[2], str(page), "exec"), namespace)
            printed = output.getvalue()
            continue
        if block[1].startswith("text") and printed.strip():
            parts += [text[at : block.start(2)], printed]
            at = block.end(2)
        printed = ""
    return "".join([*parts, text[at:]])


def main(pages: list[Path]) -> None:
    """Renew the pages, each in a directory of its own."""
    for page in pages:
        here = Path.cwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            text = renewed(page)
            os.chdir(here)
        page.write_text(text)


if __name__ == "__main__":
    main([Path(name).absolute() for name in sys.argv[1:]])
