"""Whether episodes are complete, so that their returns are what they seem to be."""

from __future__ import annotations

import numpy as np

from ove_sb3.errors import InvalidInputError

from .trajectories import Trajectories


def check_complete(chunk: Trajectories, horizon: int | None) -> None:
    """Refuse episodes that were cut off: their returns are not what the candidate would get."""
    if horizon is not None and int(chunk.lengths.max()) > horizon:
        worst = int(chunk.lengths.argmax())
        raise InvalidInputError(
            f"`horizon` must be at least the longest episode, got {horizon} but episode "
            f"{worst} has {chunk.lengths[worst]} steps."
        )
    short = np.ones(len(chunk), np.bool_) if horizon is None else chunk.lengths < horizon
    cut = ~chunk.terminated & short
    if not cut.any():
        return
    first = int(np.flatnonzero(cut)[0])
    known = "no horizon is known" if horizon is None else f"the horizon is {horizon}"
    raise InvalidInputError(
        "`data` must hold complete episodes: one that was cut off has only a part of its return. "
        f"Episode {first} was cut off after {chunk.lengths[first]} steps, and "
        f"{known} ({int(cut.sum())} such of {len(chunk)} episodes looked at). If that is the time "
        "limit of the task, pass it as `horizon`; otherwise leave such episodes out: "
        "data[data.terminated] is right only if being cut off has nothing to do with the outcome."
    )
