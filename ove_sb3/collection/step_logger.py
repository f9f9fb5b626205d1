"""Logging of single steps, shared by the two wrappers."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from ove_sb3.errors import DependenceWarning, InvalidInputError
from ove_sb3.policies.mixtures import components_of
from ove_sb3.policies.observations import copy_observations
from ove_sb3.policies.provenance import mark_trained

from .action_source import ActionSource
from .changing_environment import ChangingEnvironment
from .environments import check_spaces, in_worker, n_parallel_envs
from .mode_test import ModeTest
from .recorder import Recorder
from .steps import Step, check_signals, copy_outcome, copy_step

_CERTAIN = -1e-6  # log-probability of an action that is always taken


# The last decision of a model, see `ActionSource.decision`, and who logged it.
_DECISIONS: weakref.WeakKeyDictionary[Any, tuple[bytes, weakref.ref[StepLogger]]]
_DECISIONS = weakref.WeakKeyDictionary()


class StepLogger:
    """Records every action with its probability and its outcome; nothing without a model.

    Parameters
    ----------
    env : gymnasium.Env or VecEnv
        Returns the observations that are logged.
    recorder : Recorder
    signals : sequence of str
        Infos to log as columns.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any] | VecEnv,
        recorder: Recorder,
        signals: Sequence[str] = (),
    ) -> None:
        self.env, self.recorder, self.signals = env, recorder, check_signals(signals)
        self.source: ActionSource | None = None
        self.observations: Any = None
        self.step: Step | None = None
        self._model: Any = None
        self._unbound_steps = 0  # since the last reset
        self._fresh = self._acted = self._marked = self._trained = False
        self._adaptive = False  # stays True once it is
        self._shared = False  # likewise
        self._mode_test = ModeTest()
        self._environment = ChangingEnvironment(env)
        self._changed = False  # the environment, since the last reset
        self._fingerprint: str | None = None
        self._state_digest: str | None = None

    def set_model(self, model: Any, normalizer: Any) -> None:
        """Set the model that acts."""
        source = ActionSource(model, self.recorder.n_envs, normalizer)
        check_spaces(source.policy, self.env, "Put the logging wrapper where the model acts.")
        if self._unbound_steps:
            raise InvalidInputError(
                "`model` must be set before the first step of an episode, or after a reset, but "
                f"{self._unbound_steps} steps were taken without it."
            )
        self.recorder.open()
        self.source, self._fresh, self._trained = source, True, False

    def _start_model(self, source: ActionSource) -> None:
        """Compare a model that acts for the first time with the one that acted before."""
        fingerprint, state_digest = source.policy.fingerprint(), source.policy.state_digest()
        if source.model is self._model:
            same = state_digest == self._state_digest
            if not same and self._acted:
                self._mark_trained(source)
        else:
            same = fingerprint is not None and fingerprint == self._fingerprint
        self._adaptive |= self._acted and not same
        self._note_shared_exploration(source)
        self._model, self._fingerprint, self._state_digest = source.model, fingerprint, state_digest
        self._fresh = False
        # In `learn`: the number of steps it was called with.
        total = getattr(source.model, "_total_timesteps", 0)
        self.recorder.expect(int(total) - int(getattr(source.model, "num_timesteps", 0)))
        components = () if self._adaptive else components_of(source.policy)
        self.recorder.mark(behavior=type(source.model).__name__, components=components)
        if not self._adaptive:
            self.recorder.mark(adaptive=False, fingerprint=fingerprint)

    def _note_shared_exploration(self, source: ActionSource) -> None:
        if self._shared or not source.shares_exploration:
            return
        n_envs = n_parallel_envs() if isinstance(self.env, gym.Env) else self.recorder.n_envs
        if n_envs > 1:
            self._shared = True
            self.recorder.mark(shared_exploration=True)
            _warn_shared(source, f"all of its {n_envs} environments")
        elif in_worker():
            self._shared = True
            self.recorder.mark(shared_exploration=True)
            _warn_shared(source, "all of its environments")

    def _compare_decision(self, source: ActionSource) -> None:
        """Notice another wrapper whose last action the model decided on together with this one."""
        if not isinstance(self.env, gym.Env) or (decision := source.decision()) is None:
            return
        last, other = _DECISIONS.get(source.model, (None, None))
        _DECISIONS[source.model] = decision, weakref.ref(self)
        if other is None or decision != last or (logger := other()) is self:
            return
        for one in (self, logger):
            if one is not None and not one._shared:
                one._shared = True
                # An episode of one step may have ended already.
                one.recorder.mark_all(shared_exploration=True)
                _warn_shared(source, "several environments")

    def restart(self, observations: Any, seeds: Sequence[int] = ()) -> None:
        """Begin new episodes with these observations, and seeds if any were set."""
        self.observations = copy_observations(observations)
        self._unbound_steps = 0
        self._changed = self._environment.changes
        self.recorder.restart(seeds)
        if self.source is not None:
            self.source.restart()
            if self._fresh:
                self.source.before_draw()

    def before_step(self, actions: NDArray[Any], masks: Any) -> None:
        """Compute the log-probabilities of actions that are about to be executed."""
        if self.source is None:
            self._unbound_steps += 1
            return
        if self.observations is None:
            raise InvalidInputError("`reset` must be called before the first step.")
        first = self._fresh and self.source.model is not self._model
        if self._fresh:
            self._start_model(self.source)
        log_probs = self.source.log_prob(self.observations, np.array(actions), masks)
        self._acted = True  # it was not refused
        self._compare_decision(self.source)
        if first:
            self.recorder.add_seeds(self.source.drawn_from())
        self._check_drawn(self.source)
        columns = self.source.columns
        self.step = copy_step(self.observations, actions, log_probs, masks, columns)
        if self.source.adaptive:
            self._adaptive = True
            self._mark_trained(self.source)
        if self._adaptive and not self._marked:
            self._mark_adaptive()

    def _check_drawn(self, source: ActionSource) -> None:
        """Refuse to go on, and mark the log, once actions are certainly not drawn."""
        if source.mode is None:
            return
        if self._mode_test.add(*source.mode, dependent=self._shared):
            if not self.recorder.metadata.deterministic_actions:
                self.recorder.mark_all(deterministic_actions=True)
            raise source.not_drawn(
                "more often than chance allows (error probability 1e-6). Their logged "
                "probabilities are wrong, and the log is marked as such: begin a new one"
            )
        if source.deterministic_evaluation and (source.mode[1] < _CERTAIN).any():
            raise source.not_drawn("because evaluate_policy runs with deterministic=True")

    def after_step(self, observations: Any, rewards: Any, dones: Any, infos: Any) -> None:
        """Record the outcome of the step."""
        if self.source is None:
            return
        assert self.step is not None
        outcome = copy_outcome(observations, rewards, dones, infos, self.signals)
        self.source.end_step(outcome.dones)
        self._changed = self._changed or self._environment.changes
        if self._changed and not self.recorder.metadata.changing_environment:
            self.recorder.mark(changing_environment=True)
        if not self._adaptive and outcome.ends:
            # Nothing signals a change of weights and statistics: their content is compared.
            self._adaptive = self.source.policy.state_digest() != self._state_digest
            if self._adaptive:
                self._mark_trained(self.source)
                self._mark_adaptive()
        self.recorder.add(self.step, outcome)
        self.observations = outcome.observations

    def _mark_adaptive(self) -> None:
        if isinstance(self.env, gym.Env) and (n_envs := n_parallel_envs()) > 1:
            raise InvalidInputError(
                f"`env` must be the only environment of a model that changes, got {n_envs} in "
                "parallel: the log would not tell which episodes the model had seen when another "
                "began. Use VecLogActionProbability around all of them."
            )
        self._marked = True
        # The policies of a mixture are no longer those that were recorded.
        self.recorder.mark(adaptive=True, fingerprint=None, components=())

    def _mark_trained(self, source: ActionSource) -> None:
        """Let the model remember that it may have learned from this log."""
        if not self._trained:
            self._trained = True
            mark_trained(source.model, self.recorder.metadata.log_ids)


def _warn_shared(source: ActionSource, environments: str) -> None:
    what = "whether" if source.shares_exploration else "how"  # one noise matrix of gSDE
    warnings.warn(
        f"{type(source.model).__name__} decides once for {environments} {what} to explore, in "
        "`learn` and in `predict`: their episodes are dependent, and intervals from this log are "
        "labeled approximate. Log with one environment, or use ove_sb3.collect, which decides for "
        "each of them.",
        DependenceWarning,
        stacklevel=2,
    )
