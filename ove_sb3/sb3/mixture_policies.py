"""Ready policies made of others: mixtures and epsilon-greedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray
from typing_extensions import override

from ove_sb3._validation import check_real
from ove_sb3.errors import InvalidInputError, UnsupportedPolicyError

from .dispatch import greedy_law_of, law_of
from .distributions import ActionDistribution, Mixture
from .identity import Part, of_value
from .laws import NOTHING, Given, Masks
from .networks import Observation
from .ready_policy import ReadyPolicy
from .uniform import uniform_on


class MixturePolicy(ReadyPolicy):
    """At every step, acts as one of several policies, drawn anew with fixed weights.

    Parameters
    ----------
    policies : sequence
        Models or policies on the same spaces, see `action_distribution`.
    weights : array_like, (K,)
        Positive; they add up to 1.
    rng : int, Generator or None
        Of the actions drawn by `predict`.
    """

    def __init__(
        self,
        policies: Sequence[Any],
        weights: ArrayLike,
        *,
        rng: int | np.random.Generator | None = None,
    ) -> None:
        self.weights = np.asarray(weights, dtype=np.float64)
        self.policies = tuple(policies)
        self.laws = [law_of(policy) for policy in policies]
        if self.weights.shape != (len(self.laws),) or not self.laws:
            raise InvalidInputError(
                f"`weights` must have one entry per policy, {len(self.laws)}, got shape "
                f"{self.weights.shape}."
            )
        if not ((self.weights > 0).all() and abs(self.weights.sum() - 1.0) < 1e-9):
            raise InvalidInputError(
                f"`weights` must be positive and add up to 1, got {self.weights.tolist()}."
            )
        for law in self.laws:
            if law.action_space != self.laws[0].action_space:
                raise InvalidInputError(
                    "`policies` must share the action space, got "
                    f"{self.laws[0].action_space} and {law.action_space}."
                )
            if getattr(getattr(law, "noise", None), "has_state", False):
                raise UnsupportedPolicyError(
                    "`policies` must not have Ornstein-Uhlenbeck noise in a mixture: its state "
                    "would depend on which policy acted. Use NormalActionNoise."
                )
        known = [law.observation_space for law in self.laws if law.observation_space is not None]
        super().__init__(known[0] if known else None, self.laws[0].action_space, rng)
        self._acted: list[str | None] | None = None  # the components' condition when it first acted
        self.masked = any(law.masked for law in self.laws)
        self.recurrent = any(law.recurrent for law in self.laws)

    def max_ratio(self, policy: Any) -> float:
        """Largest possible ratio of a step's probability under `policy` to that under the mixture.

        1 over its weight: pass it as ``max_ratio`` to `variance_interval` with `policy` as the
        candidate. Refused if `policy` has changed since the mixture first acted: what was logged
        then was drawn from the policy as it was.
        """
        own = [k for k, each in enumerate(self.policies) if each is policy]
        if not own:
            raise InvalidInputError(
                f"`policy` must be one of the {len(self.policies)} policies of the mixture, the "
                f"same object, got {type(policy).__name__}."
            )
        if self._acted is not None and self.laws[own[0]].condition() != self._acted[own[0]]:
            raise InvalidInputError(
                f"`policy` must be as it was when the mixture first acted, but this "
                f"{type(policy).__name__} has changed since, by training or a schedule: the bound "
                "holds only for the policy that acted. Keep a copy of the model from before, as "
                "component and candidate, or make and run a new MixturePolicy."
            )
        return 1.0 / float(self.weights[own].sum())

    @override
    def distribution(self, observations: Observation, given: Given = NOTHING) -> ActionDistribution:
        if self._acted is None:
            self._acted = [law.condition() for law in self.laws]
        states = [None] * len(self.laws) if given.state is None else given.state
        parts = [
            law.distribution(observations, given._replace(state=own))
            for law, own in zip(self.laws, states, strict=True)
        ]
        found = Mixture(parts, np.log(self.weights))
        if self.recurrent:
            found.state = tuple(part.state for part in parts)
        return found

    @override
    def roll(
        self, observations: Observation, lengths: NDArray[np.int64], action_masks: Masks | None
    ) -> ActionDistribution:
        parts = [law.roll(observations, lengths, action_masks) for law in self.laws]
        return Mixture(parts, np.log(self.weights))

    @override
    def identity(self) -> Iterator[Part]:
        yield from of_value(self.weights)
        for law in self.laws:
            yield type(law).__qualname__.encode()
            yield from law.identity()

    @override
    def variables(self) -> Iterator[Part]:
        for law in self.laws:
            yield from law.variables()


class EpsilonGreedy(ReadyPolicy):
    """Uniform with probability epsilon, else the most probable action of a policy.

    Parameters
    ----------
    policy : model or policy
        With discrete actions; DQN and QRDQN with their own exploration left out, also bare.
    epsilon : float
        In [0, 1]. Greater than 0 as a behavior, or actions are missing from the log.
    rng : int, Generator or None
        Of the actions drawn by `predict`.
    """

    def __init__(
        self, policy: Any, epsilon: float, *, rng: int | np.random.Generator | None = None
    ) -> None:
        self.law = greedy_law_of(policy)
        self.epsilon = check_real(epsilon, "epsilon", 0.0, 1.0)
        super().__init__(self.law.observation_space, self.law.action_space, rng)
        if isinstance(self.action_space, spaces.Box):
            raise UnsupportedPolicyError(
                f"`policy` must have discrete actions, got {self.action_space}: a greedy action in "
                "a Box has no density."
            )
        if self.law.masked:
            raise UnsupportedPolicyError(
                "`policy` must not be masked: a uniform choice would take invalid actions."
            )
        self.recurrent = self.law.recurrent

    @override
    def distribution(self, observations: Observation, given: Given = NOTHING) -> ActionDistribution:
        law = self.law.distribution(observations, given._replace(action_masks=None))
        found = self._mix(law)
        found.state = law.state
        return found

    @override
    def roll(
        self, observations: Observation, lengths: NDArray[np.int64], action_masks: Masks | None
    ) -> ActionDistribution:
        return self._mix(self.law.roll(observations, lengths, None))

    def _mix(self, law: ActionDistribution) -> ActionDistribution:
        uniform = uniform_on(self.action_space, len(law))
        with np.errstate(divide="ignore"):
            weights = np.log([self.epsilon, 1.0 - self.epsilon])
        return Mixture([uniform, law.deterministic()], weights)

    @override
    def identity(self) -> Iterator[Part]:
        yield from of_value(self.epsilon)
        yield type(self.law).__qualname__.encode()
        yield from self.law.identity()

    @override
    def variables(self) -> Iterator[Part]:
        yield from of_value(self.epsilon)
        yield from self.law.variables()
