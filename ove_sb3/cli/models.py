"""Models named on the command line: a file and the class that saved it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ove_sb3.errors import InvalidInputError
from ove_sb3.evaluation.model_files import normalizer_of

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
            package = import_module(library)
        except ImportError:
            continue
        for known, member in vars(package).items():
            if known.lower() == name.lower() and callable(getattr(member, "load", None)):
                return member
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
    """``NAME=PATH`` entries; the name defaults to that of the file.

    A directory stands for the models in it, in the order of the numbers in their names.
    """
    paths: dict[str, str] = {}
    for entry in entries:
        name, separator, path = entry.partition("=")
        if not separator:
            name, path = "", entry
        if Path(path).is_dir():
            prefix = f"{name}/" if name else ""
            files = {f"{prefix}{file.stem}": str(file) for file in checkpoints(Path(path))}
        else:
            files = {name or Path(path).stem: path}
        for label, file in files.items():
            if label in paths:
                raise InvalidInputError(
                    f"candidates must have different names, got {label!r} twice. Pass NAME=PATH."
                )
            paths[label] = file
    return paths


def checkpoints(folder: Path) -> list[Path]:
    """Saved models in a directory, in the order of the numbers in their names."""
    files = sorted(folder.glob("*.zip"), key=_by_number)
    if not files:
        raise InvalidInputError(
            f"a directory of candidates must hold models saved as .zip files, got none in {folder}."
        )
    return files


def _by_number(file: Path) -> list[tuple[bool, int, str]]:
    parts = re.findall(r"\d+|\D+", file.stem)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]


def normalizers(paths: Mapping[str, str], entries: Sequence[str]) -> dict[str, Path]:
    """Statistics of VecNormalize beside the models of the directories among `entries`.

    Found are those that `CheckpointCallback` and `OffPolicyVarianceCallback` save with a model, and
    ``vecnormalize.pkl`` for all others.
    """
    folders = {Path(entry.rpartition("=")[2]).resolve() for entry in entries}
    listed = {name: Path(path) for name, path in paths.items()}
    statistics = {
        name: normalizer_of(path)
        for name, path in listed.items()
        if path.resolve().parent in folders
    }
    return {name: file for name, file in statistics.items() if file is not None}
