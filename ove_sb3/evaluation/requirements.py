"""Requirements such as ``"variance <= 80"``, and whether they are proven."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from ove_sb3._validation import check_real
from ove_sb3.core.interval import Interval, lower_text, upper_text
from ove_sb3.core.quantities import Quantity, as_quantity, short_number
from ove_sb3.errors import InvalidInputError
from ove_sb3.report.numbers import number, percent

from .error_budget import ErrorBudget

Status = Literal["proven", "refuted", "undecided"]
BoundFunction = Callable[[Quantity, str, float], Interval]
"""One-sided interval of a quantity: from quantity, side and delta."""

_EXPRESSION = re.compile(r"\s*([^\s<>=]+)\s*(<=|>=|<|>)\s*(\S.*?)\s*")
_NAME_OF_REFERENCE = re.compile(r"behavior(?::\d+)?")
_REFERENCE = re.compile(rf"({_NAME_OF_REFERENCE.pattern})\s*(?:([+-])\s*(\S+))?")
_OPERATORS = ("<=", ">=", "<", ">")
_REMEDY = 'Write for example "variance <= 80", "mean >= 35" or "variance <= behavior".'


@dataclass(frozen=True)
class Requirement:
    """A limit on a quantity of the return.

    Attributes
    ----------
    quantity : Quantity
    operator : {"<=", ">=", "<", ">"}
    limit : float
        The limit, or the offset from the value of `reference`.
    reference : str or None
        ``"behavior"``: the limit is relative to the same quantity of the behavior's return;
        ``"behavior:0"``: of the first component of a mixture.
    """

    quantity: Quantity
    operator: str
    limit: float
    reference: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "quantity", as_quantity(self.quantity))
        object.__setattr__(
            self, "limit", check_real(self.limit, "limit", -math.inf, math.inf, closed=False)
        )
        if self.operator not in _OPERATORS:
            raise InvalidInputError(
                f"`operator` must be one of {', '.join(_OPERATORS)}, got {self.operator!r}."
            )
        reference = self.reference
        if reference is not None and not (
            isinstance(reference, str) and _NAME_OF_REFERENCE.fullmatch(reference)
        ):
            raise InvalidInputError(
                '`reference` must be "behavior", "behavior:0" or the like, or None, got '
                f"{reference!r}."
            )

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
        relative = _REFERENCE.fullmatch(match[3])
        if relative is None:
            return cls(as_quantity(match[1]), match[2], _as_limit(match[3], expression))
        offset = _as_limit(relative[3], expression) if relative[2] else 0.0
        signed = -offset if relative[2] == "-" else offset
        return cls(as_quantity(match[1]), match[2], signed, relative[1])

    @property
    def is_upper(self) -> bool:
        """Whether an upper bound proves it."""
        return self.operator.startswith("<")

    def holds(self, value: float, reference: float = 0.0) -> bool:
        """Whether `value` satisfies the limit, given the value of the reference."""
        limit = reference + self.limit
        if self.operator == "<=":
            return value <= limit
        if self.operator == ">=":
            return value >= limit
        return value < limit if self.operator == "<" else value > limit

    def __str__(self) -> str:
        limit = short_number(self.limit)
        if self.reference is not None:
            sign = "-" if self.limit < 0.0 else "+"
            offset = f" {sign} {short_number(abs(self.limit))}" if self.limit else ""
            limit = f"{self.reference}{offset}"
        return f"{self.quantity.name} {self.operator} {limit}"


def _as_limit(text: str, expression: object) -> float:
    try:
        limit = float(text)
    except ValueError:
        limit = math.nan
    if not math.isfinite(limit):
        raise InvalidInputError(
            f"a requirement must end in a finite number, got {text!r} in {expression!r}. {_REMEDY}"
        )
    return limit


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
        For an undecided requirement: about how many episodes in all would decide it, if the
        estimate is right; None if that is unknown.
    leaning : {"prove", "refute"}
        Whether so many episodes would prove or refute it.
    """

    requirement: str
    status: Status
    reason: str
    episodes_needed: int | None = None
    leaning: Literal["prove", "refute"] = "prove"

    @property
    def proven(self) -> bool:
        """Whether the requirement is proven."""
        return self.status == "proven"

    def __str__(self) -> str:
        needed = self.episodes_needed
        hint = "" if needed is None else f" About {needed} episodes would {self.leaning} it."
        return f"{self.requirement}: {self.status}. {self.reason}{hint}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON."""
        return {
            "requirement": self.requirement,
            "status": self.status,
            "reason": self.reason,
            "episodes_needed": self.episodes_needed,
            "leaning": self.leaning,
        }


def decide(
    requirement: Requirement,
    bound: BoundFunction,
    budget: ErrorBudget,
    *,
    n_requirements: int,
    episodes_needed: Callable[[Requirement, float, float], int | None],
    reference_bound: BoundFunction | None = None,
) -> Verdict:
    """Decide one of several requirements.

    A false requirement is called proven with probability at most ``budget.proving_delta``. Any of
    the true ones is called refuted with probability at most that, too. If the requirement has a
    reference, the bounds on the candidate and on the reference have half of the level each.

    Parameters
    ----------
    requirement : Requirement
    bound : callable
        One-sided interval from quantity, side and delta.
    budget : ErrorBudget
    n_requirements : int
        Number of requirements decided together.
    episodes_needed : callable
        Number of episodes from an undecided requirement, and the bounds on the candidate and the
        reference that would prove it, or those that would refute it.
    reference_bound : callable, optional
        One-sided interval of the reference, for a requirement that has one.
    """
    quantity = requirement.quantity
    share = 1.0 if reference_bound is None else 0.5
    levels = share * budget.proving_delta, share * budget.refuting_delta(n_requirements)
    side, other = ("upper", "lower") if requirement.is_upper else ("lower", "upper")
    proving, refuting = bound(quantity, side, levels[0]), bound(quantity, other, levels[1])
    intervals = [proving, refuting]
    near, far = _end(proving, side), _end(refuting, other)
    near_limit = far_limit = 0.0
    if reference_bound is not None:
        intervals.append(reference_bound(quantity, other, levels[0]))
        intervals.append(reference_bound(quantity, side, levels[1]))
        near_limit, far_limit = _end(intervals[2], other), _end(intervals[3], side)
    name = str(requirement)
    reasons = [reason for interval in intervals for reason in interval.reasons]
    if reasons or not all(interval.guaranteed for interval in intervals):
        return Verdict(name, "undecided", f"The bounds are not guaranteed: {reasons[0]}.")
    pairs = [(far, near), (near_limit, far_limit)]  # lower and upper, if an upper bound proves it
    for lower, upper in pairs if requirement.is_upper else [pair[::-1] for pair in pairs]:
        if lower > upper:
            return Verdict(name, "undecided", contradiction(lower, upper))

    def text(which: str, delta: float, value: float, limit: float) -> str:
        sentence = f"The {percent(delta)} {which} bound is {_bound_text(which, value)}"
        if reference_bound is None:
            return f"{sentence}."
        opposite = "lower" if which == "upper" else "upper"
        whose = "the behavior" if requirement.reference == "behavior" else requirement.reference
        shown = _bound_text(opposite, limit)
        return f"{sentence}, and the {percent(delta)} {opposite} bound of {whose} {shown}."

    proof = text(side, levels[0], near, near_limit)
    if requirement.holds(near, near_limit):
        return Verdict(name, "proven", proof)
    if not requirement.holds(far, far_limit):
        return Verdict(name, "refuted", text(other, levels[1], far, far_limit))
    needed = episodes_needed(requirement, near, near_limit)
    if needed is not None:
        return Verdict(name, "undecided", proof, needed)
    refutation = text(other, levels[1], far, far_limit)
    needed = episodes_needed(requirement, far, far_limit)
    reason = proof if needed is None else f"{proof} {refutation}"
    return Verdict(name, "undecided", reason, needed, "prove" if needed is None else "refute")


def needed_shrinkage(
    requirement: Requirement, value: float, reference: float, bound: float, reference_bound: float
) -> float:
    """Factor by which bounds must come closer to the estimates to just decide a requirement.

    It is not between 0 and 1 where that would not decide it, because the estimates are on the other
    side of the limit.

    Parameters
    ----------
    requirement : Requirement
    value, reference : float
        Estimates of the candidate and of the reference, 0 if there is none.
    bound, reference_bound : float
        Bounds that would prove it, or those that would refute it.
    """
    excess = (bound - value) - (reference_bound - reference)
    return (reference + requirement.limit - value) / excess if excess else math.nan


def _end(interval: Interval, side: str) -> float:
    return interval.upper if side == "upper" else interval.lower


def _bound_text(side: str, bound: float) -> str:
    return upper_text(bound) if side == "upper" else lower_text(bound)


def contradiction(lower: float, upper: float) -> str:
    """Sentence about bounds that contradict each other."""
    return (
        f"The lower bound, {number(lower)}, exceeds the upper bound, {number(upper)}: a bound or "
        "an assumption is wrong."
    )
