"""Hooks of the documentation site.

The README's first example is shown on the landing page, the changelog on a page of its own. Links
that leave this folder lead nowhere on the site, so that only their text is kept.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
OUTSIDE = re.compile(r"(?<!!)\[([^\]]*)\]\(\.\./[^)]*\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Text of a page before it is rendered."""
    if page.file.src_uri == "changelog.md":
        markdown = (ROOT / "CHANGELOG.md").read_text().replace("](docs/", "](")
    if page.file.src_uri == "index.md":
        markdown = markdown.replace("<!-- first example of the README -->", first_example())
    return OUTSIDE.sub(r"\1", markdown).replace("```text trained\n", "```text\n")


def first_example() -> str:
    """The first ``python`` block of the README and the output after it."""
    readme = (ROOT / "README.md").read_text()
    example = re.search(r"```python\n.*?^```\n\n```text.*?^```$", readme, re.DOTALL | re.MULTILINE)
    assert example is not None
    return example[0]
