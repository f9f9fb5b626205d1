"""Logging of single steps, shared by the two wrappers."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from ove_sb3.errors import InvalidInputError

from .action_source import ActionSource
from .environments import check_spaces, copy_observations, n_parallel_envs
from .recorder import Recorder, Step


class StepLogger:
    """Records every action with its probability and its outcome.

    Parameters
    ----------
    env : gymnasium.Env or VecEnv
        Returns the observations that are logged.
    recorder : Recorder
    """

    def __init__(self, env: gym.Env[Any, Any] | VecEnv, recorder: Recorder) -> None:
        self.env, self.recorder = env, recorder
        self.source: ActionSource | None = None
        self.observations: Any = None
        self.step: Step | None = None
        self._model: Any = None
        self._fresh = self._acted = self._marked = False
        self._adaptive = False  # stays True once it is
        self._fingerprint: str | None = None
        self._state_digest: str | None = None

    def set_model(self, model: Any, normalizer: Any) -> None:
        """Set the model that acts."""
        source = ActionSource(model, self.recorder.n_envs, normalizer)
        check_spaces(source.policy, self.env, "Put the logging wrapper where the model acts.")
        self.source, self._fresh = source, True

    def _start_model(self, source: ActionSource) -> None:
        """Compare a model that acts for the first time with the one that acted before."""
        fingerprint, state_digest = source.policy.fingerprint(), source.policy.state_digest()
        if source.model is self._model:
            same = state_digest == self._state_digest
        else:
            same = fingerprint is not None and fingerprint == self._fingerprint
        self._adaptive |= self._acted and not same
        self._model, self._fingerprint, self._state_digest = source.model, fingerprint, state_digest
        self._acted, self._fresh = True, False
        # In `learn`: the number of steps it was called with.
        total = getattr(source.model, "_total_timesteps", 0)
        self.recorder.expect(int(total) - int(getattr(source.model, "num_timesteps", 0)))
        self.recorder.name_behavior(type(source.model).__name__)
        if not self._adaptive:
            self.recorder.mark(adaptive=False, fingerprint=fingerprint)

    def restart(self, observations: Any) -> None:
        """Begin new episodes with these observations."""
        self.observations = copy_observations(observations)
        self.recorder.restart()
        if self.source is not None:
            self.source.restart()

    def before_step(self, actions: NDArray[Any], masks: Any) -> None:
        """Compute the log-probabilities of actions that are about to be executed."""
        if self.source is None:
            raise InvalidInputError(
                "`model` must be set before the first step, got None. Pass it to the wrapper, or "
                "call `set_model` once it exists."
            )
        if self.observations is None:
            raise InvalidInputError("`reset` must be called before the first step.")
        if self._fresh:
            self._start_model(self.source)
        actions = np.array(actions)
        log_probs = self.source.log_prob(self.observations, actions, masks)
        self.step = Step(self.observations, actions, log_probs, masks)
        self._adaptive |= self.source.adaptive
        if self._adaptive and not self._marked:
            self._mark_adaptive()

    def after_step(self, observations: Any, rewards: Any, dones: Any, infos: Any) -> None:
        """Record the outcome of the step."""
        assert self.source is not None
        assert self.step is not None
        self.source.end_step(dones)
        if not self._adaptive and dones.any():
            # Nothing signals a change of weights and statistics: their content is compared.
            self._adaptive = self.source.policy.state_digest() != self._state_digest
            if self._adaptive:
                self._mark_adaptive()
        # SB3 changes the rewards it is given in place at time-outs.
        self.recorder.add(self.step, np.array(rewards, dtype=np.float64), dones, infos)
        self.observations = copy_observations(observations)

    def _mark_adaptive(self) -> None:
        if isinstance(self.env, gym.Env) and (n_envs := n_parallel_envs()) > 1:
            raise InvalidInputError(
                f"`env` must be the only environment of a model that changes, got {n_envs} in "
                "parallel: the log would not tell which episodes the model had seen when another "
                "began. Use VecLogActionProbability around all of them."
            )
        self._marked = True
        self.recorder.mark(adaptive=True, fingerprint=None)
