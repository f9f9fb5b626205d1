"""Built-in policies made of others: mixtures and epsilon-greedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray
from typing_extensions import override

from ove_sb3._validation import FloatArray, check_choice, check_real
from ove_sb3.errors import InvalidInputError, UnsupportedPolicyError

from .builtin import BuiltInPolicy
from .dispatch import as_policy
from .distribution import ActionDistribution, Mixture
from .episode_mixture import EpisodeMixture, EpisodeState, UnrolledEpisodeMixture
from .fingerprint import Part, value_parts
from .known_code import has_known_code
from .observations import Observation
from .policy import (
    NO_CONTEXT,
    Masks,
    PolicyContext,
    fingerprint_parts_of,
    mutable_parts_of,
    origins_of,
    probability_range,
)
from .uniform import epsilon_greedy_range, uniform_distribution


class MixturePolicy(BuiltInPolicy):
    """Acts as one of several policies, drawn with fixed weights at every step or per episode.

    Parameters
    ----------
    policies : sequence
        Models or policies on the same spaces, see `action_distribution`.
    weights : array_like, (K,)
        Positive; they add up to 1, and cannot be changed later.
    per : {"step", "episode"}
        ``"episode"``: one policy acts for a whole episode, as in a canary release. The importance
        weight of policy k is then at most ``1 / weights[k]``, however long episodes are. In a loop
        of your own pass `state` and `episode_start` to `predict`.
    rng : int, Generator or None
        Random generator of `predict`.
    """

    not_state = frozenset({"_first_digests"})

    def __init__(
        self,
        policies: Sequence[Any],
        weights: ArrayLike,
        *,
        per: str = "step",
        rng: int | np.random.Generator | None = None,
    ) -> None:
        self.per = check_choice(per, "per", ("step", "episode"))
        self._weights = np.array(weights, dtype=np.float64)
        self._weights.flags.writeable = False
        self.policies = tuple(policies)
        self.components = tuple(as_policy(policy) for policy in policies)
        if self.weights.shape != (len(self.components),) or not self.components:
            raise InvalidInputError(
                f"`weights` must have one entry per policy, {len(self.components)}, got shape "
                f"{self.weights.shape}."
            )
        if not ((self.weights > 0).all() and abs(self.weights.sum() - 1.0) < 1e-9):
            raise InvalidInputError(
                f"`weights` must be positive and add up to 1, got {self.weights.tolist()}."
            )
        action_space = self.components[0].action_space
        for component in self.components:
            if component.action_space != action_space:
                raise InvalidInputError(
                    f"`policies` must share the action space, got {action_space} and "
                    f"{component.action_space}."
                )
            if component.has_noise_state:
                raise UnsupportedPolicyError(
                    "`policies` must not have Ornstein-Uhlenbeck noise in a mixture: its state "
                    "would depend on which policy acted. Use NormalActionNoise."
                )
        known = (component.observation_space for component in self.components)
        observation_space = next((space for space in known if space is not None), None)
        super().__init__(observation_space, action_space, rng)
        self.origins = origins_of(*self.components)
        # State digests of the components when the mixture first acted.
        self._first_digests: list[str | None] | None = None
        self.masked = any(component.masked for component in self.components)
        self.recurrent = per == "episode" or any(c.recurrent for c in self.components)

    @property
    def weights(self) -> FloatArray:
        """Weights of the policies, (K,); they stay as they are."""
        return self._weights

    @weights.setter
    def weights(self, value: Any) -> None:
        raise InvalidInputError(
            f"`weights` must stay as they are, got {value!r}: the policy of an episode under way "
            "was drawn with them. Make a new MixturePolicy, and call set_model with it between "
            "episodes if it is logged."
        )

    @property
    def description(self) -> tuple[dict[str, Any], ...]:
        """Weight, name and fingerprint of every policy, as recorded in a log."""
        return tuple(
            {
                "weight": float(weight),
                "policy": type(policy).__name__,
                "fingerprint": component.fingerprint(),
            }
            for weight, policy, component in zip(
                self.weights, self.policies, self.components, strict=True
            )
        )

    @override
    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = False,
        action_masks: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[Any], Any]:
        """Draw actions, see `BuiltInPolicy.predict`.

        With ``per="episode"``, pass the state returned by the previous call, and
        ``episode_start=[True]`` at the beginning of an episode.
        """
        began = episode_start is not None and np.all(episode_start)
        if self.per == "episode" and state is None and not began:
            raise InvalidInputError(
                "`state` must be that of the previous call for a policy that is drawn once per "
                "episode, got None. Pass episode_start=np.array([True]) when an episode begins."
            )
        starts = None if episode_start is None else np.atleast_1d(episode_start)
        return super().predict(observation, state, starts, deterministic, action_masks)

    def max_ratio(self, policy: Any) -> float:
        """Largest possible importance ratio of `policy` to the mixture: 1 over its weight.

        The ratio is that of a step, or of a whole episode if the policy is drawn per episode. Pass
        it to `variance_interval` with `policy` as the candidate: as ``max_ratio``, or as
        ``max_weight`` if the policy is drawn per episode. Refused if `policy` has changed since the
        mixture first acted, because the logged actions were drawn from the policy as it was.
        """
        if not has_known_code(self):
            raise InvalidInputError(
                "`max_ratio` must be asked of a MixturePolicy itself, got a "
                f"{type(self).__name__} that may act by other code, whose ratios are not known. "
                "State a bound that follows from this code."
            )
        own = [k for k, component in enumerate(self.policies) if component is policy]
        if not own:
            raise InvalidInputError(
                f"`policy` must be one of the {len(self.policies)} policies of the mixture, the "
                f"same object, got {type(policy).__name__}."
            )
        first = self._first_digests
        if first is not None and self.components[own[0]].state_digest() != first[own[0]]:
            raise InvalidInputError(
                f"`policy` must be as it was when the mixture first acted, but this "
                f"{type(policy).__name__} has changed since, by training or a schedule: the bound "
                "holds only for the policy that acted. Keep a copy of the model from before, as "
                "component and candidate, or make and run a new MixturePolicy."
            )
        return 1.0 / float(self.weights[own].sum())

    @override
    def distribution(
        self, observations: Observation, context: PolicyContext = NO_CONTEXT
    ) -> ActionDistribution:
        if self._first_digests is None:
            self._first_digests = [component.state_digest() for component in self.components]
        if self.per == "episode":
            return self._episode_mixture(observations, context)
        states = [None] * len(self.components) if context.state is None else context.state
        parts = [
            component.distribution(observations, context._replace(state=state))
            for component, state in zip(self.components, states, strict=True)
        ]
        mixture = Mixture(parts, np.log(self.weights))
        if self.recurrent:
            mixture.state = tuple(part.state for part in parts)
        return mixture

    def _episode_mixture(self, observations: Observation, context: PolicyContext) -> EpisodeMixture:
        before = context.state
        if before is None:
            rows = next(iter(observations.values())) if isinstance(observations, dict) else None
            n = len(observations if rows is None else rows)
            before = EpisodeState.begin(n, len(self.components))
        before = before.restarted(context.episode_start)
        parts = [
            component.distribution(observations, context._replace(state=state))
            for component, state in zip(self.components, before.components, strict=True)
        ]
        return EpisodeMixture(parts, np.log(self.weights), before)

    @override
    def unroll(
        self, observations: Observation, lengths: NDArray[np.int64], action_masks: Masks | None
    ) -> ActionDistribution:
        parts = [
            component.unroll(observations, lengths, action_masks) for component in self.components
        ]
        if self.per == "episode":
            return UnrolledEpisodeMixture(parts, np.log(self.weights), lengths)
        return Mixture(parts, np.log(self.weights))

    @property
    @override
    def min_probability(self) -> float:
        parts = [probability_range(part)[0] for part in self.components]
        return sum(self._weighted(parts)) if self.per == "step" else min(parts)

    @property
    @override
    def max_probability(self) -> float:
        parts = [probability_range(part)[1] for part in self.components]
        return sum(self._weighted(parts)) if self.per == "step" else max(parts)

    def _weighted(self, values: Sequence[float]) -> list[float]:
        return [float(w) * value for w, value in zip(self.weights, values, strict=True)]

    @override
    def fingerprint_parts(self) -> Iterator[Part]:
        yield self.per.encode()
        yield from value_parts(self.weights)
        for component in self.components:
            yield type(component).__qualname__.encode()
            yield from fingerprint_parts_of(component)

    @override
    def mutable_parts(self) -> Iterator[Part]:
        yield self.per.encode()
        yield from value_parts(self.weights)
        for component in self.components:
            yield type(component).__qualname__.encode()
            yield from mutable_parts_of(component)


def components_of(policy: Any) -> tuple[dict[str, Any], ...]:
    """Policies of a mixture that is drawn per episode, as recorded in a log; else none."""
    if isinstance(policy, MixturePolicy) and policy.per == "episode" and has_known_code(policy):
        return policy.description
    return ()


class EpsilonGreedyPolicy(BuiltInPolicy):
    """Uniform with probability epsilon, else the most probable action of a policy.

    Parameters
    ----------
    policy : model or policy
        With discrete actions. DQN and QRDQN are used without their own exploration, and may be
        given as bare policies.
    epsilon : float
        In [0, 1]. A behavior needs more than 0, or actions are missing from the log.
    rng : int, Generator or None
        Random generator of `predict`.
    """

    def __init__(
        self, policy: Any, epsilon: float, *, rng: int | np.random.Generator | None = None
    ) -> None:
        self.base = as_policy(policy, exploration=False)
        self.epsilon = check_real(epsilon, "epsilon", 0.0, 1.0)
        super().__init__(self.base.observation_space, self.base.action_space, rng)
        if isinstance(self.action_space, spaces.Box):
            raise UnsupportedPolicyError(
                f"`policy` must have discrete actions, got {self.action_space}: a greedy action in "
                "a Box has no density."
            )
        if self.base.masked:
            raise UnsupportedPolicyError(
                "`policy` must not use action masks: a uniform choice would take invalid actions."
            )
        self.recurrent = self.base.recurrent
        self.origins = origins_of(self.base)

    @override
    def distribution(
        self, observations: Observation, context: PolicyContext = NO_CONTEXT
    ) -> ActionDistribution:
        own = self.base.distribution(observations, context._replace(action_masks=None))
        mixture = self._with_exploration(own)
        mixture.state = own.state
        return mixture

    @override
    def unroll(
        self, observations: Observation, lengths: NDArray[np.int64], action_masks: Masks | None
    ) -> ActionDistribution:
        return self._with_exploration(self.base.unroll(observations, lengths, None))

    def _with_exploration(self, own: ActionDistribution) -> ActionDistribution:
        uniform = uniform_distribution(self.action_space, len(own))
        with np.errstate(divide="ignore"):
            weights = np.log([self.epsilon, 1.0 - self.epsilon])
        return Mixture([uniform, own.deterministic()], weights)

    @property
    @override
    def min_probability(self) -> float:
        return epsilon_greedy_range(self.epsilon, self.action_space)[0]

    @property
    @override
    def max_probability(self) -> float:
        return epsilon_greedy_range(self.epsilon, self.action_space)[1]

    @override
    def fingerprint_parts(self) -> Iterator[Part]:
        yield from value_parts(self.epsilon)
        yield type(self.base).__qualname__.encode()
        yield from fingerprint_parts_of(self.base)

    @override
    def mutable_parts(self) -> Iterator[Part]:
        yield from value_parts(self.epsilon)
        yield type(self.base).__qualname__.encode()
        yield from mutable_parts_of(self.base)
