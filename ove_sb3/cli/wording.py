"""Messages of the library in the words of the command line: options in place of arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

_ARGUMENTS = {
    "candidate": "CANDIDATE",
    "candidates": "CANDIDATE",
    "data": "LOG",
    "env": "ENV",
    "log": "LOG",
    "model": "MODEL",
    "table": "LOG",
}
_OTHER_NAMES = {
    "estimators": "estimator",
    "n_episodes": "episodes",
    "quantities": "quantity",
    "requirements": "require",
    "rng": "seed",
}
_CLASS = "such as stable_baselines3.PPO"
_VALUE = r"(\([^()]*\)|'[^']*'|\"[^\"]*\"|\.\.\.|[\w+/-]+(?:\.\w+)*)"


def in_options(text: str, command: Callable[..., Any]) -> str:
    """`text` with the options of `command` for the arguments of the library.

    Arguments are those in backticks, and those with a value: ```delta``` becomes ```--delta```,
    and ``reward_range=(0, 1)`` becomes ``--reward-range 0 1``.
    """
    options = {
        name: f"--{name.replace('_', '-')}"
        for name in inspect.signature(command).parameters
        if name not in _ARGUMENTS
    }
    options |= {name: options[own] for name, own in _OTHER_NAMES.items() if own in options}
    text = text.replace(_CLASS, "such as --model-class PPO")
    text = text.replace("`model_class`=", "model_class=")

    def with_value(match: re.Match[str]) -> str:
        option, value = options.get(match[1]), match[2]
        if option is None:
            return match[0]
        return option if value == "True" else f"{option} {_plain(value)}"

    text = re.sub(rf"(?<![\w.-])(\w+)={_VALUE}", with_value, text)
    return re.sub(
        r"`(\w+)(\[[^`]*\])?`",
        lambda match: _named(match, options),
        text,
    )


def _named(match: re.Match[str], options: dict[str, str]) -> str:
    name, entry = match[1], match[2] or ""
    if name in options:
        return f"`{options[name]}{entry}`"
    return f"{_ARGUMENTS[name]}{entry}" if name in _ARGUMENTS else match[0]


def _plain(value: str) -> str:
    """A Python value as it is typed in a shell."""
    if value.startswith("("):
        return " ".join(part.strip() for part in value[1:-1].split(",") if part.strip())
    return "..." if value == "..." else value.strip("'\"").rpartition("stable_baselines3.")[2]
