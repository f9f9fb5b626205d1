"""Versions of the libraries in use."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

_LIBRARIES = (
    "numpy",
    "scipy",
    "numba",
    "torch",
    "stable-baselines3",
    "sb3-contrib",
    "gymnasium",
)


def library_versions(*further: str) -> dict[str, str]:
    """Versions of this package, Python and the libraries that results depend on, if installed."""
    versions = {"python": platform.python_version()}
    for name in ("ove-sb3", *_LIBRARIES, *further):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def known_classes(module: Any, *names: str) -> tuple[type, ...]:
    """Classes of a module, as far as the installed version has them."""
    return tuple(kind for name in names if (kind := getattr(module, name, None)) is not None)
