"""Callbacks named in a settings file."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

from ove_sb3.errors import InvalidInputError

CallbackLike = BaseCallback | str | Mapping[str, Any] | None


def as_callback(callback: CallbackLike, argument: str) -> BaseCallback | None:
    """A callback, from its name, or from a dict of its name to its arguments.

    Parameters
    ----------
    callback : BaseCallback, str, dict or None
        Such as ``"ove_sb3.StopTrainingOnRequirements"``, or
        ``{"ove_sb3.StopTrainingOnRequirements": {"verbose": 1}}``.
    argument : str
        Name of the argument, for errors.
    """
    if callback is None or isinstance(callback, BaseCallback):
        return callback
    options: Any = {}
    name: Any = callback
    if isinstance(callback, Mapping) and len(callback) == 1:
        ((name, options),) = callback.items()
    if not isinstance(name, str) or not isinstance(options or {}, Mapping):
        raise InvalidInputError(
            f"`{argument}` must be a callback, its name such as "
            f"'ove_sb3.StopTrainingOnRequirements', or a dict of that name to its arguments, got "
            f"{callback!r}."
        )
    module, _, kind = name.rpartition(".")
    try:
        callback_class = getattr(import_module(module), kind)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInputError(
            f"`{argument}` must name a callback that can be imported, got {name!r}: {error}."
        ) from error
    if not (isinstance(callback_class, type) and issubclass(callback_class, BaseCallback)):
        raise InvalidInputError(f"`{argument}` must name a class of callbacks, got {name!r}.")
    made: BaseCallback = callback_class(**(options or {}))
    return made
