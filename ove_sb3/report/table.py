"""The table model of a result, rendered as text here, and by rich and HTML elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Cells as text, the first row being the header.

    Attributes
    ----------
    header : tuple of str
    rows : tuple of tuple of str
    strong : int or None
        Index of the column to emphasize.
    faint_last : bool
        Whether the last row is less important than the others.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    strong: int | None = None
    faint_last: bool = False

    @classmethod
    def of(
        cls,
        header: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        strong: int | None = None,
        faint_last: bool = False,
    ) -> Table:
        """Table from sequences."""
        return cls(tuple(header), tuple(map(tuple, rows)), strong, faint_last)

    def lines(self) -> list[str]:
        """Lines of text: the first column left-aligned, the others right-aligned."""
        rows = [self.header, *self.rows]
        widths = [max(len(row[k]) for row in rows) for k in range(len(self.header))]
        lines = []
        for row in rows:
            cells = [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]
            lines.append("   ".join(cells).rstrip())
        return lines

    def __str__(self) -> str:
        return "\n".join(self.lines())
