"""Fields in the infos of other libraries, under names of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ove_sb3.errors import PLACE, InvalidInputError

LOG_PROB, PROPENSITY, MASK = "log_prob", "propensity", "action_mask"


@dataclass(frozen=True)
class InfoNames:
    """Names of the log-probabilities, masks and columns in the infos.

    Attributes
    ----------
    source : str
        Name of the log-probability or propensity in the infos.
    is_propensity : bool
        It is a probability, not its logarithm.
    mask : str or None
    columns : dict of str to str
        Kept columns, by their new names.
    """

    source: str
    is_propensity: bool
    mask: str | None
    columns: Mapping[str, str]

    @classmethod
    def of(cls, infos: Mapping[str, str] | None) -> InfoNames:
        """Names from the argument `infos` of a reader."""
        if infos is None:
            infos = {LOG_PROB: LOG_PROB}
        if not isinstance(infos, Mapping) or not all(
            isinstance(text, str) for item in infos.items() for text in item
        ):
            raise InvalidInputError(
                f"`infos` must be a dict of names to names in the infos, got {infos!r}."
            )
        given = [name for name in (LOG_PROB, PROPENSITY) if name in infos]
        if len(given) != 1:
            raise InvalidInputError(
                f'`infos` must say where the behavior\'s "{LOG_PROB}" or "{PROPENSITY}" is, one of '
                f"the two, got {dict(infos)!r}."
            )
        columns = {k: v for k, v in infos.items() if k not in (LOG_PROB, PROPENSITY, MASK)}
        return cls(infos[given[0]], given[0] == PROPENSITY, infos.get(MASK), columns)

    def fields(self, arrays: Mapping[str, NDArray[Any]], episode: int) -> dict[str, Any]:
        """Arguments of `Trajectories.from_arrays`, from arrays by their names in the infos."""
        values = np.asarray(arrays[self.source], dtype=np.float64).reshape(-1)
        if self.is_propensity:
            if (bad := ~((values > 0.0) & np.isfinite(values))).any():
                step = int(np.flatnonzero(bad)[0])
                raise InvalidInputError(
                    f"info {self.source!r} must hold positive propensities, got {values[step]} at "
                    f"{PLACE}.",
                    episode=episode,
                    step=step,
                )
            values = np.log(values)
        return {
            "log_probs": values,
            "action_masks": None
            if self.mask is None
            else np.asarray(arrays[self.mask], dtype=np.bool_),
            "columns": {name: np.asarray(arrays[theirs]) for name, theirs in self.columns.items()},
        }

    @property
    def wanted(self) -> list[str]:
        """All names in the infos."""
        masks = [] if self.mask is None else [self.mask]
        return [self.source, *masks, *self.columns.values()]


def find(info: Any, name: str) -> Any:
    """Entry of an info, by its name or by a path with slashes; None if it is not there."""
    if name in info:
        return info[name]
    for part in name.split("/"):
        if not isinstance(info, Mapping) or part not in info:
            return None
        info = info[part]
    return info


def read_infos(
    rows: Sequence[Mapping[str, Any]], names: InfoNames, n_steps: int, *, episode: int
) -> dict[str, Any]:
    """Fields of one episode from the infos of its steps, one dict each."""
    if len(rows) != n_steps:
        raise InvalidInputError(
            f"`infos` must be given for each of {n_steps} actions, got {len(rows)} at {PLACE}: "
            "without the probability of every action nothing can be estimated off-policy.",
            episode=episode,
        )
    arrays = {}
    for name in names.wanted:
        values = [find(row, name) for row in rows]
        for step, value in enumerate(values):
            if value is None:
                raise missing_info(name, rows[step], episode=episode, step=step)
        arrays[name] = np.stack([np.asarray(value) for value in values])
    return names.fields(arrays, episode)


def missing_info(
    name: str, info: Mapping[str, Any], *, episode: int, step: int | None = None
) -> InvalidInputError:
    """Error about an info that lacks a name."""
    return InvalidInputError(
        f"`infos` must name entries of every info, got the name {name!r} and an info with "
        f"{sorted(info)} at {PLACE}. Say where the log-probability of every action is: "
        'infos={"log_prob": ...}; without it nothing can be estimated off-policy.',
        episode=episode,
        step=step,
    )
