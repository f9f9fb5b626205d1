"""Confidence intervals as a value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from ove_sb3._escape import html_facts

_ROUNDING = 1e-12  # relative, of the bounds themselves


@dataclass(frozen=True, repr=False)
class Interval:
    """A confidence interval with its confidence level and the assumptions behind it.

    Attributes
    ----------
    lower, upper : float
        The bounds. A side that was not asked for is at the end of the a priori range. If the two
        bounds contradict each other, `lower` exceeds `upper` and `consistent` is False.
    delta : float
        Total probability of a miss, over the sides asked for.
    guaranteed : bool
        True: coverage of at least 1 - delta is proven at this n, under `assumptions`. False: it
        holds approximately, for large n, or not at all: see `reasons`.
    consistent : bool
        False if the lower bound exceeds the upper one: a bound failed, or an assumption is wrong.
    assumptions : tuple of str
        Conditions for the coverage.
    reasons : tuple of str
        Why the interval is not guaranteed; empty if it is.
    quantity : str
        Short name of the quantity, such as ``"variance"``.
    method, side : str
        As requested.
    n_trajectories : int
        Number of trajectories used.
    a_priori : tuple of float
        Range of the quantity implied by the stated ranges alone, whatever the data.
    """

    lower: float
    upper: float
    delta: float
    guaranteed: bool
    consistent: bool
    assumptions: tuple[str, ...]
    reasons: tuple[str, ...]
    quantity: str
    method: str
    side: str
    n_trajectories: int
    a_priori: tuple[float, float]

    @property
    def width(self) -> float:
        """Upper minus lower bound; negative if they contradict each other."""
        return self.upper - self.lower

    @property
    def informative(self) -> bool:
        """Whether the interval is tighter than the a priori range."""
        return self.lower > self.a_priori[0] or self.upper < self.a_priori[1]

    @property
    def label(self) -> str:
        """``"guaranteed"`` or ``"approximate"``."""
        return label_word(self.guaranteed)

    def __contains__(self, value: object) -> bool:
        return isinstance(value, (int, float)) and self.lower <= value <= self.upper

    def __str__(self) -> str:
        confidence = f"{100 * (1 - self.delta):g}%"
        contradiction = "" if self.consistent else ", bounds contradict each other"
        return (
            f"{self.quantity} {confidence} {self.label} {bounds_text(self.lower, self.upper)} "
            f"({self.method}, n={self.n_trajectories}{contradiction})"
        )

    def __repr__(self) -> str:
        return f"<Interval: {self}>"

    def _repr_html_(self) -> str:
        """Interval and assumptions for a notebook."""
        facts = {f"assumption {k}": text for k, text in enumerate(self.assumptions, 1)}
        return html_facts(str(self), facts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON; an infinite bound becomes None."""
        return {
            "quantity": self.quantity,
            "lower": _finite(self.lower),
            "upper": _finite(self.upper),
            "delta": self.delta,
            "guaranteed": self.guaranteed,
            "consistent": self.consistent,
            "method": self.method,
            "side": self.side,
            "n_trajectories": self.n_trajectories,
            "a_priori": [_finite(end) for end in self.a_priori],
            "informative": self.informative,
            "assumptions": list(self.assumptions),
            "reasons": list(self.reasons),
        }


def bounds_text(lower: float, upper: float) -> str:
    """``[lower, upper]`` with four significant digits, rounded outward: still a valid interval."""
    return f"[{lower_text(lower)}, {upper_text(upper)}]"


def lower_text(bound: float) -> str:
    """Lower bound as text, rounded down."""
    return _rounded(bound, ROUND_FLOOR)


def upper_text(bound: float) -> str:
    """Upper bound as text, rounded up."""
    return _rounded(bound, ROUND_CEILING)


def _rounded(value: float, direction: str) -> str:
    """Four significant digits, without an exponent where that is readable; a dash for NaN."""
    if math.isnan(value):
        return "-"
    if not math.isfinite(value):
        return f"{value}"
    if 1e4 <= abs(value) < 1e7:
        return f"{Decimal(value).to_integral_value(direction)}"
    nearest = f"{value:.4g}"
    if math.isclose(float(nearest), value, rel_tol=_ROUNDING, abs_tol=0.0):
        return nearest  # 0.9, not 0.9001: as a binary number 0.9 is a little more
    return f"{float(Context(prec=4, rounding=direction).create_decimal(Decimal(value))):.4g}"


def label_word(guaranteed: bool) -> str:
    """The word shown to users for a guaranteed or approximate interval."""
    return "guaranteed" if guaranteed else "approximate"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
