"""Progress bars."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import Any, Protocol, TypeVar

from ._validation import check_progress

Item = TypeVar("Item")
_DELAY = 2.0  # seconds; shorter work shows no bar unless asked for


class ProgressBar(Protocol):
    """The part of tqdm's interface used here."""

    def update(self, n: int) -> object:
        """Advance the bar by `n`."""

    def close(self) -> object:
        """Remove the bar."""


def progress_bar(
    show: bool | None, *, total: int | None, unit: str, scale: bool = False
) -> ProgressBar:
    """Return a progress bar.

    Parameters
    ----------
    show : bool or None
        True: always shown. False: never. None: shown in a terminal or notebook, after two seconds.
    total : int or None
        Number of units, if it is known.
    unit : str
        Name of the unit.
    scale : bool
        Show large numbers as 1.2M.
    """
    show = check_progress(show)
    bar: ProgressBar = _tqdm()(
        total=total,
        unit=unit,
        unit_scale=scale,
        delay=0.0 if show else _DELAY,
        disable=not (_interactive() if show is None else show),
    )
    return bar


def tracked(
    items: Iterable[Item],
    show: bool | None,
    *,
    total: int | None,
    unit: str,
    size: Callable[[Item], int] = lambda item: 1,
    scale: bool = False,
) -> Iterator[Item]:
    """The items, with a progress bar, see `progress_bar`.

    Parameters
    ----------
    items : iterable
    show, total, unit, scale
        See `progress_bar`; `total` may be unknown.
    size : callable
        Number of units of an item.
    """
    bar = progress_bar(show, total=total, unit=unit, scale=scale)
    try:
        for item in items:
            yield item
            bar.update(size(item))
    finally:
        bar.close()


def _tqdm() -> Any:
    """The bar of a notebook where it can be drawn, else that of a terminal."""
    if _in_notebook() and find_spec("ipywidgets") is None:
        from tqdm import tqdm  # the other one would warn
    else:
        from tqdm.auto import tqdm
    return tqdm


def _interactive() -> bool:
    """Whether someone is watching: a terminal, or a notebook."""
    return sys.stderr.isatty() or _in_notebook()


def _in_notebook() -> bool:
    return "ipykernel" in sys.modules
