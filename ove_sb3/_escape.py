"""Text from logs and files, made safe to show: names can be chosen by whoever wrote the log."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

# Control characters of terminals, and those that change the direction of text: they can make one
# name look like another, or move a number to where it does not belong.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Show control characters by their number, as Python writes them."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def escape(text: str) -> str:
    """Text for HTML, with control characters made visible."""
    return html.escape(visible(text))


def html_facts(title: str, facts: Mapping[str, object]) -> str:
    """Title and a table of names and values, for notebooks; facts that are None are left out."""
    rows = "".join(
        f"<tr><th style='text-align: left'>{escape(name)}</th><td>{escape(str(value))}</td></tr>"
        for name, value in facts.items()
        if value is not None
    )
    return f"<p><strong>{escape(title)}</strong></p><table><tbody>{rows}</tbody></table>"
