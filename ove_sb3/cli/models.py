"""Models named on the command line: a file and the class that saved it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ove_sb3.errors import InvalidInputError

_LIBRARIES = ("stable_baselines3", "sb3_contrib")


def find_class(name: str) -> Any:
    """``PPO`` of stable-baselines3 or sb3-contrib, or ``package.module:Class``."""
    module, separator, cls = name.partition(":")
    if separator:
        try:
            return getattr(import_module(module), cls)
        except (ImportError, AttributeError) as error:
            raise InvalidInputError(
                f"`--model-class` must name a class that can be imported, got {name!r}: {error}."
            ) from error
    for library in _LIBRARIES:
        try:
            found = getattr(import_module(library), name, None)
        except ImportError:
            continue
        if callable(getattr(found, "load", None)):
            return found
    raise InvalidInputError(
        "`--model-class` must be a class of stable-baselines3 or sb3-contrib, such as PPO, or "
        f"package.module:Class, got {name!r}."
    )


def named_classes(names: Sequence[str]) -> Any:
    """One class for all, or a class for each name: ``CLASS`` or ``NAME=CLASS``."""
    if not names:
        return None
    if len(names) == 1 and "=" not in names[0]:
        return find_class(names[0])
    classes = {}
    for entry in names:
        name, separator, cls = entry.partition("=")
        if not separator:
            raise InvalidInputError(
                f"`--model-class` must be NAME=CLASS where given several times, got {entry!r}."
            )
        classes[name] = find_class(cls)
    return classes


def candidate_of(path: str) -> Any:
    """The path of a saved model, or the log-probabilities in a ``.npy`` file."""
    if not path.endswith(".npy"):
        return path
    try:
        return np.load(Path(path), allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"`{path}` must be a file written by numpy.save, but it cannot be read: {error}."
        ) from error


def named_paths(entries: Sequence[str]) -> dict[str, str]:
    """``NAME=PATH`` entries; the name defaults to that of the file."""
    paths: dict[str, str] = {}
    for entry in entries:
        name, separator, path = entry.partition("=")
        if not separator:
            name, path = Path(entry).stem, entry
        if name in paths:
            raise InvalidInputError(
                f"candidates must have different names, got {name!r} twice. Pass NAME=PATH."
            )
        paths[name] = path
    return paths
