"""Whether a log is that of the very training it is to judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.vec_env import VecEnvWrapper

from ..data.trajectories import Trajectories
from .recorder import Recorder
from .wrappers import LogActionProbability, VecLogActionProbability

Logger = LogActionProbability | VecLogActionProbability


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


def is_source(logger: Logger, source: Any) -> bool:
    """Whether `source` (a directory, a callable or Trajectories) is what `logger` writes."""
    if callable(source):
        return getattr(source, "__self__", None) is logger
    recorder: Recorder = logger._log.recorder
    if isinstance(source, Trajectories):
        return any(np.shares_memory(source.rewards, part.rewards) for part in recorder._memory)
    return recorder.path is not None and Path(recorder.path).resolve() == Path(source).resolve()


def may_be_own(data: Trajectories, model: Any) -> bool:
    """Whether `data` is a log of learning that `model` may have learned from.

    Nothing in a log names the model itself; a log of learning by its class, or by an unknown one,
    has to be taken for its own.
    """
    return data.metadata.adaptive and data.metadata.behavior in (None, type(model).__name__)
