"""HTML building blocks: a page that needs no other file and no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ove_sb3._escape import escape

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
        f'<table class="wide"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'
    )


def summary(title: str, model: Table, remarks: Sequence[str]) -> str:
    """Title, table and remarks, for notebooks."""
    return f"<p><strong>{escape(title)}</strong></p>{table(model)}{bullets(remarks)}"


def facts(rows: Sequence[tuple[str, str]]) -> str:
    """Two columns: names and values."""
    lines = (f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table><tbody>{''.join(lines)}</tbody></table>"


def figures(charts: Iterable[tuple[str, str]], wide: Iterable[tuple[str, str]] = ()) -> str:
    """Charts with captions, both as HTML; the wide ones first, each in a row of its own."""
    parts = [_figure(*chart, "wide-chart") for chart in wide]
    parts += [_figure(*chart) for chart in charts]
    return f'<div class="charts">{"".join(parts)}</div>'


def _figure(svg: str, caption: str, kind: str = "") -> str:
    return f"<figure{_class(kind)}>{svg}<figcaption>{caption}</figcaption></figure>"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
