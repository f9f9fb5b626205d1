"""Where a callback finds its log, and whether that is the log of the training it watches."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any

import gymnasium as gym
from stable_baselines3.common.vec_env import VecEnvWrapper

from ove_sb3.data.trajectories import Trajectories
from ove_sb3.errors import EmptyLogError, InvalidInputError, StorageError

from .wrappers import LogActionProbability, VecLogActionProbability

Logger = LogActionProbability | VecLogActionProbability
Data = Trajectories | Callable[[], Trajectories] | str | PathLike[str]
_ATTEMPTS = 3


class LogSource:
    """A log that may grow.

    Parameters
    ----------
    data : Trajectories, callable or path
        A log, a function that returns one, or a directory.
    """

    def __init__(self, data: Data) -> None:
        if isinstance(data, Trajectories) and len(data) < 2:
            raise InvalidInputError(
                f"`data` must hold at least 2 episodes, got {len(data)}. Log more of them."
            )
        if not (isinstance(data, (Trajectories, str, PathLike)) or callable(data)):
            raise InvalidInputError(
                "`data` must be Trajectories, a function that returns them, or the path of a log "
                f"directory, got {type(data).__name__}."
            )
        self.data = data

    @property
    def asked_each_time(self) -> bool:
        """Whether reading calls a function of the user's."""
        return callable(self.data)

    def read(self, model: Any) -> Trajectories | None:
        """The log as it is now; None if it has no complete episode yet.

        If it is written by the training environment of `model`, that is asked to flush first.
        """
        if isinstance(self.data, Trajectories):
            return self.data
        if callable(self.data):
            found = self.data()
            if isinstance(found, Trajectories):
                return found
            raise InvalidInputError(
                f"`data` must return Trajectories when called, got {type(found).__name__}. "
                "Return what ove_sb3.collect or Trajectories.load gives."
            )
        for logger in training_loggers(model.get_env()):
            if self.is_written_by(logger):
                logger.flush()
        for attempt in range(_ATTEMPTS):
            try:
                return Trajectories.load(self.data)
            except EmptyLogError:
                return None
            except FileNotFoundError:  # a writer has just turned its file into another
                if attempt == _ATTEMPTS - 1:
                    raise
        raise StorageError(f"`{self.data}` could not be read.")  # pragma: no cover

    def is_written_by(self, logger: Logger) -> bool:
        """Whether this is what `logger` writes."""
        if callable(self.data):
            return getattr(self.data, "__self__", None) is logger
        return logger.has_logged(self.data)

    def may_be_own(self, data: Trajectories | None, model: Any) -> bool:
        """Whether `model` may have learned from this log, last read as `data`.

        Nothing in a log names the model itself; a log of learning by its class, or by an unknown
        one, has to be taken for its own.
        """
        if any(self.is_written_by(logger) for logger in training_loggers(model.get_env())):
            return True
        if data is None or not data.metadata.adaptive:
            return False
        return data.metadata.behavior in (None, type(model).__name__)


def training_loggers(venv: Any) -> list[Logger]:
    """Logging wrappers around a training environment, as far as this process can see them."""
    found: list[Logger] = []
    while isinstance(venv, VecEnvWrapper):
        if isinstance(venv, VecLogActionProbability):
            found.append(venv)
        venv = venv.venv
    for env in getattr(venv, "envs", ()):
        while isinstance(env, gym.Wrapper):
            if isinstance(env, LogActionProbability):
                found.append(env)
            env = env.env
    return found
