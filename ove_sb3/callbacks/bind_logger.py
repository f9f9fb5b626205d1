"""Bind a logging wrapper to the model that trains in it."""

from __future__ import annotations

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper

from ove_sb3.collection.wrappers import VecLogActionProbability
from ove_sb3.errors import InvalidInputError


class BindLogger(BaseCallback):
    """Bind the `VecLogActionProbability` of the training environment to the model that trains.

    A model is made with its environment, so that the wrapper cannot know it in advance. Settings
    files name this callback beside the wrapper. Wrappers of other environments, such as that of an
    `EvalCallback`, stay unbound: they log nothing. Every run gets a log directory of its own: if
    the wrapper's `path` exists, ``path_2``, ``path_3`` and so on. With ``verbose=1`` its name is
    printed.

    Examples
    --------
    >>> from stable_baselines3 import PPO
    >>> from stable_baselines3.common.env_util import make_vec_env
    >>> import ove_sb3 as ove
    >>> venv = ove.VecLogActionProbability(make_vec_env("CartPole-v1", n_envs=2))
    >>> model = PPO("MlpPolicy", venv, n_steps=64, batch_size=64, device="cpu")
    >>> _ = model.learn(256, callback=ove.BindLogger())
    >>> venv.trajectories().metadata.adaptive
    True
    """

    def _on_training_start(self) -> None:
        logger = find_logger(self.training_env)
        if logger.model is self.model:
            return
        if logger.model is None:
            logger.use_new_directory()
            if self.verbose >= 1 and logger.path is not None:
                print(f"Logging to {logger.path}")
        logger.set_model(self.model)

    def _on_step(self) -> bool:
        return True


def find_logger(venv: VecEnv) -> VecLogActionProbability:
    """The logging wrapper among the wrappers of an environment."""
    inner: VecEnv = venv
    while isinstance(inner, VecEnvWrapper):
        if isinstance(inner, VecLogActionProbability):
            return inner
        inner = inner.venv
    raise InvalidInputError(
        "`BindLogger` must be used with an environment in a VecLogActionProbability, got "
        f"{type(venv).__name__} without one. Wrap the training environment."
    )
