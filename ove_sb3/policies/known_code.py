"""Whether a policy acts by code of this package alone."""

from __future__ import annotations

from typing import Any

_PACKAGE = f"{__name__.partition('.')[0]}."


def is_known_class(cls: type) -> bool:
    """Whether a class belongs to this package."""
    return cls.__module__.startswith(_PACKAGE)


def has_known_code(policy: Any) -> bool:
    """Whether a policy acts by code of this package alone.

    Not if its class is a subclass of a user, or if a method was replaced on the instance: then
    neither its fingerprint parts nor its bounds on probabilities need describe how it acts.
    """
    cls = type(policy)
    replaced = any(callable(getattr(cls, name, None)) for name in vars(policy))
    return is_known_class(cls) and not replaced
