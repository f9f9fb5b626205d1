"""`compare`: several candidates evaluated from one log, with bounds that hold together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from ove_sb3._validation import check_choice
from ove_sb3.core.interval import Interval
from ove_sb3.core.methods import Method
from ove_sb3.core.quantities import DEFAULT_QUANTITIES, Quantity, as_quantities
from ove_sb3.data.log import Log, as_log
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.errors import InvalidInputError
from ove_sb3.report.numbers import bounds, count, label, number, percent
from ove_sb3.report.table import Table

from .candidates import as_behavior, as_candidate
from .pipeline import evaluate_candidates
from .plan import make_plan
from .requirements import Requirement
from .result import Evaluation

RANKINGS = {"variance": "a smaller variance", "mean": "a larger mean"}


@dataclass(frozen=True, eq=False)
class Comparison:
    """Evaluations of several candidates, in order of their bounds.

    Attributes
    ----------
    evaluations : dict of str to Evaluation
        In the order of `rank_by`. The main intervals of all of them hold together, for all
        quantities, with probability at least 1 - delta if they are guaranteed.
    delta : float
        Probability that any guaranteed interval misses.
    rank_by : str
        ``"variance"``: by the upper bound of the variance, smallest first. ``"mean"``: by the
        lower bound of the mean, largest first.
    """

    evaluations: dict[str, Evaluation]
    delta: float
    rank_by: str

    def __getitem__(self, name: str) -> Evaluation:
        return self.evaluations[name]

    def __len__(self) -> int:
        return len(self.evaluations)

    @property
    def best(self) -> str | None:
        """Name of the candidate that is proven better than all others; None if there is none."""
        names = list(self.evaluations)
        proven = set(self.proven)
        for name in names:
            if len(names) > 1 and all((name, other) in proven for other in names if other != name):
                return name
        return None

    @property
    def proven(self) -> list[tuple[str, str]]:
        """Pairs (better, worse) whose guaranteed intervals do not overlap."""
        names = list(self.evaluations)
        return [(a, b) for a in names for b in names if self._is_better(a, b)]

    def _is_better(self, a: str, b: str) -> bool:
        first, second = self._interval(a), self._interval(b)
        if not (first.guaranteed and second.guaranteed):
            return False
        if self.rank_by == "variance":
            return first.upper < second.lower
        return first.lower > second.upper

    def _interval(self, name: str) -> Interval:
        return self[name][self.rank_by].interval

    def satisfying(self, *requirements: str | Requirement) -> list[str]:
        """Names of the candidates for which all requirements are proven, in order."""
        return [name for name in self.evaluations if self[name].satisfies(*requirements)]

    # --- text

    @property
    def _first(self) -> Evaluation:
        return next(iter(self.evaluations.values()))

    @property
    def headline(self) -> str:
        """Candidates, log and discount factor in one line."""
        first = self._first
        where = f" of {first.env_id}" if first.env_id else ""
        by = f" logged by {first.behavior}" if first.behavior else ""
        return (
            f"Estimated {first.plan.subject} of {len(self)} candidates from "
            f"{first.n_trajectories} episodes{where}{by} (gamma {first.plan.assumptions.gamma:g})"
        )

    @property
    def question(self) -> str:
        """The question that the comparison answers."""
        return f"Which candidate has {RANKINGS[self.rank_by]} of the return?"

    @property
    def answer(self) -> str:
        """The answer in one sentence."""
        if self.best is None:
            return "No candidate is proven best: the intervals overlap or are not guaranteed."
        what, confidence = RANKINGS[self.rank_by], percent(self.delta)
        return f"{self.best} has {what} than all others, with {confidence} confidence."

    @property
    def findings(self) -> list[str]:
        """What is proven about the order."""
        what = RANKINGS[self.rank_by]
        proven = [f"Proven: {a} has {what} than {b}." for a, b in self.proven]
        return proven or [f"Nothing is proven about which candidate has {what}."]

    @property
    def table(self) -> Table:
        """Candidates in order, with the estimates and main intervals of every quantity."""
        first = self._first
        quantities = list(first.quantities)
        header = ["candidate"]
        for name in quantities:
            intervals = [result[name].interval for result in self.evaluations.values()]
            header += [first[name].quantity.label, label(*intervals)]
        rows = []
        for candidate, evaluation in self.evaluations.items():
            cells = [candidate]
            for name in quantities:
                result = evaluation[name]
                cells += [number(result.estimate), bounds(result.interval)]
            rows.append([*cells, count(evaluation.diagnostics.effective_sample_size)])
        logged = ["(behavior)"]
        for name in quantities:
            logged += [number(first[name].behavior), ""]
        rows.append([*logged, f"{first.n_trajectories}"])
        return Table.of([*header, "ESS"], rows, faint_last=True)

    @property
    def remarks(self) -> list[str]:
        """Lines below the table."""
        lines = []
        if all(evaluation.guaranteed for evaluation in self.evaluations.values()):
            lines.append(f"all intervals in this table hold together with {percent(self.delta)}")
        lines += [self.answer, *(text for text in self.findings if self.proven)]
        for name, evaluation in self.evaluations.items():
            lines += [f"warning: {name}: {text}" for text in evaluation.warnings]
        return lines

    def __str__(self) -> str:
        return "\n".join([self.headline, "", *self.table.lines(), "", *self.remarks])

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON; candidates are in order."""
        return {
            "delta": self.delta,
            "rank_by": self.rank_by,
            "ranking": list(self.evaluations),
            "best": self.best,
            "proven": [list(pair) for pair in self.proven],
            "evaluations": {name: found.to_dict() for name, found in self.evaluations.items()},
        }

    def save_html(self, path: str | PathLike[str]) -> None:
        """Write a self-contained HTML report, atomically."""
        from ove_sb3._files import write_text
        from ove_sb3.report.pages import comparison_page

        write_text(path, comparison_page(self))


def compare(
    data: Trajectories | Log | str | PathLike[str],
    candidates: Mapping[str, Any],
    *,
    gamma: float,
    reward_range: tuple[float, float] | str | None = None,
    return_range: tuple[float, float] | None = None,
    horizon: int | None = None,
    max_ratio: float | None = None,
    max_weight: float | None = None,
    behavior: Any = None,
    reward: str | None = None,
    quantities: Sequence[str | Quantity] = DEFAULT_QUANTITIES,
    delta: float = 0.05,
    rank_by: str = "variance",
    method: str | Method = "betting",
    approximate: str | Method | None = "bootstrap",
    estimators: Mapping[str, str] | None = None,
    model_class: Any = None,
    vec_normalize: Any = None,
    deterministic: bool = False,
    rng: int | np.random.Generator | None = 0,
    n_jobs: int = 1,
    scheduler: Any = None,
    progress: bool = False,
) -> Comparison:
    """Evaluate several candidates from one log, with bounds that hold for all of them together.

    Parameters
    ----------
    data : Trajectories, Log or path
        The log; it is read once.
    candidates : mapping of str to model, policy, path or array_like
        See `evaluate`. With paths, `model_class` is required.
    delta : float
        Probability that any main interval of any candidate misses: it is divided evenly among the
        candidates, and among the quantities.
    rank_by : {"variance", "mean"}
        Order of the candidates: smallest upper bound of the variance first, or largest lower
        bound of the mean. Ties are broken by the estimates.
    model_class : type or mapping of str to type, optional
        The class that saved the models, or one for each name, and for ``"behavior"``.
    gamma, reward_range, return_range, horizon, max_ratio, max_weight, behavior, reward, \
quantities, method, approximate, estimators, vec_normalize, deterministic, rng, n_jobs, scheduler, \
progress
        See `evaluate`; the same for all candidates.

    Returns
    -------
    Comparison

    Notes
    -----
    Because the bounds hold together, it is sound to choose the candidate with the best bound and
    then to rely on that bound. `Comparison.best` is None unless the intervals are separated.
    """
    check_choice(rank_by, "rank_by", RANKINGS)
    if not isinstance(candidates, Mapping) or not candidates:
        raise InvalidInputError(
            "`candidates` must be a mapping of names to candidates with at least one entry, got "
            f"{candidates!r}. Pass for example {{'new': model, 'old': other}}."
        )
    if rank_by not in {quantity.name for quantity in as_quantities(quantities)}:
        raise InvalidInputError(
            f"`rank_by` must be one of `quantities`, got {rank_by!r}, which is not evaluated."
        )
    log = as_log(data)
    plan = make_plan(
        log.metadata,
        gamma=gamma,
        reward_range=reward_range,
        return_range=return_range,
        horizon=horizon,
        max_ratio=max_ratio,
        max_weight=max_weight,
        reward=reward,
        delta=delta,
        simultaneous=True,
        quantities=quantities,
        method=method,
        approximate=approximate,
        estimators=estimators,
        rng=rng,
        n_candidates=len(candidates),
    )
    known = as_behavior(
        behavior, metadata=log.metadata, model_class=_class_of(model_class, "behavior", behavior)
    )
    policies = {
        str(name): as_candidate(
            candidate,
            metadata=log.metadata,
            n_steps=log.n_steps,
            model_class=_class_of(model_class, name, candidate),
            vec_normalize=vec_normalize,
            deterministic=deterministic,
            name=f"candidates[{name!r}]",
            label=str(name),
            behavior=known,
        )
        for name, candidate in candidates.items()
    }
    results = evaluate_candidates(
        log,
        list(policies.values()),
        plan,
        n_jobs=n_jobs,
        scheduler=scheduler,
        progress=progress,
    )
    evaluations = dict(zip(policies, results, strict=True))
    order = sorted(evaluations, key=lambda name: _rank(evaluations[name], rank_by))
    return Comparison({name: evaluations[name] for name in order}, plan.budget.delta, rank_by)


def _rank(evaluation: Evaluation, rank_by: str) -> tuple[float, float]:
    result = evaluation[rank_by]
    if rank_by == "variance":
        return result.interval.upper, result.estimate
    return -result.interval.lower, -result.estimate


def _class_of(model_class: Any, name: str, candidate: Any) -> Any:
    if not isinstance(candidate, (str, PathLike)):
        return None  # only paths are loaded
    return model_class.get(name) if isinstance(model_class, Mapping) else model_class
