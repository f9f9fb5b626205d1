"""Wrappers that log every executed action with its probability; nothing else changes."""

from __future__ import annotations

from os import PathLike
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from ove_sb3.data.metadata import Metadata
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.errors import InvalidInputError

from .drawing import Drawing
from .environments import (
    MASK_METHOD,
    check_spaces,
    copy_rows,
    metadata_of,
    metadata_of_env,
    read_masks,
    side_by_side,
    split_normalizer,
)
from .recorder import Recorder, Step


class _Log:
    """What both wrappers do: ask for the law of an action, and record it with its outcome."""

    def __init__(
        self, env: Any, metadata: Metadata, path: str | PathLike[str] | None, flush_every: int
    ) -> None:
        self.env = env
        self.n_envs = env.num_envs if isinstance(env, VecEnv) else 1
        self.single = isinstance(env, gym.Env)
        self.recorder = Recorder(self.n_envs, metadata, path, flush_every)
        self.drawing: Drawing | None = None
        self.observations: Any = None
        self.step: Step | None = None
        self._model: Any = None
        self._fresh = self._acted = self._noted = False
        self._adaptive = False  # True once and for all
        self._fingerprint: str | None = None
        self._condition: str | None = None

    def follow(self, model: Any, normalizer: Any) -> None:
        drawing = Drawing(model, self.n_envs, normalizer)
        check_spaces(drawing.law, self.env, "Put the logging wrapper where the model acts.")
        self.drawing, self._fresh = drawing, True

    def _begin(self, drawing: Drawing) -> None:
        """A model is about to act for the first time since it was named."""
        fingerprint, condition = drawing.law.fingerprint(), drawing.law.condition()
        if drawing.model is self._model:
            same = condition == self._condition
        else:
            same = fingerprint is not None and fingerprint == self._fingerprint
        self._adaptive |= self._acted and not same
        self._model, self._fingerprint, self._condition = drawing.model, fingerprint, condition
        self._acted, self._fresh = True, False
        self.recorder.name_behavior(type(drawing.model).__name__)
        if not self._adaptive:
            self.recorder.note(adaptive=False, fingerprint=fingerprint)

    def restart(self, observations: Any) -> None:
        self.observations = copy_rows(observations)
        self.recorder.restart()
        if self.drawing is not None:
            self.drawing.restart()

    def before(self, actions: NDArray[Any], masks: Any) -> None:
        if self.drawing is None:
            raise InvalidInputError(
                "`model` must be set before the first step, got None. Pass it to the wrapper, or "
                "call `set_model` once it exists."
            )
        if self.observations is None:
            raise InvalidInputError("`reset` must be called before the first step.")
        if self._fresh:
            self._begin(self.drawing)
        actions = np.array(actions)
        log_probs = self.drawing.log_prob(self.observations, actions, masks)
        self.step = Step(self.observations, actions, log_probs, masks)
        self._adaptive |= self.drawing.adaptive
        if self._adaptive and not self._noted:
            self._note_adaptive()

    def after(self, observations: Any, rewards: Any, dones: Any, infos: Any) -> None:
        assert self.drawing is not None
        assert self.step is not None
        self.drawing.ended(dones)
        if not self._adaptive and dones.any():
            # Weights and statistics can change without a trace: their content is compared.
            self._adaptive = self.drawing.law.condition() != self._condition
            if self._adaptive:
                self._note_adaptive()
        # SB3 changes the rewards it is given in place at time-outs.
        self.recorder.add(self.step, np.array(rewards, dtype=np.float64), dones, infos)
        self.observations = copy_rows(observations)

    def _note_adaptive(self) -> None:
        if self.single and (n_envs := side_by_side()) > 1:
            raise InvalidInputError(
                f"`env` must be the only one in which a model acts that changes, got {n_envs} side "
                "by side: the log would not tell which episodes the model had seen when another "
                "began. Use VecLogActionProbability around them all."
            )
        self._noted = True
        self.recorder.note(adaptive=True, fingerprint=None)


class _Logger:
    """What both wrappers offer of their log."""

    _log: _Log

    def trajectories(self) -> Trajectories:
        """All episodes that have ended so far (with a `path`: all in the directory)."""
        return self._log.recorder.trajectories()

    def has_logged(self, data: Trajectories | str | PathLike[str]) -> bool:
        """Whether `data` is this log, or the directory it is written to."""
        return self._log.recorder.holds(data)

    def flush(self) -> None:
        """Write all whole episodes to disk now."""
        self._log.recorder.flush()


class VecLogActionProbability(_Logger, VecEnvWrapper):
    """Logs what a model does in a vectorised environment, with the probability of every action.

    Put it outermost; `learn` and loops of your own stay as they are, and training is bit for bit
    the same as without it.

    Parameters
    ----------
    venv : VecEnv
    model : BaseAlgorithm, BasePolicy or ready policy, optional
        Who acts, see `action_distribution`. May be set later by `set_model`, since a model is
        usually made with its environment.
    path : path, optional
        Directory to append to; without it the log is kept in memory.
    flush_every : int
        Whole episodes written together: a killed process loses at most these and the
        unfinished ones.
    reward_range : (float, float), optional
        Noted in the metadata: smallest and largest reward the environment can give.

    Notes
    -----
    The action must be drawn by the model right before the step, from the observation last
    returned: in `learn`, or by ``predict(obs)`` with ``deterministic=False``. Policies with memory
    must be given their state. Under a VecNormalize the original observations and rewards are
    logged. Episodes that have not ended are not logged. A log is marked as adaptive once the model
    learns or was changed in any other way since it first acted: weights, exploration, running
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
        flush_every: int = 64,
        reward_range: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(venv)
        original, self._normalizer = split_normalizer(venv)
        metadata = metadata_of(original, reward_range=reward_range)
        self._log = _Log(original, metadata, path, flush_every)
        self._masks: NDArray[np.bool_] | None = None
        if model is not None:
            self.set_model(model)

    def set_model(self, model: Any) -> None:
        """Name the model that acts."""
        self._log.follow(model, self._normalizer)

    def reset(self) -> VecEnvObs:
        """Reset all environments; unfinished episodes are not logged."""
        observations = self.venv.reset()
        self._log.restart(self._original(observations))
        return observations

    def step_async(self, actions: NDArray[Any]) -> None:
        """Note the law of the actions, then send them on."""
        drawing = self._log.drawing
        masks = None
        if drawing is not None and drawing.law.masked:
            masks = self._masks_at_draw(drawing)
        self._masks = None
        self._log.before(actions, masks)
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the outcome, and note it."""
        observations, rewards, dones, infos = self.venv.step_wait()
        seen = rewards if self._normalizer is None else self._normalizer.get_original_reward()
        notes = infos
        if self._normalizer is not None and self._normalizer.norm_obs:
            # Terminal observations come normalised, which cannot be undone exactly.
            notes = [{**info, "terminal_observation": None} for info in infos]
        self._log.after(self._original(observations), seen, dones, notes)
        return observations, rewards, dones, infos

    def env_method(
        self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any
    ) -> list[Any]:
        """Call a method of the environments; masks the model asks for are remembered."""
        found = self.venv.env_method(method_name, *args, indices=indices, **kwargs)
        if method_name == MASK_METHOD and indices is None:
            self._masks = np.stack([np.asarray(mask, dtype=np.bool_).ravel() for mask in found])
        return found

    def close(self) -> None:
        """Write the rest of the log, and close the environments."""
        self._log.recorder.close()
        self.venv.close()

    def _original(self, observations: Any) -> Any:
        return observations if self._normalizer is None else self._normalizer.get_original_obs()

    def _masks_at_draw(self, drawing: Drawing) -> NDArray[np.bool_]:
        if drawing.uses_masks():
            return read_masks(self.venv) if self._masks is None else self._masks
        return np.ones((self.num_envs, n_choices(self.action_space)), dtype=np.bool_)


class LogActionProbability(
    _Logger,
    gym.Wrapper[Any, Any, Any, Any],
    gym.utils.RecordConstructorArgs,
):
    """Logs what a model does in an environment, with the probability of every action.

    For loops of your own, and inside `Monitor`. Several environments at once are better wrapped
    together by `VecLogActionProbability`; a model that changes must be.

    Parameters
    ----------
    env : gymnasium.Env
    model : BaseAlgorithm, BasePolicy or ready policy, optional
        Who acts, see `action_distribution`. May be set later by `set_model`.
    path : path, optional
        Directory to append to; without it the log is kept in memory.
    flush_every : int
        Whole episodes written together: a killed process loses at most these and the
        unfinished one.
    reward_range : (float, float), optional
        Noted in the metadata: smallest and largest reward the environment can give.

    Notes
    -----
    As for `VecLogActionProbability`.

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
        flush_every: int = 64,
        reward_range: tuple[float, float] | None = None,
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(
            self,
            _disable_deepcopy=True,
            model=model,
            path=path,
            flush_every=flush_every,
            reward_range=reward_range,
        )
        gym.Wrapper.__init__(self, env)
        metadata = metadata_of_env(env, reward_range=reward_range)
        self._log = _Log(env, metadata, path, flush_every)
        if model is not None:
            self.set_model(model)

    def set_model(self, model: Any) -> None:
        """Name the model that acts."""
        self._log.follow(model, None)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment; an unfinished episode is not logged."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._log.restart(_batch(observation))
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Note the law of the action, execute it, and note the outcome."""
        self._log.before(np.asarray(action)[None], self._masks())
        observation, reward, terminated, truncated, info = self.env.step(action)
        note = {
            "TimeLimit.truncated": truncated,
            "terminated": terminated,
            "terminal_observation": observation,
        }
        done = np.array([terminated or truncated])
        self._log.after(_batch(observation), np.array([float(reward)]), done, [note])
        if done[0]:
            self._log.observations = None  # the next step must be preceded by a reset
        return observation, reward, terminated, truncated, info

    def close(self) -> None:
        """Write the rest of the log, and close the environment."""
        self._log.recorder.close()
        super().close()

    def _masks(self) -> NDArray[np.bool_] | None:
        drawing = self._log.drawing
        if drawing is None or not drawing.law.masked:
            return None
        if not drawing.uses_masks():
            return np.ones((1, n_choices(self.action_space)), dtype=np.bool_)
        try:
            masks = self.env.get_wrapper_attr(MASK_METHOD)()
        except AttributeError as error:
            raise InvalidInputError(
                "`env` must have a method `action_masks` for a policy that is masked. Add it, or "
                "wrap the environment in sb3_contrib's ActionMasker."
            ) from error
        return np.asarray(masks, dtype=np.bool_).reshape(1, -1)


def n_choices(space: gym.Space[Any]) -> int:
    """Number of entries of an action mask."""
    if isinstance(space, gym.spaces.Discrete):
        return int(space.n)
    if isinstance(space, gym.spaces.MultiDiscrete):
        return int(np.sum(space.nvec))
    return 2 * int(np.prod(space.shape or ()))


def _batch(observation: Any) -> Any:
    if isinstance(observation, dict):
        return {key: np.asarray(value)[None] for key, value in observation.items()}
    return np.asarray(observation)[None]
