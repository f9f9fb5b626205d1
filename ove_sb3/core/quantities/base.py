"""Quantities of the return and their registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import ClassVar

from ove_sb3._validation import FloatArray
from ove_sb3.core.assumptions import Limits
from ove_sb3.core.concentration.inequalities import Inequality
from ove_sb3.core.estimators.base import Estimator, find_estimator
from ove_sb3.core.registry import Registry
from ove_sb3.core.sample import Sample
from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.core.steps import Column
from ove_sb3.errors import InvalidInputError


class Quantity(ABC):
    """A number that describes the distribution of the return.

    Subclasses are small frozen dataclasses. `betting_lower` and `betting_upper` make guaranteed
    intervals possible; a quantity without them has approximate intervals only.

    Attributes
    ----------
    kind : str
        Name under which it is registered, and under which its estimators are.
    label : str
        Display name.
    title : str
        Display name in full.
    definition : str
        What it says about episodes, for readers of a report.
    parameter : float or None
        Parameter of a kind of quantities, such as the p of a quantile; passed to its estimators.
    default_estimator : str
    is_location : bool
        Whether it is a place on the axis of the return, like the mean and unlike the variance.
    columns : tuple of Column
        Columns it needs beyond the built-in ones.
    """

    kind: ClassVar[str]
    is_location: ClassVar[bool] = False
    default_estimator: ClassVar[str] = "crossfit"
    columns: ClassVar[tuple[Column, ...]] = ()

    @property
    def name(self) -> str:
        """Short name, such as ``"variance"`` or ``"quantile:0.05"``."""
        return self.kind

    @property
    @abstractmethod
    def label(self) -> str:
        """Display name."""

    @property
    def title(self) -> str:
        """Display name in full."""
        return f"{self.label} of the return"

    @property
    def definition(self) -> str:
        """Definition in plain words, such as "the average over many episodes"; may be empty."""
        return ""

    def meaning(self, lower: str | None, upper: str | None, verb: str = "return") -> str | None:
        """Statement about episodes that the bounds imply, in words; None if there is none.

        A bound that is no tighter than the a priori range is passed as None.
        """
        return None

    @property
    def parameter(self) -> float | None:
        """Parameter of a kind of quantities, such as the p of a quantile."""
        return None

    @property
    def base(self) -> Quantity:
        """Quantity whose interval implies this one's; itself unless it is a monotone transform."""
        return self

    def transform(self, value: float) -> float:
        """Increasing map from a value of `base` to one of this quantity."""
        return value

    @abstractmethod
    def of_sample(self, returns: FloatArray) -> float:
        """Its value for an unweighted sample of returns, (n,)."""

    @abstractmethod
    def a_priori(self, limits: Limits) -> tuple[float, float]:
        """Range implied by the stated limits alone."""

    def find_estimator(self, name: str | None = None) -> Estimator:
        """Estimator of `base` by name; the default one for None."""
        chosen = self.base.default_estimator if name is None else name
        return find_estimator(self.base.kind, chosen).bind(self.base.parameter)

    def has_estimator(self, name: str | None = None) -> bool:
        """Whether there is an estimator of `base` of that name."""
        try:
            self.find_estimator(name)
        except InvalidInputError:
            return False
        return True

    def overrides(self, *names: str) -> bool:
        """Whether it has methods of its own in place of all of those named of `Quantity`."""
        return all(getattr(type(self), name) is not getattr(Quantity, name) for name in names)

    def estimate(self, stats: TrajectoryStatistics, estimator: str | None = None) -> float:
        """Point estimate."""
        return self.transform(self.find_estimator(estimator).estimate(stats))

    def betting_lower(self, sample: Sample, level: float) -> float:
        """Lower confidence bound by betting."""
        raise self._unsupported("betting")

    def betting_upper(self, sample: Sample, level: float) -> float:
        """Upper confidence bound by betting."""
        raise self._unsupported("betting")

    def concentration_lower(self, sample: Sample, level: float, bound: Inequality) -> float:
        """Lower confidence bound by the paper's method."""
        raise self._unsupported("paper")

    def concentration_upper(self, sample: Sample, level: float, bound: Inequality) -> float:
        """Upper confidence bound by the paper's method."""
        raise self._unsupported("paper")

    def _unsupported(self, method: str) -> InvalidInputError:
        return InvalidInputError(
            f"`method` must have bounds for the {self.label}, got {method!r}, which has none. "
            "Choose another method."
        )


_REGISTRY: Registry[Callable[[str | None], Quantity]] = Registry("quantity")


def register_quantity(
    kind: str, factory: Callable[[str | None], Quantity], *, replace: bool = False
) -> Callable[[str | None], Quantity]:
    """Register a quantity, to be used by its short name wherever a quantity is taken.

    Parameters
    ----------
    kind : str
        The part of the short name before the colon.
    factory : callable
        Returns the quantity from the part after the colon; None if there is none.
    replace : bool
        Replace a quantity of that name.

    Returns
    -------
    callable
        `factory`.
    """
    return _REGISTRY.add(kind, factory, replace=replace)


def without_argument(
    quantity: Callable[[], Quantity], kind: str | None = None
) -> Callable[[str | None], Quantity]:
    """Factory for a quantity whose short name has no colon; `kind` if it is not its own."""

    def make(argument: str | None) -> Quantity:
        made = quantity()
        name = kind or made.name
        if argument is not None:
            raise InvalidInputError(
                f"`quantity` must be {name!r} without an argument, got '{name}:{argument}'."
            )
        return made

    return make


def number_argument(
    kind: str, quantity: Callable[[float], Quantity]
) -> Callable[[str | None], Quantity]:
    """Factory for a quantity whose short name has a number after the colon."""

    def make(argument: str | None) -> Quantity:
        try:
            number = float(argument) if argument is not None else None
        except ValueError:
            number = None
        if number is None:
            got = kind if argument is None else f"{kind}:{argument}"
            raise InvalidInputError(
                f"`quantity` {kind!r} must have a number after a colon, such as '{kind}:0.1', got "
                f"{got!r}."
            )
        return quantity(number)

    return make


def percentage(share: float) -> str:
    """A share in percent, without rounding errors."""
    return f"{short_number(round(100 * share, 10))}%"


def short_number(value: float) -> str:
    """The number without needless digits."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def quantity_names() -> tuple[str, ...]:
    """Registered short names, without arguments."""
    return tuple(_REGISTRY)


def as_quantity(quantity: object) -> Quantity:
    """Return a quantity from itself or its short name."""
    if isinstance(quantity, Quantity):
        return quantity
    if not isinstance(quantity, str):
        raise InvalidInputError(
            "`quantity` must be a quantity such as ove.Variance() or its short name, got "
            f"{quantity!r}."
        )
    kind, colon, argument = quantity.partition(":")
    return _REGISTRY.get(kind, "quantity")(argument if colon else None)


def as_quantities(quantities: object) -> tuple[Quantity, ...]:
    """Return different quantities from a sequence of quantities or short names."""
    if isinstance(quantities, (str, Quantity)) or not isinstance(quantities, Iterable):
        raise InvalidInputError(
            "`quantities` must be a sequence of quantities or their short names, such as "
            f"['mean', 'variance'], got {quantities!r}."
        )
    by_name = {quantity.name: quantity for quantity in map(as_quantity, quantities)}
    if not by_name:
        raise InvalidInputError("`quantities` must name at least one quantity, got none.")
    return tuple(by_name.values())
