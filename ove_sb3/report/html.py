"""HTML building blocks: a page that needs no other file and no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ove_sb3._escape import escape

from .legend import Entry, legend
from .style import STYLE
from .table import Table

# Forbids the browser to load anything.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(title: str, parts: Iterable[str]) -> str:
    """A complete document."""
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n"
        "</body>\n</html>\n"
    )


def heading(text: str) -> str:
    """Section heading."""
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str, *, faint: bool = False) -> str:
    """Paragraph of plain text."""
    return f"<p{_class('faint' if faint else '')}>{escape(text)}</p>"


def bullets(items: Sequence[str], kind: str = "") -> str:
    """Bullet list of plain text; nothing for no items."""
    if not items:
        return ""
    return f"<ul{_class(kind)}>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"


def table(model: Table) -> str:
    """Table that becomes a list of cards on a narrow screen."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in model.header)
    lines = []
    for k, (name, *cells) in enumerate(model.rows):
        entries = "".join(
            f'<td data-label="{escape(label)}"{_class("strong" if column == model.strong else "")}>'
            f"{escape(cell)}</td>"
            for column, (label, cell) in enumerate(
                zip(model.header[1:], cells, strict=True), start=1
            )
        )
        faint = model.faint_last and k == len(model.rows) - 1
        lines.append(
            f'<tr{_class("faint" if faint else "")}><td class="name">{escape(name)}</td>{entries}'
            "</tr>"
        )
    return (
        f'<div class="scroll"><table class="wide"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def summary(title: str, model: Table, remarks: Sequence[str]) -> str:
    """Title, table and remarks, for notebooks."""
    return f"<p><strong>{escape(title)}</strong></p>{table(model)}{bullets(remarks)}"


def definitions(rows: Sequence[tuple[str, str, str]], kind: str = "") -> str:
    """Names with their values and explanations, either of which may be empty."""
    return f"<dl{_class(kind)}>{''.join(_definition(*row) for row in rows)}</dl>" if rows else ""


def _definition(name: str, value: str, explanation: str) -> str:
    shown = f'<dd class="value">{escape(value)}</dd>' if value else ""
    meaning = f"<dd>{escape(explanation)}</dd>" if explanation else ""
    return f"<div><dt>{escape(name)}</dt>{shown}{meaning}</div>"


def subheading(text: str) -> str:
    """Heading within a section."""
    return f"<h3>{escape(text)}</h3>"


def charts(parts: Iterable[str]) -> str:
    """Figures beside each other where there is room."""
    return f'<div class="charts">{"".join(parts)}</div>'


def figure(
    title: str, entries: Sequence[Entry], svg: str, caption: str = "", *, wide: bool = False
) -> str:
    """A picture, given as SVG, with its title, legend and caption."""
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    kind = _class("wide-chart" if wide else "")
    return f"<figure{kind}>{subheading(title)}{legend(entries)}{svg}{below}</figure>"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
