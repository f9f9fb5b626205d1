"""What `evaluate` returns."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

from ove_sb3._validation import check_real
from ove_sb3.core.diagnostics import Diagnostics
from ove_sb3.core.results import Interval
from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.errors import InvalidInputError

from .settings import Settings
from .text import bounds, count, number, percent, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The candidate's return as the log tells it, how sure that is, and why.

    Attributes
    ----------
    mean, variance : float
        Estimates for the return under the candidate. The variance estimate is unbiased and can
        therefore be negative.
    intervals, mean_intervals, std_intervals : dict of str to Interval
        For the variance, the mean and the standard deviation: ``"guaranteed"``, which holds with
        the stated probability at this number of episodes under its assumptions, and
        ``"bootstrap"``, which is approximate; the latter is left out where it does not apply.
    behavior_mean, behavior_variance : float
        Of the logged returns themselves.
    episodes_to_halve : int or None
        About how many episodes in all would halve the guaranteed interval for the variance; None
        if the data do not tell.
    diagnostics : Diagnostics
    warnings : tuple of str
        What to worry about, in plain words.
    mean_estimator, variance_estimator : str
    candidate, behavior, env_id : str or None
        What was judged, what logged, and where.
    settings : Settings
        Everything else the result depends on, the seed included.
    versions : dict of str to str
    stats : TrajectoryStatistics
        The numbers per trajectory that all of the above was computed from.
    """

    mean: float
    variance: float
    intervals: dict[str, Interval]
    mean_intervals: dict[str, Interval]
    std_intervals: dict[str, Interval]
    behavior_mean: float
    behavior_variance: float
    episodes_to_halve: int | None
    diagnostics: Diagnostics
    warnings: tuple[str, ...]
    mean_estimator: str
    variance_estimator: str
    candidate: str
    behavior: str | None
    env_id: str | None
    settings: Settings
    versions: dict[str, str]
    stats: TrajectoryStatistics = field(repr=False)

    @property
    def std(self) -> float:
        """Square root of the variance estimate, 0 if that is negative."""
        return math.sqrt(max(self.variance, 0.0))

    @property
    def behavior_std(self) -> float:
        """Standard deviation of the logged returns."""
        return math.sqrt(self.behavior_variance)

    @property
    def n_trajectories(self) -> int:
        """Number of logged episodes."""
        return len(self.stats)

    def satisfies(
        self, *, max_variance: float | None = None, min_mean: float | None = None
    ) -> bool:
        """Whether the guaranteed bounds prove these requirements.

        A candidate that breaks one of them passes with probability at most `delta`, also when both
        are asked for: it would have to slip through the one it breaks.

        Parameters
        ----------
        max_variance : float, optional
            The upper bound of the variance must not exceed it.
        min_mean : float, optional
            The lower bound of the mean must not be below it.
        """
        if max_variance is None and min_mean is None:
            raise InvalidInputError(
                "`max_variance` or `min_mean` must be given, got neither. State what the candidate "
                "must satisfy."
            )
        passed = True
        if max_variance is not None:
            limit = check_real(max_variance, "max_variance", 0.0, math.inf)
            bound = self.intervals["guaranteed"]
            passed &= bound.guaranteed and bound.upper <= limit
        if min_mean is not None:
            limit = check_real(min_mean, "min_mean", -math.inf, math.inf)
            bound = self.mean_intervals["guaranteed"]
            passed &= bound.guaranteed and bound.lower >= limit
        return passed

    @property
    def rows(self) -> list[tuple[str, float, dict[str, Interval], float]]:
        """Name, estimate, intervals and the behavior's value of the three quantities."""
        return [
            ("mean", self.mean, self.mean_intervals, self.behavior_mean),
            ("variance", self.variance, self.intervals, self.behavior_variance),
            ("standard deviation", self.std, self.std_intervals, self.behavior_std),
        ]

    @property
    def headline(self) -> str:
        """What was judged, from what."""
        where = f" of {self.env_id}" if self.env_id else ""
        by = f" logged by {self.behavior}" if self.behavior else ""
        return (
            f"return of {self.candidate}, judged by {self.n_trajectories} episodes{where}{by} "
            f"(gamma {self.settings.gamma:g})"
        )

    def __str__(self) -> str:
        confidence = percent(self.settings.interval_delta)
        kinds = [kind for kind in ("guaranteed", "bootstrap") if kind in self.intervals]
        cells = [["", "estimate", *(f"{confidence} {kind}" for kind in kinds), "behavior"]]
        for name, value, intervals, logged in self.rows:
            shown = [bounds(intervals.get(kind)) for kind in kinds]
            cells.append([name, number(value), *shown, number(logged)])
        return "\n".join([self.headline, "", *table(cells), "", *self.remarks])

    @property
    def remarks(self) -> list[str]:
        """The lines below the table."""
        n, ess = self.n_trajectories, self.diagnostics.effective_sample_size
        lines = [f"effective sample size {count(ess)} of {n} episodes"]
        if self.episodes_to_halve is not None:
            lines[0] += f"; about {self.episodes_to_halve} would halve the guaranteed interval"
        if self.settings.simultaneous:
            together = percent(self.settings.delta)
            lines.append(f"guaranteed: mean and variance hold together with {together}")
        return [*lines, *(f"warning: {text}" for text in self.warnings)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON."""
        return {
            "candidate": self.candidate,
            "behavior": self.behavior,
            "env_id": self.env_id,
            "n_trajectories": self.n_trajectories,
            "n_steps": self.stats.n_steps,
            "mean": self.mean,
            "variance": self.variance,
            "std": self.std,
            "mean_estimator": self.mean_estimator,
            "variance_estimator": self.variance_estimator,
            "mean_intervals": _plain(self.mean_intervals),
            "intervals": _plain(self.intervals),
            "std_intervals": _plain(self.std_intervals),
            "behavior_mean": self.behavior_mean,
            "behavior_variance": self.behavior_variance,
            "episodes_to_halve": self.episodes_to_halve,
            "diagnostics": self.diagnostics.to_dict(),
            "warnings": list(self.warnings),
            "settings": self.settings.to_dict(),
            "versions": dict(self.versions),
        }

    def plot(self) -> Figure:
        """Draw the distributions of the return, the intervals and the weights (matplotlib)."""
        from ove_sb3.report.figure import evaluation_figure

        return evaluation_figure(self)

    def save_html(
        self,
        path: str | PathLike[str],
        *,
        max_variance: float | None = None,
        min_mean: float | None = None,
    ) -> None:
        """Write a report that needs nothing else: one file, no network.

        Parameters
        ----------
        path : path
            Written beside, then renamed: there is never half a report.
        max_variance, min_mean : float, optional
            Requirements that the report judges, see `satisfies`.
        """
        from ove_sb3._files import write_text
        from ove_sb3.report.html import evaluation_page

        write_text(path, evaluation_page(self, max_variance=max_variance, min_mean=min_mean))


def _plain(intervals: dict[str, Interval]) -> dict[str, Any]:
    return {kind: interval.to_dict() for kind, interval in intervals.items()}
