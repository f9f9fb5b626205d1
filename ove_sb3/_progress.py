"""Progress bars."""

from __future__ import annotations

from typing import Protocol

from .errors import InvalidInputError


class ProgressBar(Protocol):
    """The part of tqdm's interface used here."""

    def update(self, n: int) -> object:
        """Advance the bar by `n`."""

    def close(self) -> object:
        """Remove the bar."""


class _Silent:
    """Shows nothing."""

    def update(self, n: int) -> None:
        """Ignore the progress."""

    def close(self) -> None:
        """Do nothing."""


def progress_bar(show: bool, *, total: int, unit: str, scale: bool = False) -> ProgressBar:
    """Return a progress bar, or a silent stand-in if `show` is False."""
    if not show:
        return _Silent()
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise InvalidInputError(
            "`progress`=True requires tqdm, which is not installed. Install it: pip install tqdm."
        ) from error
    bar: ProgressBar = tqdm(total=total, unit=unit, unit_scale=scale)
    return bar
