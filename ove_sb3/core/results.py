"""What the interval functions return."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Interval:
    """A confidence interval that says how sure it is, and why.

    Attributes
    ----------
    lower, upper : float
        The bounds. A side that was not asked for is at the end of what is possible at all.
    delta : float
        Total probability of a miss, over what was asked for.
    guaranteed : bool
        True: coverage of at least 1 - delta is proven at this n, under `assumptions`. False: it
        holds approximately, for large n.
    assumptions : tuple of str
        What the coverage rests on.
    quantity : str
        ``"variance"`` or ``"mean"``, of the candidate's return.
    method, side : str
        As asked for.
    n_trajectories : int
        Number of trajectories used.
    trivial : tuple of float
        Range in which the quantity lies whatever the data say; for the variance, Popoviciu's.
    """

    lower: float
    upper: float
    delta: float
    guaranteed: bool
    assumptions: tuple[str, ...]
    quantity: str
    method: str
    side: str
    n_trajectories: int
    trivial: tuple[float, float]

    @property
    def width(self) -> float:
        """Upper minus lower bound."""
        return self.upper - self.lower

    @property
    def informative(self) -> bool:
        """Whether the interval says more than the trivial range."""
        return self.lower > self.trivial[0] or self.upper < self.trivial[1]

    def approximate(self, reason: str) -> Interval:
        """The same bounds without the guarantee, which rests on what `reason` says as well."""
        return replace(self, guaranteed=False, assumptions=(*self.assumptions, reason))

    def __contains__(self, value: object) -> bool:
        return isinstance(value, (int, float)) and self.lower <= value <= self.upper

    def __str__(self) -> str:
        label = "guaranteed" if self.guaranteed else "approximate"
        confidence = f"{100 * (1 - self.delta):g}%"
        return (
            f"{self.quantity} {confidence} {label} [{self.lower:.4g}, {self.upper:.4g}] "
            f"({self.method}, n={self.n_trajectories})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON; an infinite bound becomes None."""
        return {
            "quantity": self.quantity,
            "lower": _finite(self.lower),
            "upper": _finite(self.upper),
            "delta": self.delta,
            "guaranteed": self.guaranteed,
            "method": self.method,
            "side": self.side,
            "n_trajectories": self.n_trajectories,
            "trivial": [_finite(end) for end in self.trivial],
            "informative": self.informative,
            "assumptions": list(self.assumptions),
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
