"""Requirements such as ``"variance <= 80"``, and whether they are proven."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from ove_sb3.core.interval import Interval
from ove_sb3.core.quantities import Quantity, as_quantity
from ove_sb3.errors import InvalidInputError
from ove_sb3.report.numbers import number, percent

from .error_budget import ErrorBudget

Status = Literal["proven", "refuted", "undecided"]
BoundFunction = Callable[[Quantity, str, float], Interval]
"""One-sided interval of a quantity: from quantity, side and delta."""

_EXPRESSION = re.compile(r"\s*([^\s<>=]+)\s*(<=|>=|<|>)\s*(\S+)\s*")
_REMEDY = 'Write for example "variance <= 80" or "mean >= 35".'


@dataclass(frozen=True)
class Requirement:
    """A limit on a quantity of the return.

    Attributes
    ----------
    quantity : Quantity
    operator : {"<=", ">=", "<", ">"}
    limit : float
    """

    quantity: Quantity
    operator: str
    limit: float

    @classmethod
    def parse(cls, expression: object) -> Requirement:
        """Requirement from an expression such as ``"variance <= 80"``."""
        if isinstance(expression, Requirement):
            return expression
        match = _EXPRESSION.fullmatch(expression) if isinstance(expression, str) else None
        if match is None:
            raise InvalidInputError(
                "a requirement must be a quantity, one of <=, >=, < and >, and a number, got "
                f"{expression!r}. {_REMEDY}"
            )
        try:
            limit = float(match[3])
        except ValueError:
            limit = math.nan
        if not math.isfinite(limit):
            raise InvalidInputError(
                f"a requirement must end in a finite number, got {match[3]!r} in {expression!r}. "
                f"{_REMEDY}"
            )
        return cls(as_quantity(match[1]), match[2], limit)

    @property
    def is_upper(self) -> bool:
        """Whether an upper bound proves it."""
        return self.operator.startswith("<")

    def holds(self, value: float) -> bool:
        """Whether `value` satisfies the limit."""
        if self.operator == "<=":
            return value <= self.limit
        if self.operator == ">=":
            return value >= self.limit
        return value < self.limit if self.operator == "<" else value > self.limit

    def __str__(self) -> str:
        short = f"{self.limit:g}"
        limit = short if float(short) == self.limit else repr(self.limit)
        return f"{self.quantity.name} {self.operator} {limit}"


def parse_requirements(expressions: object) -> tuple[Requirement, ...]:
    """Requirements from a sequence of expressions."""
    if isinstance(expressions, str) or not isinstance(expressions, Iterable):
        raise InvalidInputError(
            f"`requirements` must be a sequence of expressions, got {expressions!r}. Write for "
            'example ["variance <= 80", "mean >= 35"].'
        )
    return tuple(Requirement.parse(expression) for expression in expressions)


@dataclass(frozen=True)
class Verdict:
    """Whether a requirement is proven, and why.

    Attributes
    ----------
    requirement : str
    status : {"proven", "refuted", "undecided"}
    reason : str
        Bounds behind the status, in words.
    episodes_needed : int or None
        For an undecided requirement that the estimate satisfies: about how many episodes in all
        would prove it; None if that is unknown.
    """

    requirement: str
    status: Status
    reason: str
    episodes_needed: int | None = None

    @property
    def proven(self) -> bool:
        """Whether the requirement is proven."""
        return self.status == "proven"

    def __str__(self) -> str:
        needed = self.episodes_needed
        hint = "" if needed is None else f" About {needed} episodes would prove it."
        return f"{self.requirement}: {self.status}. {self.reason}{hint}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON."""
        return {
            "requirement": self.requirement,
            "status": self.status,
            "reason": self.reason,
            "episodes_needed": self.episodes_needed,
        }


def decide(
    requirement: Requirement,
    bound: BoundFunction,
    budget: ErrorBudget,
    *,
    n_requirements: int,
    episodes_needed: Callable[[Requirement, float], int | None],
) -> Verdict:
    """Decide one of several requirements.

    A false requirement is called proven with probability at most ``budget.proving_delta``. Any of
    the true ones is called refuted with probability at most that, too.

    Parameters
    ----------
    requirement : Requirement
    bound : callable
        One-sided interval from quantity, side and delta.
    budget : ErrorBudget
    n_requirements : int
        Number of requirements decided together.
    episodes_needed : callable
        From an undecided requirement and its proving bound to a number of episodes.
    """
    quantity = requirement.quantity
    side, other = ("upper", "lower") if requirement.is_upper else ("lower", "upper")
    levels = budget.proving_delta, budget.refuting_delta(n_requirements)
    proving, refuting = bound(quantity, side, levels[0]), bound(quantity, other, levels[1])
    near = proving.upper if requirement.is_upper else proving.lower
    far = refuting.lower if requirement.is_upper else refuting.upper
    name = str(requirement)
    if not proving.guaranteed or not refuting.guaranteed:
        reasons = "; ".join((*proving.reasons, *refuting.reasons)[:1])
        return Verdict(name, "undecided", f"The bounds are not guaranteed: {reasons}.")
    lower, upper = (far, near) if requirement.is_upper else (near, far)
    if lower > upper:
        return Verdict(name, "undecided", contradiction(lower, upper))
    if requirement.holds(near):
        return Verdict(name, "proven", _bound_text(side, levels[0], near))
    if not requirement.holds(far):
        return Verdict(name, "refuted", _bound_text(other, levels[1], far))
    return Verdict(
        name, "undecided", _bound_text(side, levels[0], near), episodes_needed(requirement, near)
    )


def _bound_text(side: str, delta: float, value: float) -> str:
    return f"The {percent(delta)} {side} bound is {number(value)}."


def contradiction(lower: float, upper: float) -> str:
    """Sentence about bounds that contradict each other."""
    return (
        f"The lower bound, {number(lower)}, exceeds the upper bound, {number(upper)}: a bound or "
        "an assumption is wrong."
    )
