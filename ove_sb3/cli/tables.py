"""Tables on the command line: one row per step, with the propensities of two policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer

from ove_sb3.data.table_files import TABLE_SUFFIXES
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.errors import PLACE, InvalidInputError

__all__ = ["TABLE_SUFFIXES", "StepTable", "read_table"]


class StepTable(NamedTuple):
    """A file with one row per step, and the names of its columns."""

    path: Path
    episode: str
    step: str
    propensity: str
    reward: str
    density: bool

    def read(self, *keep: str, progress: bool | None = None) -> Trajectories:
        """Trajectories with the columns `keep`."""
        return Trajectories.from_table(
            self.path,
            episode=self.episode,
            step=None if self.step == "none" else self.step,
            propensity=self.propensity,
            reward=self.reward,
            density=self.density,
            keep=keep,
            progress=progress,
        )


def read_table(
    table: StepTable,
    candidate: str | None,
    candidate_propensity: str | None,
    *,
    progress: bool | None = None,
) -> tuple[Trajectories, Any]:
    """The logged episodes, and the candidate's log-probabilities of the logged actions."""
    if candidate_propensity is None or candidate is not None:
        raise typer.BadParameter(
            "a table needs --candidate-propensity, the column with the candidate's probability of "
            "the logged action, in place of CANDIDATE."
        )
    data = table.read(candidate_propensity, progress=progress)
    values = np.asarray(data.columns[candidate_propensity], dtype=np.float64)
    bad = values < 0.0 if table.density else (values < 0.0) | (values > 1.0)
    if bad.any():
        rows = np.flatnonzero(bad)
        rule = "densities of at least 0" if table.density else "probabilities in [0, 1]"
        raise InvalidInputError(
            f"column {candidate_propensity!r} must hold {rule}, got {values[rows[0]]} at {PLACE} "
            f"({rows.size} of {values.size} rows, sorted by episode and step).",
            row=int(rows[0]),
        )
    with np.errstate(divide="ignore"):
        return data, np.log(values)
