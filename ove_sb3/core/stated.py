"""Assumptions in words, each with how it was checked."""

from __future__ import annotations

NOT_CHECKED = "Cannot be checked from the log: it is up to whoever made it."


class Assumption(str):
    """A condition for the coverage of an interval, in words.

    Attributes
    ----------
    checked : str
        How it was checked, in a sentence or two.
    """

    checked: str

    def __new__(cls, text: str, checked: str = NOT_CHECKED) -> Assumption:
        """The text itself, with an attribute."""
        self = super().__new__(cls, text)
        self.checked = checked
        return self


def how_checked(assumption: str) -> str:
    """How an assumption was checked; plain strings, as a user's own method may give, were not."""
    return assumption.checked if isinstance(assumption, Assumption) else NOT_CHECKED
