"""A model as it acts with ``deterministic=True``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from .builtin import BuiltInPolicy
from .dispatch import as_policy
from .distribution import ActionDistribution
from .fingerprint import Part
from .observations import Observation
from .policy import (
    NO_CONTEXT,
    Masks,
    PolicyContext,
    fingerprint_parts_of,
    mutable_parts_of,
    origins_of,
)


class Deterministic(BuiltInPolicy):
    """A model as it acts with ``predict(..., deterministic=True)``.

    As a component of a `MixturePolicy` it can be evaluated in a Box too: the mixture takes its
    action with positive probability.

    Parameters
    ----------
    model : model or policy
        See `action_distribution`. DQN is taken without its exploration; TD3 and DDPG need action
        noise, which is left out here.
    """

    def __init__(self, model: Any) -> None:
        self.base = as_policy(model, exploration=False)
        super().__init__(self.base.observation_space, self.base.action_space, 0)
        self.origins = origins_of(self.base)
        self.masked, self.recurrent = self.base.masked, self.base.recurrent

    @override
    def distribution(
        self, observations: Observation, context: PolicyContext = NO_CONTEXT
    ) -> ActionDistribution:
        own = self.base.distribution(observations, context)
        point = own.point_mass()
        point.state = own.state
        return point

    @override
    def generators(self) -> Iterable[tuple[Any, Any]]:
        return ()

    @override
    def unroll(
        self, observations: Observation, lengths: NDArray[np.int64], action_masks: Masks | None
    ) -> ActionDistribution:
        return self.base.unroll(observations, lengths, action_masks).point_mass()

    @override
    def fingerprint_parts(self) -> Iterator[Part]:
        yield type(self.base).__qualname__.encode()
        yield from fingerprint_parts_of(self.base)

    @override
    def mutable_parts(self) -> Iterator[Part]:
        yield from mutable_parts_of(self.base)
