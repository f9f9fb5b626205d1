"""State of a watch: what was asked, how much of the log was seen, and the bounds so far."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from ove_sb3._files import replacing
from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.errors import InvalidInputError, StorageError

from .growth import Writers

_VERSION = 1
_ROUNDING = 1e-6  # relative, of sums that are computed again on another machine


@dataclass
class WatchState:
    """Question, episodes seen and bounds found so far.

    Attributes
    ----------
    question : dict
        Candidate, requirements and assumptions, as plain values.
    writers : list of (str, int)
        Writers of the log, in their order, and the number of episodes of each.
    n : int
        Number of episodes at the last evaluation.
    sums : list of float
        Sums of the weights and of the returns of these episodes.
    bounds : dict of str to float
        Best bounds so far, by what they bound, side and level.
    decision : dict or None
        The final decision, once there is one.
    """

    question: dict[str, Any]
    writers: Writers = ()
    n: int = 0
    sums: list[float] = field(default_factory=list)
    bounds: dict[str, float] = field(default_factory=dict)
    decision: dict[str, Any] | None = None

    @classmethod
    def load(cls, path: Path, question: dict[str, Any]) -> WatchState:
        """The state in a file; a new one if there is no file. Another question is refused."""
        try:
            values = json.loads(path.read_text())
        except FileNotFoundError:
            return cls(question)
        except (ValueError, UnicodeDecodeError) as error:
            raise _damaged(path, error) from error
        names = {entry.name for entry in fields(cls)} | {"version"}
        if not isinstance(values, dict) or set(values) != names or values["version"] != _VERSION:
            raise _damaged(path, "it does not hold what this version writes")
        del values["version"]
        state = cls(**values)
        state.check_question(question, path)
        return state

    def save(self, path: Path) -> None:
        """Write the file atomically; it survives a power loss."""
        text = json.dumps({"version": _VERSION, **asdict(self)}, indent=1)
        with replacing(path, durable=True) as temporary:
            temporary.write_text(text)

    def check_question(self, question: dict[str, Any], path: Path) -> None:
        """Refuse another candidate, other requirements or other assumptions."""
        plain = json.loads(json.dumps(question))
        for name in sorted(set(plain) | set(self.question)):
            ours, theirs = self.question.get(name), plain.get(name)
            if ours != theirs:
                raise InvalidInputError(
                    f"`state` must be that of the same evaluation, got {path} with {name} "
                    f"{ours!r}, not {theirs!r}. Pass the same arguments, or another `state`: "
                    "another evaluation has a failure probability of its own.",
                    path=path,
                )

    def check_sums(self, stats: TrajectoryStatistics, path: Path) -> None:
        """Refuse a candidate whose weights, or episodes whose returns, are not as before."""
        if not self.n:
            return
        sums_now = zip(("weights", "returns"), self.sums, sums(stats, self.n), strict=True)
        for name, before, now in sums_now:
            if not math.isclose(before, now, rel_tol=_ROUNDING, abs_tol=_ROUNDING):
                raise InvalidInputError(
                    f"`state` must be that of the same candidate and log, got {path}, where the "
                    f"{name} of the first {self.n} episodes add up to {before:.8g}, not "
                    f"{now:.8g}. Pass another `state`.",
                    path=path,
                )

    def seen(self, stats: TrajectoryStatistics, n: int, writers: Writers) -> None:
        """Record how much of the log was evaluated."""
        self.n, self.sums = n, sums(stats, n)
        self.writers = writers

    def improve(self, key: str, bound: float, *, upper: bool) -> float:
        """The best of a bound and the earlier ones; all of them hold simultaneously."""
        earlier = self.bounds.get(key, bound)
        self.bounds[key] = min(earlier, bound) if upper else max(earlier, bound)
        return self.bounds[key]


def sums(stats: TrajectoryStatistics, n: int) -> list[float]:
    """Sums of the weights and of the returns of the first n episodes."""
    return [float(np.sum(column[:n])) for column in (stats.weights, stats.returns)]


def _damaged(path: Path, why: object) -> StorageError:
    return StorageError(
        f"`state` must be a file written by watch, but {path} cannot be used: {why}. Restore it, "
        "or remove it to evaluate the log from its beginning again: the bounds are the same.",
        path=path,
    )
