"""Distribution that the action being executed was drawn from.

A wrapper sees an action on its way to the environment, after it was drawn and before the model can
change. In `learn` its distribution depends on more than the policy: the warm-up of off-policy
algorithms, their action noise and its state, action masks, the noise matrix of gSDE.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.distributions import StateDependentNoiseDistribution
from stable_baselines3.common.noise import VectorizedActionNoise
from stable_baselines3.common.vec_env import VecNormalize

from ove_sb3._validation import FloatArray
from ove_sb3.data.seeds import SeedRange
from ove_sb3.errors import InvalidInputError, UnsupportedPolicyError
from ove_sb3.policies.bounds import BoxBounds
from ove_sb3.policies.box import NoisyUniform
from ove_sb3.policies.dispatch import as_policy
from ove_sb3.policies.distribution import ActionDistribution
from ove_sb3.policies.fingerprint import tensor_bytes
from ove_sb3.policies.observations import Observation
from ove_sb3.policies.policy import Masks, Policy, PolicyContext
from ove_sb3.policies.sb3.actor_critic import ActorCriticAdapter
from ove_sb3.policies.sb3.dqn import GreedyAdapter
from ove_sb3.policies.sb3.generators import numpy_state, space_generator
from ove_sb3.policies.sb3.noise import GaussianNoise
from ove_sb3.policies.sb3.td3 import TD3Adapter
from ove_sb3.policies.uniform import uniform_distribution

from .callers import STEP_METHODS, check_actor, check_normalizer, passes_on
from .draws import see_states

_IN_CALLBACKS = ("on_step", "on_rollout_start", "on_rollout_end")
_OWN_FRAMES = 4  # from `_learning` up to the step of the logging wrapper
_MAX_FRAMES = 40  # between a step of an environment and `collect_rollouts`


class ActionSource:
    """A model that acts in `n_envs` environments, in `learn` or in a loop of the user's own.

    Parameters
    ----------
    model : object
        See `action_distribution`.
    n_envs : int
    normalizer : VecNormalize, optional
        Normalizes the observations of the model; by default the model's own.

    Attributes
    ----------
    policy : Policy
    adaptive : bool
        Whether the model has acted in `learn`.
    mode : (ndarray of bool, ndarray), each (n_envs,), or None
        Whether each of the last actions was the most probable one, and the log-probability of this
        event; None in `learn`, which always draws.
    columns : dict of str to ndarray, (n_envs, ...)
        Values to log beside the last log-probabilities.
    deterministic_evaluation : bool
        Whether the last actions were taken by ``evaluate_policy(..., deterministic=True)``, as in
        an EvalCallback.
    """

    def __init__(self, model: Any, n_envs: int, normalizer: VecNormalize | None = None) -> None:
        check_normalizer(model, normalizer)
        self.model, self.n_envs, self.normalizer = model, n_envs, normalizer
        self.policy: Policy = as_policy(model, vec_normalize=normalizer)
        self._sb3_policy = getattr(model, "policy", None)
        self.adaptive = False
        self.deterministic_evaluation = False
        self.mode: tuple[NDArray[np.bool_], FloatArray] | None = None
        self.columns: Mapping[str, NDArray[Any]] = {}
        self._start = np.ones(n_envs, dtype=np.bool_)
        self._state: Any = None
        self._matrix: Any = None
        self._states = self._see_states()
        self._coin = numpy_state() if self.shares_exploration else b""

    def restart(self) -> None:
        """Begin new episodes: the environments were reset."""
        self._start[:] = True

    def before_draw(self) -> None:
        """Note the states of the random generators before the first action is drawn."""
        self._states = self._see_states()

    def drawn_from(self) -> tuple[SeedRange, ...]:
        """Entries of `Metadata.seeds` for the generators that the first action was drawn from.

        Empty if they have not moved: the action was drawn in another way, or in another process.
        """
        states = see_states(self.policy.generators())
        if self.adaptive and self._warming_up():
            states += see_states(space_generator(self.model.action_space))
        return () if set(states) <= set(self._states) else states

    def decision(self) -> bytes | None:
        """What the last action was decided by if others share it; equal only for one decision.

        The state of the generator after DQN's coin, or the noise matrix of gSDE if there is one for
        all environments. None for other policies, and if the action was drawn in another way.
        """
        if self.shares_exploration:
            before, self._coin = self._coin, numpy_state()
            return None if self._coin == before else self._coin
        kind = self._gsde()
        if kind is None or len(kind.exploration_matrices) > 1:
            return None
        return tensor_bytes(kind.exploration_mat)

    def _see_states(self) -> tuple[SeedRange, ...]:
        states = see_states(self.policy.generators())
        if hasattr(self.model, "learning_starts"):
            states += see_states(space_generator(self.model.action_space))  # of the warm-up
        return states

    def log_prob(
        self, observations: Observation, actions: NDArray[Any], masks: Masks | None
    ) -> NDArray[Any]:
        """Log-probabilities of actions on their way to the environments, (n_envs,).

        Or the log-probabilities of all choices, (n_envs, k), for the recorder to pick from.
        """
        if getattr(self.model, "policy", None) is not self._sb3_policy:  # it was replaced
            self.policy = as_policy(self.model, vec_normalize=self.normalizer)
            self._sb3_policy = self.model.policy
        learning = self._learning() is not None
        self.mode = None
        if learning:
            self.adaptive = True
            if isinstance(self.policy, ActorCriticAdapter) and not self.policy.recurrent:
                last = self.policy.last_log_probs(actions)
                if last is not None:
                    return last
        if learning and self._warming_up():
            distribution = self._warm_up_distribution()
        else:
            self._check_noise_matrix()
            context = PolicyContext(masks, self._state_before_draw(), self._start)
            distribution = self.policy.distribution(observations, context)
        log_probs = distribution.log_prob(actions)
        self.columns = distribution.columns
        if not learning:
            self._refuse_noiseless(observations, actions)
            self.mode = distribution.mode_probability(actions)
        self._keep_state(distribution, learning)
        return log_probs

    def uses_masks(self) -> bool:
        """Whether the model uses action masks: not in ``learn(use_masking=False)``."""
        if not self.policy.masked:
            return False
        learning = self._learning()
        return learning is None or bool(learning.f_locals.get("use_masking", True))

    def end_step(self, dones: NDArray[np.bool_]) -> None:
        """Finish a step: a new episode begins where `dones` is True."""
        self._start = np.array(dones, dtype=np.bool_)

    def _learning(self) -> FrameType | None:
        """Frame of the model's `collect_rollouts` if that executes the action, else None.

        Refuses another model that acts, and wrappers in between that change what it sees or does.

        Nothing in the state of a model tells `learn` from a user's loop that calls `predict`, and
        only `learn` adds the warm-up and the action noise.
        """
        self.deterministic_evaluation = False
        frame = sys._getframe(_OWN_FRAMES - 1).f_back  # None if no Python code called the step
        around = True  # as long as the frames are those of wrappers around the logging one
        for _ in range(_MAX_FRAMES):
            if frame is None:
                return None
            name = frame.f_code.co_name
            if around and name in STEP_METHODS:
                around = passes_on(frame.f_locals.get("self"), self.policy)
            elif self._searching(frame):
                raise UnsupportedPolicyError(
                    "`model` must not be ARS while it learns: it acts deterministically with other "
                    "weights than its own, so that there is no probability to log. Log it after "
                    "training, with ove_sb3.collect."
                )
            elif name == "evaluate_policy" and not self._searching(frame.f_back):
                check_actor(frame.f_locals.get("model"), self.model)
                self.deterministic_evaluation = frame.f_locals.get("deterministic") is True
                return None
            elif name in _IN_CALLBACKS and isinstance(frame.f_locals.get("self"), BaseCallback):
                return None  # it steps an environment of its own
            elif name == "collect_rollouts":
                # At every step: the frame of another model may be at the same address later.
                learner = frame.f_locals.get("self")
                check_actor(learner, self.model)
                if learner is self.model:
                    return frame
            frame = frame.f_back
        return None

    def _searching(self, frame: FrameType | None) -> bool:
        """Whether ARS is trying candidates in this frame."""
        if frame is None or frame.f_code.co_name != "evaluate_candidates":
            return False
        return frame.f_locals.get("self") is self.model

    # --- memory: LSTM states, Ornstein-Uhlenbeck noise

    def _state_before_draw(self) -> Any:
        first = getattr(self.model, "num_timesteps", 0) == getattr(
            self.model, "_num_timesteps_at_start", None
        )
        # `learn` resets its noise when it starts, even in the middle of an episode.
        return None if first and self.policy.has_noise_state else self._state

    def _keep_state(self, distribution: ActionDistribution, learning: bool) -> None:
        if self.policy.has_noise_state:
            if not learning:
                raise UnsupportedPolicyError(
                    "`model` must act in `learn` if it has Ornstein-Uhlenbeck noise: in a loop "
                    "of your own the state of the noise is not known. Use ove_sb3.collect."
                )
            self._state = _current_noise(self.model.action_noise, self.n_envs)
        else:
            self._state = distribution.state

    # --- the warm-up of off-policy algorithms

    def _warming_up(self) -> bool:
        model = self.model
        if not hasattr(model, "learning_starts") or not hasattr(model, "_sample_action"):
            return False
        by_policy = model.use_sde and model.use_sde_at_warmup
        return bool(model.num_timesteps < model.learning_starts and not by_policy)

    def _warm_up_distribution(self) -> ActionDistribution:
        space = self.policy.action_space
        if not isinstance(space, spaces.Box) or self.model.action_noise is None:
            return uniform_distribution(space, self.n_envs)
        bounds = BoxBounds(space)
        noise = GaussianNoise(self.model.action_noise)
        state = self._state_before_draw()
        shift, std = noise.parameters(self.n_envs, bounds.low.size, state, self._start)
        return NoisyUniform(bounds, shift, std)

    # --- actions that cannot be logged

    def _check_noise_matrix(self) -> None:
        kind = self._gsde()
        if kind is None:
            return
        if kind.exploration_mat is self._matrix:
            raise UnsupportedPolicyError(
                "`model` must draw a new gSDE noise matrix before every step, but it has used the "
                "same one twice: actions are then not independent given the observations. Set "
                "sde_sample_freq=1 for `learn`, or use ove_sb3.collect."
            )
        if self.n_envs > 1 and len(kind.exploration_matrices) != self.n_envs:
            raise UnsupportedPolicyError(
                f"`model` must have one gSDE noise matrix for each of {self.n_envs} environments, "
                f"got {len(kind.exploration_matrices)}. Call reset_noise({self.n_envs})."
            )
        self._matrix = kind.exploration_mat

    def _gsde(self) -> StateDependentNoiseDistribution | None:
        network: Any = getattr(self.policy, "network", None)
        kind = getattr(network, "action_dist", None)
        return kind if isinstance(kind, StateDependentNoiseDistribution) else None

    def _refuse_noiseless(self, observations: Observation, actions: NDArray[Any]) -> None:
        """Refuse an actor's output without noise, also if the noise has a nonzero mean."""
        if not isinstance(self.policy, TD3Adapter):
            return
        bounds = self.policy.bounds
        mean = bounds.from_unit(self.policy.mean(observations))
        equal = np.abs(np.reshape(actions, mean.shape) - mean) <= bounds.margin
        # On a bound, noise that is clipped away leaves the actor's output as it is.
        inside = (mean > bounds.low + bounds.margin) & (mean < bounds.high - bounds.margin)
        if (equal.all(axis=1) & inside.any(axis=1)).any():
            raise InvalidInputError(
                "`actions` must carry the model's action noise, but the actor's own output is "
                "about to be executed: `predict` adds no noise, and a deterministic action has no "
                "density. Draw with ove_sb3.action_distribution(model, obs).sample()."
            )

    def not_drawn(self, why: str) -> InvalidInputError:
        """Error about actions that are the most probable ones instead of being drawn."""
        remedy = (
            "`predict` adds no action noise: draw"
            if isinstance(self.policy, TD3Adapter)
            else "Call predict(..., deterministic=False), and give EvalCallback or evaluate_policy "
            "an environment without this wrapper; or draw"
        )
        return InvalidInputError(
            "`actions` must be drawn from the action distribution of the model, but they are its "
            f"most probable ones, as with predict(..., deterministic=True), {why}. {remedy} with "
            "ove_sb3.action_distribution(model, obs).sample()."
        )

    @property
    def shares_exploration(self) -> bool:
        """Whether one decision to explore is made for all environments, as DQN's is."""
        return isinstance(self.policy, GreedyAdapter)


def _current_noise(noise: Any, n_envs: int) -> FloatArray:
    """Noise that was just added, which the next draw starts from, (n_envs, d)."""
    noises: list[Any] = noise.noises if isinstance(noise, VectorizedActionNoise) else [noise]
    if len(noises) != n_envs:
        raise UnsupportedPolicyError(
            f"`model.action_noise` must be known in all of its {len(noises)} environments, got "
            f"{n_envs} in this wrapper. Use VecLogActionProbability around all of them."
        )
    return np.stack([np.asarray(noise.noise_prev, dtype=np.float64) for noise in noises])
