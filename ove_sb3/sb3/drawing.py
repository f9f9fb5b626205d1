"""Which law the action that is being executed was drawn from.

A wrapper sees an action on its way to the environment, after it was drawn and before the model can
change. In `learn` the law depends on more than the policy: the warm-up of off-policy algorithms,
their action noise and its state, masks, the noise matrix of gSDE.
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.distributions import StateDependentNoiseDistribution
from stable_baselines3.common.noise import VectorizedActionNoise
from stable_baselines3.common.vec_env import VecNormalize

from ove_sb3._validation import FloatArray
from ove_sb3.errors import DependenceWarning, InvalidInputError, UnsupportedPolicyError

from .box_distributions import BoxBounds, NoisyUniform
from .dispatch import law_of
from .distributions import ActionDistribution
from .laws import ActorCriticLaw, Given, GreedyLaw, Law, Masks
from .networks import Observation
from .noise import GaussianNoise
from .noisy_actor import NoisyActorLaw
from .uniform import uniform_on

_DEEPEST = 40


class Drawing:
    """Follows a model that acts in `n_envs` environments, in `learn` or in a loop of the user's.

    Parameters
    ----------
    model : object
        See `action_distribution`.
    n_envs : int
    normalizer : VecNormalize, optional
        The one through which the model sees the environment; by default the model's own.

    Attributes
    ----------
    law : Law
    adaptive : bool
        Whether the model was seen to learn.
    """

    def __init__(self, model: Any, n_envs: int, normalizer: VecNormalize | None = None) -> None:
        self.model, self.n_envs, self.normalizer = model, n_envs, normalizer
        self.law: Law = law_of(model, vec_normalize=normalizer)
        self._policy = getattr(model, "policy", None)
        self.adaptive = False
        self._start = np.ones(n_envs, dtype=np.bool_)
        self._state: Any = None
        self._matrix: Any = None
        self._warned = False
        self._rollout = 0  # identity of the frame of the rollout in progress

    def restart(self) -> None:
        """The environments were reset."""
        self._start[:] = True

    def log_prob(
        self, observations: Observation, actions: NDArray[Any], masks: Masks | None
    ) -> NDArray[Any]:
        """Log-probabilities of actions on their way to the environments, (n_envs,).

        Or those of all choices, (n_envs, k), from which the chosen ones are to be picked.
        """
        if getattr(self.model, "policy", None) is not self._policy:  # the model was given another
            self.law = law_of(self.model, vec_normalize=self.normalizer)
            self._policy = self.model.policy
        learning = self._learning() is not None
        if learning:
            self.adaptive = True
            self._warn_if_dependent()
            if isinstance(self.law, ActorCriticLaw) and not self.law.recurrent:
                drawn = self.law.drawn(actions)
                if drawn is not None:
                    return drawn
        if learning and self._warming_up():
            law = self._warm_up()
        else:
            self._check_noise_matrix()
            given = Given(masks, self._before(), self._start)
            law = self.law.distribution(observations, given)
        found = law.log_prob(actions)
        if not learning:
            self._refuse_noiseless(observations, actions)
        self._remember(law, learning)
        return found

    def uses_masks(self) -> bool:
        """Whether masks are wanted: not in ``learn(use_masking=False)``."""
        if not self.law.masked:
            return False
        learning = self._learning()
        return learning is None or bool(learning.f_locals.get("use_masking", True))

    def ended(self, dones: NDArray[np.bool_]) -> None:
        """Take note of the episodes that ended with this step."""
        self._start = np.array(dones, dtype=np.bool_)

    def _learning(self) -> FrameType | None:
        """The frame of the model's `collect_rollouts` if that executes the action, else None.

        Nothing in a model's state tells `learn` from a loop of the user's that calls `predict`,
        and only `learn` adds the warm-up and the action noise.
        """
        frame: FrameType | None = sys._getframe(2)
        for _ in range(_DEEPEST):
            if frame is None:
                return None
            name = frame.f_code.co_name
            if name == "evaluate_candidates" and frame.f_locals.get("self") is self.model:
                raise UnsupportedPolicyError(
                    "`model` must not be ARS while it learns: it tries other weights than its own, "
                    "without any chance in its actions, so that they have no probability to log. "
                    "Log it after training, with ove_sb3.collect."
                )
            if name == "collect_rollouts":
                # Reading the locals is slow: once for every rollout.
                if id(frame) != self._rollout and frame.f_locals.get("self") is self.model:
                    self._rollout = id(frame)
                if id(frame) == self._rollout:
                    return frame
            frame = frame.f_back
        return None

    # --- memory: LSTM states, Ornstein-Uhlenbeck noise

    def _before(self) -> Any:
        noise = getattr(self.law, "noise", None)
        first = getattr(self.model, "num_timesteps", 0) == getattr(
            self.model, "_num_timesteps_at_start", None
        )
        # `learn` resets its noise when it starts, even in the middle of an episode.
        return None if noise is not None and noise.has_state and first else self._state

    def _remember(self, law: ActionDistribution, learning: bool) -> None:
        if isinstance(self.law, NoisyActorLaw) and self.law.noise.has_state:
            if not learning:
                raise UnsupportedPolicyError(
                    "`model` must act in `learn` if it has Ornstein-Uhlenbeck noise: in a loop "
                    "of your own the noise cannot be followed. Use ove_sb3.collect."
                )
            self._state = _noise_now(self.model.action_noise, self.n_envs)
        else:
            self._state = law.state

    # --- the warm-up of off-policy algorithms

    def _warming_up(self) -> bool:
        model = self.model
        if not hasattr(model, "learning_starts") or not hasattr(model, "_sample_action"):
            return False
        by_policy = model.use_sde and model.use_sde_at_warmup
        return bool(model.num_timesteps < model.learning_starts and not by_policy)

    def _warm_up(self) -> ActionDistribution:
        space = self.law.action_space
        if not isinstance(space, spaces.Box) or self.model.action_noise is None:
            return uniform_on(space, self.n_envs)
        bounds = BoxBounds(space)
        noise = GaussianNoise(self.model.action_noise)
        shift, std = noise.parameters(self.n_envs, bounds.low.size, self._before(), self._start)
        return NoisyUniform(bounds, shift, std)

    # --- what cannot be logged

    def _check_noise_matrix(self) -> None:
        policy: Any = getattr(self.law, "network", None)
        kind = getattr(policy, "action_dist", None)
        if not isinstance(kind, StateDependentNoiseDistribution):
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

    def _refuse_noiseless(self, observations: Observation, actions: NDArray[Any]) -> None:
        if not isinstance(self.law, NoisyActorLaw):
            return
        exact = self.law.bounds.from_unit(self.law.mean(observations))
        gap = np.abs(np.reshape(actions, exact.shape) - exact)
        if (gap <= self.law.bounds.margin).all(axis=1).any():
            raise InvalidInputError(
                "`actions` must carry the model's action noise, but the actor's own output is "
                "about to be executed: `predict` adds no noise, and a deterministic action has no "
                "density. Draw with ove_sb3.action_distribution(model, obs).sample()."
            )

    def _warn_if_dependent(self) -> None:
        if self._warned or not isinstance(self.law, GreedyLaw):
            return
        if getattr(self.model, "n_envs", 1) > 1:
            self._warned = True
            warnings.warn(
                f"{type(self.model).__name__} decides for all of its {self.model.n_envs} "
                "environments together whether to explore: their episodes are dependent, and "
                "intervals from this log are too narrow. Train with one environment, or use "
                "ove_sb3.collect, which decides for each.",
                DependenceWarning,
                stacklevel=2,
            )


def _noise_now(noise: Any, n_envs: int) -> FloatArray:
    """The noise that was just added, which the next draw starts from, (n_envs, d)."""
    several: list[Any] = noise.noises if isinstance(noise, VectorizedActionNoise) else [noise]
    if len(several) != n_envs:
        raise UnsupportedPolicyError(
            f"`model.action_noise` must be followed in all of its {len(several)} environments, "
            f"got {n_envs} in this wrapper. Use VecLogActionProbability around them all."
        )
    return np.stack([np.asarray(each.noise_prev, dtype=np.float64) for each in several])
