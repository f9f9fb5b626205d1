"""Arguments about a log, checked against its metadata."""

from __future__ import annotations

from ove_sb3._validation import check_integer, check_range
from ove_sb3.data.metadata import Metadata
from ove_sb3.errors import AssumptionError

_ROUNDING = 2.0**-23  # relative: a range may have been stated in single precision


def stated_horizon(horizon: int | None, metadata: Metadata) -> tuple[int | None, tuple[str, ...]]:
    """The horizon to use, and a warning if it is not the log's own.

    One below the log's own would promise more than the environment does. One above it promises
    less: the bounds hold, but are wider than they need be.
    """
    own = metadata.horizon
    if horizon is None:
        return own, ()
    horizon = check_integer(horizon, "horizon", 1)
    if own is None or horizon == own:
        return horizon, ()
    if horizon < own:
        raise AssumptionError(
            f"`horizon` must be at least that of the log, got {horizon}, but the log states that "
            f"episodes have up to {own} steps. Leave it out; if the log is wrong, correct "
            "its metadata."
        )
    return horizon, (
        f"the stated horizon of {horizon} steps exceeds that of the log, {own}: the bounds hold, "
        "but are wider than they need be.",
    )


def stated_reward_range(
    reward_range: tuple[float, float] | str | None, metadata: Metadata
) -> tuple[float, float] | str | None:
    """The range of rewards to use; one that the log contradicts is refused."""
    own = metadata.reward_range
    if reward_range is None:
        return own
    if own is None or isinstance(reward_range, str):
        return reward_range
    low, high = check_range(reward_range, "reward_range")
    slack = _ROUNDING * max(abs(end) for end in own)
    if low > own[0] + slack or high < own[1] - slack:
        raise AssumptionError(
            f"`reward_range` must contain that of the log, got ({low:g}, {high:g}), but the log "
            f"states rewards from {own[0]:g} to {own[1]:g}. Leave it out; if the log is wrong, "
            "correct its metadata."
        )
    return low, high
