"""The limits that a model's guaranteed bounds have to keep within to be admissible."""

from __future__ import annotations

from ove_sb3._validation import check_real
from ove_sb3.errors import InvalidInputError


def check_gate(
    max_variance: float | None, min_mean: float | None, reward_range: object
) -> tuple[float | None, float | None]:
    """Check the limits that a model's bounds have to keep within.

    Parameters
    ----------
    max_variance, min_mean : float or None
    reward_range : object
        As passed to the callback: bounds that rest on the range of the data satisfy no gate.
    """
    inf = float("inf")
    if max_variance is not None:
        max_variance = check_real(max_variance, "max_variance", 0.0, inf)
    if min_mean is not None:
        min_mean = check_real(min_mean, "min_mean", -inf, inf)
    if isinstance(reward_range, str) and (max_variance, min_mean) != (None, None):
        raise InvalidInputError(
            f"`reward_range` must be stated for a gate, got {reward_range!r}: bounds that rest on "
            "the range of the data are not guaranteed and would never satisfy it."
        )
    return max_variance, min_mean
