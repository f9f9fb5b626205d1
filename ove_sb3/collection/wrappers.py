"""Wrappers that log every executed action with its probability."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from ove_sb3.data.trajectories import Trajectories
from ove_sb3.errors import InvalidInputError
from ove_sb3.policies.observations import add_batch_axis
from ove_sb3.store.index import Durability

from .action_source import ActionSource
from .dead_workers import raise_if_worker_died
from .environments import (
    known_seeds,
    metadata_of,
    metadata_of_env,
    missing_masks,
    n_choices,
    read_masks,
    seeds_at_reset,
    split_normalizer,
    stack_masks,
)
from .recorder import Recorder
from .step_logger import StepLogger
from .vector_env import MASK_METHOD


class _LogAccess:
    """Access to the log of a wrapper."""

    _logger: StepLogger

    def trajectories(self) -> Trajectories:
        """All episodes that have ended so far; with a `path`, all in the directory."""
        if self._logger.source is None:
            raise InvalidInputError(
                "`model` must be set for anything to be logged, got None. Pass it to the wrapper, "
                "call `set_model` once it exists, or train with the callback ove_sb3.BindLogger()."
            )
        return self._logger.recorder.trajectories()

    @property
    def path(self) -> str | PathLike[str] | None:
        """Directory that is written to; None for a log in memory."""
        return self._logger.recorder.path

    def use_new_directory(self) -> None:
        """Write to a directory that does not exist yet: `path`, or ``path_2``, ``path_3``, ..."""
        self._logger.recorder.use_new_directory()

    def has_logged(self, data: Trajectories | str | PathLike[str]) -> bool:
        """Whether `data` is this log, or the directory it is written to."""
        return self._logger.recorder.holds(data)

    def flush(self) -> None:
        """Write all complete episodes to disk."""
        self._logger.recorder.flush()


class VecLogActionProbability(_LogAccess, VecEnvWrapper):
    """Logs the steps of a model in a vectorized environment, with the probability of every action.

    It is usually the outermost wrapper. Below the model's own VecNormalize it works as well, and
    logs the original observations and rewards. Training is bit for bit the same as without it.

    Parameters
    ----------
    venv : VecEnv
    model : BaseAlgorithm, BasePolicy or built-in policy, optional
        The model that acts, see `action_distribution`. It may be set later by `set_model` or
        `BindLogger`, since a model is usually made with its environment. Without a model the
        wrapper passes everything through and logs nothing.
    path : path, optional
        Directory to append to; without it the log is kept in memory.
    flush_every : int
        Number of complete episodes that are written together. A killed process loses at most
        these and the episodes in progress.
    durability : {"full", "normal"}
        See `EpisodeWriter`.
    reward_range : (float, float), optional
        Smallest and largest reward of the environment, stored in the metadata.
    columns : sequence of str
        Numbers in every info of the environment, such as a cost, to log beside the reward.
    total_timesteps : int, optional
        Number of steps, of all environments together, after which nothing more is logged. State it
        for a model that does not learn and a loop over steps: intervals are then narrower than for
        a log that may have stopped at any time.

    Notes
    -----
    The model must draw the action right before the step, from the observation returned last: in
    `learn`, or by ``predict(obs)`` with ``deterministic=False``. Policies with memory need their
    state. Under a VecNormalize the original observations and rewards are logged. Episodes that have
    not ended are not logged, but counted (`Metadata.begun`). The log is marked as adaptive once the
    model learns or has changed in any other way since it first acted: weights, exploration, running
    statistics of a VecNormalize, another model.

    Examples
    --------
    >>> from stable_baselines3 import PPO
    >>> from stable_baselines3.common.env_util import make_vec_env
    >>> import ove_sb3 as ove
    >>> venv = ove.VecLogActionProbability(make_vec_env("CartPole-v1", n_envs=2))
    >>> model = PPO("MlpPolicy", venv, n_steps=64, batch_size=64, device="cpu")
    >>> venv.set_model(model)
    >>> _ = model.learn(256)
    >>> venv.trajectories().metadata.adaptive
    True
    """

    def __init__(
        self,
        venv: VecEnv,
        model: Any = None,
        path: str | PathLike[str] | None = None,
        *,
        flush_every: int = 256,
        durability: Durability = "full",
        reward_range: tuple[float, float] | None = None,
        columns: Sequence[str] = (),
        total_timesteps: int | None = None,
    ) -> None:
        super().__init__(venv)
        original, self._normalizer = split_normalizer(venv)
        metadata = metadata_of(original, reward_range=reward_range)
        recorder = Recorder(
            venv.num_envs, metadata, path, flush_every, durability, total_timesteps=total_timesteps
        )
        self._logger = StepLogger(original, recorder, columns)
        self._closed = False
        self._given_seeds: list[int] = []  # for the next reset
        self._masks: NDArray[np.bool_] | None = None
        if model is not None:
            self.set_model(model)

    @property
    def model(self) -> Any:
        """The model that acts; None as long as it is not set."""
        source = self._logger.source
        return None if source is None else source.model

    def set_model(self, model: Any) -> None:
        """Set the model that acts."""
        self._logger.set_model(model, self._normalizer)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seed environment i with `seed` + i at the next reset."""
        seeds = self.venv.seed(seed)
        self._given_seeds = known_seeds(seeds)
        if seed is not None and not self._given_seeds:
            self._given_seeds = list(range(seed, seed + self.num_envs))
        return seeds

    def reset(self) -> VecEnvObs:
        """Reset all environments; episodes in progress are not logged."""
        seeds = seeds_at_reset(self.venv) or self._given_seeds
        self._given_seeds = []
        try:
            observations = self.venv.reset()
        except BaseException as error:
            self._keep_episodes(error)
            raise
        self._logger.restart(self._original(observations), seeds)
        return observations

    def step_async(self, actions: NDArray[Any]) -> None:
        """Compute the probabilities of the actions, and send them to the environments."""
        source = self._logger.source
        masks = None
        if source is not None and source.policy.masked:
            masks = self._masks_at_draw(source)
        self._masks = None
        self._logger.before_step(actions, masks)
        try:
            self.venv.step_async(actions)
        except BaseException as error:
            self._keep_episodes(error)
            raise

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the outcome of the step, and record it."""
        try:
            observations, rewards, dones, infos = self.venv.step_wait()
        except BaseException as error:
            self._keep_episodes(error)
            raise
        original, logged_infos = rewards, infos
        if self._normalizer is not None:
            original = self._normalizer.get_original_reward()
            if self._normalizer.norm_obs:
                # Terminal observations are normalized, which cannot be undone exactly.
                logged_infos = [{**info, "terminal_observation": None} for info in infos]
        self._logger.after_step(self._original(observations), original, dones, logged_infos)
        return observations, rewards, dones, infos

    def _keep_episodes(self, error: BaseException) -> None:
        """Write complete episodes when the environments raise."""
        self._logger.recorder.flush()
        raise_if_worker_died(self.venv, error)

    def env_method(
        self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any
    ) -> list[Any]:
        """Call a method of the environments; masks that the model asks for are kept."""
        results = self.venv.env_method(method_name, *args, indices=indices, **kwargs)
        if method_name == MASK_METHOD and indices is None:
            self._masks = stack_masks(results)
        return results

    def close(self) -> None:
        """Write the remaining episodes, and close the environments."""
        if not self._closed:
            self._closed = True
            self._logger.recorder.close()
            self.venv.close()

    def _original(self, observations: Any) -> Any:
        return observations if self._normalizer is None else self._normalizer.get_original_obs()

    def _masks_at_draw(self, source: ActionSource) -> NDArray[np.bool_]:
        if source.uses_masks():
            return read_masks(self.venv) if self._masks is None else self._masks
        return np.ones((self.num_envs, n_choices(self.action_space)), dtype=np.bool_)


class LogActionProbability(
    _LogAccess,
    gym.Wrapper[Any, Any, Any, Any],
    gym.utils.RecordConstructorArgs,
):
    """Logs the steps of a model in an environment, with the probability of every action.

    For your own loops, and inside `Monitor`. Wrap several environments together with
    `VecLogActionProbability`; for a model that changes this is required.

    Parameters
    ----------
    env : gymnasium.Env
    model : BaseAlgorithm, BasePolicy or built-in policy, optional
        The model that acts, see `action_distribution`. It may be set later by `set_model`.
    path : path, optional
        Directory to append to; without it the log is kept in memory.
    flush_every : int
        Number of complete episodes that are written together. A killed process loses at most
        these and the episode in progress.
    durability : {"full", "normal"}
        See `EpisodeWriter`.
    reward_range : (float, float), optional
        Smallest and largest reward of the environment, stored in the metadata.
    columns : sequence of str
        Numbers in every info of the environment, such as a cost, to log beside the reward.
    total_timesteps : int, optional
        Number of steps after which nothing more is logged. State it for a model that does not learn
        and a loop over steps: intervals are then narrower than for a log that may have stopped at
        any time.

    Notes
    -----
    See `VecLogActionProbability`.

    Examples
    --------
    >>> import gymnasium as gym
    >>> from stable_baselines3 import PPO
    >>> import ove_sb3 as ove
    >>> model = PPO("MlpPolicy", "CartPole-v1", device="cpu")
    >>> env = ove.LogActionProbability(gym.make("CartPole-v1"), model)
    >>> observation, _ = env.reset(seed=0)
    >>> ended = False
    >>> while not ended:
    ...     action, _ = model.predict(observation)
    ...     observation, reward, terminated, truncated, _ = env.step(action)
    ...     ended = terminated or truncated
    >>> len(env.trajectories())
    1
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        model: Any = None,
        path: str | PathLike[str] | None = None,
        *,
        flush_every: int = 256,
        durability: Durability = "full",
        reward_range: tuple[float, float] | None = None,
        columns: Sequence[str] = (),
        total_timesteps: int | None = None,
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(
            self,
            _disable_deepcopy=True,
            model=model,
            path=path,
            flush_every=flush_every,
            durability=durability,
            reward_range=reward_range,
            columns=columns,
            total_timesteps=total_timesteps,
        )
        gym.Wrapper.__init__(self, env)
        metadata = metadata_of_env(env, reward_range=reward_range)
        recorder = Recorder(
            1,
            metadata,
            path,
            flush_every,
            durability,
            total_timesteps=total_timesteps,
            auto_reset=False,
        )
        self._logger = StepLogger(env, recorder, columns)
        if model is not None:
            self.set_model(model)

    def set_model(self, model: Any) -> None:
        """Set the model that acts."""
        self._logger.set_model(model, None)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment; an episode in progress is not logged."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._logger.restart(add_batch_axis(observation), known_seeds([seed]))
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Compute the probability of the action, execute it, and record the outcome."""
        self._logger.before_step(np.asarray(action)[None], self._masks())
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
        except BaseException:
            self._logger.recorder.flush()
            raise
        outcome = {
            "TimeLimit.truncated": truncated,
            "terminated": terminated,
            "terminal_observation": observation,
        }
        ended = terminated or truncated
        self._logger.after_step(add_batch_axis(observation), [float(reward)], [ended], [outcome])
        if ended:
            self._logger.observations = None  # the next step must be preceded by a reset
        return observation, reward, terminated, truncated, info

    def close(self) -> None:
        """Write the remaining episodes, and close the environment."""
        self._logger.recorder.close()
        super().close()

    def _masks(self) -> NDArray[np.bool_] | None:
        source = self._logger.source
        if source is None or not source.policy.masked:
            return None
        if not source.uses_masks():
            return np.ones((1, n_choices(self.action_space)), dtype=np.bool_)
        try:
            masks = self.env.get_wrapper_attr(MASK_METHOD)()
        except AttributeError as error:
            raise missing_masks() from error
        return stack_masks([masks])
