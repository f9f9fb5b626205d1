"""Log that a callback evaluates, and whether it may be that of the model's own training."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any

import gymnasium as gym
from stable_baselines3.common.vec_env import VecEnvWrapper

from ove_sb3.data.log import Log, LogLike, as_log
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.errors import EmptyLogError, InvalidInputError

from .wrappers import LogActionProbability, VecLogActionProbability

Logger = LogActionProbability | VecLogActionProbability
Data = Trajectories | Log | Callable[[], Trajectories] | str | PathLike[str]
ATTEMPTS = 3


class LogSource:
    """A log that may grow.

    Parameters
    ----------
    data : Trajectories, Log, callable or path
        A log, a function that returns one, or a directory.
    """

    def __init__(self, data: Data) -> None:
        if isinstance(data, Trajectories) and len(data) < 2:
            raise InvalidInputError(
                f"`data` must hold at least 2 episodes, got {len(data)}. Log more of them."
            )
        if not (isinstance(data, (Trajectories, Log, str, PathLike)) or callable(data)):
            raise InvalidInputError(
                "`data` must be Trajectories, a log opened by open_log, a function that returns "
                f"Trajectories, or the path of a log directory, got {type(data).__name__}."
            )
        self.data = data

    @property
    def is_function(self) -> bool:
        """Whether reading calls a function of the user."""
        return callable(self.data)

    @property
    def is_path(self) -> bool:
        """Whether the log is a directory that is opened at every evaluation."""
        return isinstance(self.data, (str, PathLike))

    def open(self, model: Any) -> LogLike | None:
        """The log as it is now; None if it has no complete episode yet.

        If it is written by the training environment of `model`, that one is flushed first. A log
        on disk is streamed, not loaded.
        """
        if isinstance(self.data, (Trajectories, Log)):
            return as_log(self.data)
        if callable(self.data):
            trajectories = self.data()
            if isinstance(trajectories, Trajectories):
                return as_log(trajectories)
            raise InvalidInputError(
                f"`data` must return Trajectories when called, got {type(trajectories).__name__}. "
                "Return what ove_sb3.collect or Trajectories.load gives."
            )
        for logger in training_loggers(model.get_env()):
            if self.is_written_by(logger):
                logger.flush()
        try:
            return as_log(self.data)
        except EmptyLogError:
            return None

    def is_written_by(self, logger: Logger) -> bool:
        """Whether `logger` writes this log."""
        if callable(self.data):
            return getattr(self.data, "__self__", None) is logger
        data = self.data.path if isinstance(self.data, Log) else self.data
        return logger.has_logged(data)

    def may_be_own(self, log: LogLike | None, model: Any) -> bool:
        """Whether `model` may have learned from this log, last opened as `log`.

        Nothing in a log names the model itself; a log of learning by its class, or by an unknown
        one, is treated as its own.
        """
        if any(self.is_written_by(logger) for logger in training_loggers(model.get_env())):
            return True
        if log is None or not log.metadata.adaptive:
            return False
        return log.metadata.behavior in (None, type(model).__name__)


def training_loggers(venv: Any) -> list[Logger]:
    """Logging wrappers around a training environment, as far as this process can see them."""
    loggers: list[Logger] = []
    while isinstance(venv, VecEnvWrapper):
        if isinstance(venv, VecLogActionProbability):
            loggers.append(venv)
        venv = venv.venv
    for env in getattr(venv, "envs", ()):
        while isinstance(env, gym.Wrapper):
            if isinstance(env, LogActionProbability):
                loggers.append(env)
            env = env.env
    return loggers
