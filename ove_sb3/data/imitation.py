"""Reading trajectories of the library imitation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from typing import Any

import numpy as np

from ove_sb3._progress import tracked
from ove_sb3.errors import PLACE, InvalidInputError

from .infos import InfoNames, read_infos
from .metadata import Metadata
from .trajectories import Trajectories, join_parts

_FIELDS = ("obs", "acts", "rews", "infos", "terminal")


def from_imitation(
    trajectories: Iterable[Any],
    *,
    infos: Mapping[str, str] | None = None,
    metadata: Metadata | Mapping[str, Any] | None = None,
    progress: bool | None = None,
) -> Trajectories:
    """Trajectories from those of the library imitation, with rewards and log-probabilities.

    Parameters
    ----------
    trajectories : iterable of TrajectoryWithRew
        Anything with the fields ``obs``, ``acts``, ``rews``, ``infos`` and ``terminal`` of
        ``imitation.data.types.TrajectoryWithRew``. The behavior's log-probability of every action
        is in its info.
    infos : dict of str to str, optional
        Names in the infos by field: ``"log_prob"``, or ``"propensity"`` for a probability,
        ``"action_mask"``, and any other name for a column to keep. By default
        ``{"log_prob": "log_prob"}``. A slash leads into a dict within the info.
    metadata : Metadata or dict, optional
        Such as ``{"horizon": 500, "reward_range": (0, 1)}``.
    progress : bool, optional
        Show a progress bar. By default in a terminal or notebook, after two seconds.

    Returns
    -------
    Trajectories
        An episode is truncated if it is not `terminal`, or if its last info says so
        (``"TimeLimit.truncated"``).
    """
    names = InfoNames.of(infos)
    parts = []
    total = len(trajectories) if isinstance(trajectories, Sized) else None
    for k, trajectory in enumerate(tracked(trajectories, progress, total=total, unit="episode")):
        missing = [name for name in _FIELDS if not hasattr(trajectory, name)]
        if missing:
            raise InvalidInputError(
                "`trajectories` must hold trajectories with rewards, as "
                f"imitation.data.types.TrajectoryWithRew, got {type(trajectory).__name__} without "
                f"{missing[0]} at {PLACE}. Roll out with a wrapper that keeps the rewards.",
                episode=k,
            )
        n = len(trajectory.acts)
        rows = [] if trajectory.infos is None else list(trajectory.infos)
        last = rows[-1] if rows else {}
        cut = not trajectory.terminal or bool(last.get("TimeLimit.truncated", False))
        read = read_infos(rows, names, n, episode=k)
        observations, final = _split(trajectory.obs, n)
        parts.append(
            Trajectories.from_arrays(
                observations=observations,
                actions=np.asarray(trajectory.acts),
                rewards=np.asarray(trajectory.rews, dtype=np.float64),
                lengths=[n],
                truncated=[cut],
                final_observations=final,
                metadata=metadata,
                **read,
            )
        )
    if not parts:
        raise InvalidInputError("`trajectories` must hold at least one trajectory, got 0.")
    return join_parts(parts)


def _split(observations: Any, n: int) -> tuple[Any, Any]:
    """Observations before the actions, and the last one; dicts as imitation's ``DictObs``."""
    if hasattr(observations, "unwrap"):
        observations = observations.unwrap()
    if isinstance(observations, Mapping):
        pairs = {key: _split(rows, n) for key, rows in observations.items()}
        return {key: a for key, (a, _) in pairs.items()}, {key: b for key, (_, b) in pairs.items()}
    rows = np.asarray(observations)
    return rows[:n], rows[n : n + 1]
