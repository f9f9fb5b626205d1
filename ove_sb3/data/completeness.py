"""Check that episodes are complete."""

from __future__ import annotations

import numpy as np

from ove_sb3.errors import PLACE, InvalidInputError

from .trajectories import Trajectories


def check_complete(chunk: Trajectories, horizon: int | None) -> None:
    """Refuse episodes that were cut off: their returns are not what the candidate would get."""
    if horizon is not None and int(chunk.lengths.max()) > horizon:
        worst = int(chunk.lengths.argmax())
        raise InvalidInputError(
            f"`horizon` must be at least the longest episode, got {horizon} but {PLACE} has "
            f"{chunk.lengths[worst]} steps.",
            episode=worst,
        )
    short = np.ones(len(chunk), np.bool_) if horizon is None else chunk.lengths < horizon
    cut = ~chunk.terminated & short
    if not cut.any():
        return
    first = int(np.flatnonzero(cut)[0])
    known = "no horizon is known" if horizon is None else f"the horizon is {horizon}"
    raise InvalidInputError(
        f"`data` must hold complete episodes, but {PLACE} was cut off after "
        f"{chunk.lengths[first]} steps, and {known} ({int(cut.sum())} of {len(chunk)} episodes "
        "checked so far). An episode that was cut off has only a part of its return. If that is "
        "the time limit of the task, pass it as `horizon`; otherwise leave such episodes out: "
        "data[data.terminated] is right only if being cut off has nothing to do with the outcome.",
        episode=first,
    )
