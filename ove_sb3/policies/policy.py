"""Base class of policies whose action distribution is known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from .distribution import ActionDistribution
from .fingerprint import Part, digest
from .known_code import has_known_code
from .observations import Observation
from .provenance import Provenance, read_provenance
from .state import state_part

Masks = NDArray[np.bool_]


class PolicyContext(NamedTuple):
    """Inputs of a policy besides the observations.

    Attributes
    ----------
    action_masks : ndarray of bool, (n, n_choices), optional
        For policies with action masks.
    state : object, optional
        For policies with memory, the `state` of the previous distribution.
    episode_start : ndarray of bool, (n,), optional
        Where an episode begins and the memory is reset.
    """

    action_masks: Masks | None = None
    state: Any = None
    episode_start: NDArray[np.bool_] | None = None


NO_CONTEXT = PolicyContext()


class Policy(ABC):
    """A policy whose action distribution is known.

    It reads its model at the time of the call, so schedules and updates in the middle of an episode
    take effect immediately.

    Attributes
    ----------
    observation_space, action_space : gymnasium.Space
    masked : bool
        Whether it needs action masks.
    recurrent : bool
        Whether it remembers earlier observations; `unroll` evaluates whole episodes.
    origins : tuple of object
        The models it was made of.
    not_state : frozenset of str
        Names of attributes that change while it acts, but do not decide how it acts.
    """

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    masked: bool = False
    recurrent: bool = False
    origins: tuple[Any, ...] = ()
    not_state: frozenset[str] = frozenset()

    @abstractmethod
    def distribution(
        self, observations: Observation, context: PolicyContext = NO_CONTEXT
    ) -> ActionDistribution:
        """Distributions of the executed actions for a batch of n observations."""

    @abstractmethod
    def fingerprint_parts(self) -> Iterable[Part]:
        """Description of everything that the action distribution depends on."""

    def mutable_parts(self) -> Iterable[Part]:
        """Those of `fingerprint_parts` that training or a schedule changes."""
        return self.fingerprint_parts()

    def unroll(
        self, observations: Observation, lengths: NDArray[np.int64], action_masks: Masks | None
    ) -> ActionDistribution:
        """Distributions for all steps of whole episodes of these lengths."""
        del lengths
        return self.distribution(observations, PolicyContext(action_masks))

    @property
    def min_probability(self) -> float:
        """Lower bound on its probability of any action in any state; 0 if none is known."""
        return 0.0

    @property
    def max_probability(self) -> float:
        """Upper bound on its probability of any action in any state, where actions are discrete."""
        return 1.0

    @property
    def has_noise_state(self) -> bool:
        """Whether its action noise depends on earlier noise, as Ornstein-Uhlenbeck noise does."""
        return False

    def generators(self) -> Iterable[tuple[Any, Any]]:
        """Random generators that its model draws actions from, with their states now.

        Empty if they are unknown, or if actions are not random.
        """
        return ()

    def provenance(self) -> Provenance:
        """Logs that it was trained on or selected by."""
        return read_provenance(self, *self.origins)

    def fingerprint(self) -> str | None:
        """Digest shared only by policies that act alike; None if a part cannot be described.

        The code of a subclass of a user, or of a method replaced on the instance, is such a part.
        """
        return digest(type(self).__qualname__, fingerprint_parts_of(self), complete=True)

    def state_digest(self) -> str | None:
        """Digest that stays the same as long as this policy does not change."""
        return digest(type(self).__qualname__, mutable_parts_of(self), complete=False)


def fingerprint_parts_of(policy: Policy) -> Iterator[Part]:
    """Fingerprint parts of a policy, which may be part of another, and None for unknown code."""
    if not has_known_code(policy):
        yield None
    yield from policy.fingerprint_parts()


def mutable_parts_of(policy: Policy) -> Iterator[Part]:
    """Mutable parts of a policy, which may be part of another; its whole state if of a user."""
    if not has_known_code(policy):
        yield state_part(policy)
    yield from policy.mutable_parts()


def probability_range(policy: Policy) -> tuple[float, float]:
    """Known bounds on its probability of any action in any state; (0, 1) for unknown code."""
    if not has_known_code(policy):
        return 0.0, 1.0
    return policy.min_probability, policy.max_probability


def origins_of(*policies: Policy) -> tuple[Any, ...]:
    """Origins of a policy that is made of others."""
    return tuple(origin for policy in policies for origin in (policy, *policy.origins))


@runtime_checkable
class HasActionValues(Protocol):
    """A policy with action values."""

    def action_values(self, observations: Observation) -> NDArray[Any]:
        """Action values of a batch of n observations, (n, k)."""
