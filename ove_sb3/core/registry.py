"""Named registries of quantities, estimators and methods, open to plugins."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from ove_sb3.errors import InvalidInputError, OveWarning

T = TypeVar("T")
PLUGIN_GROUP = "ove_sb3.plugins"


class Registry(Generic[T]):
    """Entries by name, in the order of registration.

    Parameters
    ----------
    kind : str
        Singular noun for error messages, such as ``"estimator"``.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def add(self, name: str, entry: T, *, replace: bool = False) -> T:
        """Register `entry`; a name that is taken is refused unless `replace` is True."""
        if not isinstance(name, str) or not name or not set(name).isdisjoint(": <>="):
            raise InvalidInputError(
                f"the name of a {self.kind} must be a non-empty string without ':', '<', '>', '=' "
                f"or spaces, got {name!r}."
            )
        if name in self._entries and not replace:
            raise InvalidInputError(
                f"the name of a {self.kind} must be new, got {name!r}, which is registered. Choose "
                "another, or pass replace=True."
            )
        self._entries[name] = entry
        return entry

    def get(self, name: object, argument: str) -> T:
        """Entry called `name`; an unknown one is an error about `argument`."""
        if isinstance(name, str):
            if name not in self._entries:
                load_plugins()
            if name in self._entries:
                return self._entries[name]
        raise InvalidInputError(
            f"`{argument}` must be one of {', '.join(map(repr, self._entries))}, got {name!r}."
        )

    def remove(self, name: str) -> None:
        """Forget an entry."""
        self._entries.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._entries))


_loaded: set[str] = set()


def load_plugins() -> tuple[str, ...]:
    """Load every installed plugin once: entry points of the group ``ove_sb3.plugins``.

    An entry point names a function without arguments, which calls `register_quantity`,
    `register_estimator`, `register_method` or `register_policy`, or a module that does so when
    imported.

    Returns
    -------
    tuple of str
        Names of the plugins loaded so far.
    """
    for point in entry_points(group=PLUGIN_GROUP):
        if point.name in _loaded:
            continue
        _loaded.add(point.name)
        try:
            plugin: Callable[[], object] | object = point.load()
            if callable(plugin):
                plugin()
        except Exception as error:  # a broken plugin must not take everything else down
            warnings.warn(
                f"the plugin {point.name!r} ({point.value}) cannot be loaded: "
                f"{type(error).__name__}: {error}",
                OveWarning,
                stacklevel=2,
            )
    return tuple(sorted(_loaded))
