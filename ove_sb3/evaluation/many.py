"""`compare`: several candidates judged by one log, with bounds that hold for all at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from ove_sb3._validation import check_choice
from ove_sb3.data.log import DiskLog, as_log
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.errors import InvalidInputError

from .candidates import as_candidate
from .one import assess
from .reduction import reduce_log
from .result import Evaluation
from .settings import resolve_settings
from .text import bounds, count, number, percent, table

RANKINGS = ("variance", "mean")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Candidates in order, best first.

    Attributes
    ----------
    evaluations : dict of str to Evaluation
        In the order of `rank_by`. The guaranteed intervals of all of them hold together, means and
        variances, with probability at least 1 - delta.
    delta : float
        Probability that any of the guaranteed intervals misses.
    rank_by : str
        ``"variance"``: by the guaranteed upper bound of the variance, smallest first.
        ``"mean"``: by the guaranteed lower bound of the mean, largest first.
    """

    evaluations: dict[str, Evaluation]
    delta: float
    rank_by: str

    def __getitem__(self, name: str) -> Evaluation:
        return self.evaluations[name]

    def __len__(self) -> int:
        return len(self.evaluations)

    @property
    def best(self) -> str:
        """Name of the first."""
        return next(iter(self.evaluations))

    @property
    def proven(self) -> list[tuple[str, str]]:
        """Pairs (better, worse) whose guaranteed intervals do not overlap."""
        names = list(self.evaluations)
        return [(a, b) for a in names for b in names if self._is_better(a, b)]

    def _is_better(self, a: str, b: str) -> bool:
        if self.rank_by == "variance":
            first, second = (self[name].intervals["guaranteed"] for name in (a, b))
            return first.upper < second.lower
        first, second = (self[name].mean_intervals["guaranteed"] for name in (a, b))
        return first.lower > second.upper

    @property
    def headline(self) -> str:
        """What was compared, from what."""
        first = self[self.best]
        where = f" of {first.env_id}" if first.env_id else ""
        by = f" logged by {first.behavior}" if first.behavior else ""
        return (
            f"return of {len(self)} candidates, judged by {first.n_trajectories} episodes{where}"
            f"{by} (gamma {first.settings.gamma:g})"
        )

    @property
    def conclusion(self) -> str:
        """What the guaranteed intervals prove about the order."""
        what = "a smaller variance" if self.rank_by == "variance" else "a larger mean"
        if not self.proven:
            return f"proven: nothing about who has {what}; the guaranteed intervals overlap"
        return "proven: " + "; ".join(f"{a} has {what} than {b}" for a, b in self.proven)

    def __str__(self) -> str:
        first = self[self.best]
        cells = [["", "", "variance", "guaranteed", "mean", "guaranteed", "ESS"]]
        for rank, (name, found) in enumerate(self.evaluations.items(), start=1):
            cells.append(
                [
                    f"{rank}",
                    name,
                    number(found.variance),
                    bounds(found.intervals["guaranteed"]),
                    number(found.mean),
                    bounds(found.mean_intervals["guaranteed"]),
                    count(found.diagnostics.effective_sample_size),
                ]
            )
        logged = [number(first.behavior_variance), "", number(first.behavior_mean), ""]
        cells.append(["", "(behavior)", *logged, f"{first.n_trajectories}"])
        width = max(len(row[1]) for row in cells)
        for row in cells:
            row[1] = row[1].ljust(width)
        return "\n".join([self.headline, "", *table(cells), "", *self.remarks])

    @property
    def remarks(self) -> list[str]:
        """The lines below the table."""
        return [
            f"guaranteed: all bounds in this table hold together with {percent(self.delta)}",
            self.conclusion,
            *(
                f"warning: {name}: {text}"
                for name, found in self.evaluations.items()
                for text in found.warnings
            ),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON; candidates are in order."""
        return {
            "delta": self.delta,
            "rank_by": self.rank_by,
            "ranking": list(self.evaluations),
            "proven": [list(pair) for pair in self.proven],
            "evaluations": {name: found.to_dict() for name, found in self.evaluations.items()},
        }

    def save_html(self, path: str | PathLike[str]) -> None:
        """Write a report that needs nothing else: one file, no network."""
        from ove_sb3._files import write_text
        from ove_sb3.report.html import comparison_page

        write_text(path, comparison_page(self))


def compare(
    data: Trajectories | DiskLog | str | PathLike[str],
    candidates: Mapping[str, Any],
    *,
    gamma: float,
    reward_range: tuple[float, float] | None = None,
    return_range: tuple[float, float] | None = None,
    horizon: int | None = None,
    max_ratio: float | None = None,
    max_weight: float | None = None,
    delta: float = 0.05,
    rank_by: str = "variance",
    model_class: Any = None,
    vec_normalize: Any = None,
    deterministic: bool = False,
    rng: int | np.random.Generator | None = 0,
    n_jobs: int = 1,
    scheduler: Any = None,
    progress: bool = False,
) -> Comparison:
    """Judge several candidates by one log, with bounds that hold for all of them at once.

    Parameters
    ----------
    data : Trajectories, DiskLog or path
        The log; it is gone through once.
    candidates : mapping of str to model, policy, path or array_like
        See `evaluate`. With paths, `model_class` is required.
    delta : float
        Probability that any guaranteed interval of any candidate misses: it is divided evenly
        among the candidates, and among mean and variance.
    rank_by : {"variance", "mean"}
        Smallest guaranteed upper bound of the variance first, or largest guaranteed lower bound
        of the mean. Ties are broken by the estimates.
    model_class : type or mapping of str to type, optional
        The class that saved the models, or one for each name.
    gamma, reward_range, return_range, horizon, max_ratio, max_weight, vec_normalize, \
deterministic, rng, n_jobs, scheduler, progress
        See `evaluate`; the same for all candidates.

    Returns
    -------
    Comparison

    Notes
    -----
    Because the bounds hold together, choosing the candidate with the best bound and then relying on
    that bound is sound.
    """
    check_choice(rank_by, "rank_by", RANKINGS)
    if not isinstance(candidates, Mapping) or not candidates:
        raise InvalidInputError(
            "`candidates` must be a mapping of names to candidates with at least one entry, got "
            f"{candidates!r}. Pass for example {{'new': model, 'old': other}}."
        )
    log = as_log(data)
    settings = resolve_settings(
        log.metadata,
        gamma=gamma,
        reward_range=reward_range,
        return_range=return_range,
        horizon=horizon,
        max_ratio=max_ratio,
        max_weight=max_weight,
        delta=delta,
        simultaneous=True,
        rng=rng,
    )
    judged = {
        str(name): as_candidate(
            candidate,
            metadata=log.metadata,
            n_steps=log.n_steps,
            model_class=_class_of(model_class, name, candidate),
            vec_normalize=vec_normalize,
            deterministic=deterministic,
            name=f"candidates[{name!r}]",
        )
        for name, candidate in candidates.items()
    }
    reduced = reduce_log(
        log,
        list(judged.values()),
        gamma=settings.gamma,
        horizon=settings.horizon,
        n_jobs=n_jobs,
        scheduler=scheduler,
        progress=progress,
    )
    share = settings.shared_by(len(judged))
    found = {
        name: assess(stats, share, log.metadata, name)
        for name, stats in zip(judged, reduced, strict=True)
    }
    order = sorted(found, key=lambda name: _rank(found[name], rank_by))
    return Comparison({name: found[name] for name in order}, settings.delta, rank_by)


def _rank(found: Evaluation, rank_by: str) -> tuple[float, float]:
    if rank_by == "variance":
        return found.intervals["guaranteed"].upper, found.variance
    return -found.mean_intervals["guaranteed"].lower, -found.mean


def _class_of(model_class: Any, name: str, candidate: Any) -> Any:
    if not isinstance(candidate, (str, PathLike)):
        return None  # the class is for those that are loaded
    return model_class.get(name) if isinstance(model_class, Mapping) else model_class
