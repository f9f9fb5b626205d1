"""Methods for confidence intervals and their registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ove_sb3.core.assumptions import Limits
from ove_sb3.core.quantities.base import Quantity
from ove_sb3.core.registry import Registry
from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.errors import InvalidInputError


class Tails(NamedTuple):
    """Probability of a miss on each side; 0 leaves the side open."""

    lower: float
    upper: float


@dataclass(frozen=True)
class MethodInputs:
    """Inputs of a method.

    Attributes
    ----------
    stats : TrajectoryStatistics
    limits : Limits
        Bounds on returns and weights that follow from the assumptions.
    tails : Tails
    adaptive : bool
        Whether the behavior changed based on earlier trajectories.
    rng : Generator
    """

    stats: TrajectoryStatistics
    limits: Limits
    tails: Tails
    adaptive: bool
    rng: np.random.Generator


class Method(ABC):
    """A way to compute confidence bounds; its options are attributes of the object.

    Attributes
    ----------
    name : str
        Short name.
    proven : bool
        Coverage is proven at finite n under the stated assumptions. The bounds then need ranges
        that bound the return.
    handles_adaptive : bool
        Valid when the behavior changed based on earlier trajectories.
    handles_unfinished : bool
        Valid when the number of trajectories was not fixed in advance and some did not end.
    any_number : bool
        Bounds hold simultaneously at every number of trajectories.
    handles_assigned : bool
        Valid when trajectories were assigned to several policies, as in an A/B test.
    """

    name: ClassVar[str]
    proven: ClassVar[bool] = False
    handles_adaptive: ClassVar[bool] = False
    handles_unfinished: ClassVar[bool] = False
    any_number: ClassVar[bool] = False
    handles_assigned: ClassVar[bool] = False

    @property
    def estimator(self) -> str | None:
        """Name of the estimator behind the bounds, if there is one."""
        return None

    def n_unfinished(self, stats: TrajectoryStatistics) -> int:
        """Number of trajectories that were begun and have not ended."""
        return stats.n_unfinished

    def supports(self, quantity: Quantity) -> bool:
        """Whether the method has bounds for a quantity."""
        return True

    @abstractmethod
    def bounds(self, quantity: Quantity, inputs: MethodInputs) -> tuple[float, float]:
        """Lower and upper bound, infinite on a side whose tail is 0."""


_REGISTRY: Registry[Callable[[], Method]] = Registry("method")


def register_method(
    name: str, factory: Callable[[], Method], *, replace: bool = False
) -> Callable[[], Method]:
    """Register a method, to be used by its short name wherever a method is taken.

    Parameters
    ----------
    name : str
        Short name.
    factory : callable
        Returns the method with its default options; a class without required options will do.
    replace : bool
        Replace a method of that name.

    Returns
    -------
    callable
        `factory`.
    """
    return _REGISTRY.add(name, factory, replace=replace)


def method_names() -> tuple[str, ...]:
    """Registered short names."""
    return tuple(_REGISTRY)


def as_method(method: object) -> Method:
    """Return a method from itself or its short name."""
    if isinstance(method, Method):
        return method
    if not isinstance(method, str):
        raise InvalidInputError(
            f"`method` must be a method such as ove.Betting() or its short name, got {method!r}."
        )
    return _REGISTRY.get(method, "method")()
