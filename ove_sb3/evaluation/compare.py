"""`compare`: several candidates evaluated from one log, with bounds that hold simultaneously."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from ove_sb3._validation import check_choice, check_flag
from ove_sb3.core.interval import Interval
from ove_sb3.core.methods import Method
from ove_sb3.core.quantities import MOMENTS, Quantity, as_quantities
from ove_sb3.data.log import Log, as_log
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.errors import InvalidInputError
from ove_sb3.report.html import summary
from ove_sb3.report.numbers import bounds, count, label, number, percent
from ove_sb3.report.table import Table

from .candidates import as_behavior, as_candidate, is_array
from .model_files import check_safe_load
from .pipeline import evaluate_candidates
from .plan import make_plan
from .requirements import Requirement
from .result import Evaluation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RANKINGS = {"variance": "a smaller variance", "mean": "a larger mean"}


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Evaluations of several candidates, in order of their bounds.

    Attributes
    ----------
    evaluations : dict of str to Evaluation
        In the order of `ranking`, then those that are not ranked, as they were given. The main
        intervals of all of them hold simultaneously, for all quantities, with probability at least
        1 - delta if they are guaranteed.
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
    def ranking(self) -> list[str]:
        """Names in the order of the bound that `rank_by` names.

        Candidates whose bound is no tighter than the a priori range are left out: the log says
        nothing about their place. An order alone proves nothing, see `proven` and `best`.
        """
        return _ranking(self.evaluations, self.rank_by)

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
        best = {"variance": "smallest variance", "mean": "largest mean"}[self.rank_by]
        return f"Which candidate has the {best} of the return?"

    @property
    def answer(self) -> str:
        """The answer in one sentence."""
        if self.best is None:
            if not self.ranking:
                return (
                    "No candidate is proven best, and none is ranked: no bound is tighter than the "
                    "a priori range. Candidates are in the given order."
                )
            return "No candidate is proven best: the intervals overlap or are not guaranteed."
        what, confidence = RANKINGS[self.rank_by], percent(self.delta)
        return f"{self.best} has {what} than all others, with {confidence} confidence."

    @property
    def findings(self) -> list[str]:
        """Sentence about the proven order."""
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
            lines.append(
                f"all intervals in this table hold simultaneously with {percent(self.delta)}"
            )
        lines += [self.answer, *(text for text in self.findings if self.proven)]
        for name, evaluation in self.evaluations.items():
            lines += [f"warning: {name}: {text}" for text in evaluation.warnings]
        return lines

    def __str__(self) -> str:
        return "\n".join([self.headline, "", *self.table.lines(), "", *self.remarks])

    def __repr__(self) -> str:
        best = "no best candidate" if self.best is None else f"best: {self.best}"
        return f"<Comparison of {', '.join(self.evaluations)}; {best}>"

    def _repr_html_(self) -> str:
        """Headline, table and remarks for a notebook."""
        return summary(self.headline, self.table, self.remarks)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON."""
        return {
            "delta": self.delta,
            "rank_by": self.rank_by,
            "ranking": self.ranking,
            "best": self.best,
            "proven": [list(pair) for pair in self.proven],
            "evaluations": {
                name: evaluation.to_dict() for name, evaluation in self.evaluations.items()
            },
        }

    def plot(self, ax: Axes | None = None, *, quantity: str | Quantity | None = None) -> Figure:
        """Draw the intervals of all candidates with matplotlib.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw into; by default those of a new figure.
        quantity : str or Quantity, optional
            Quantity to draw; by default the one that the candidates are ranked by.
        """
        from ove_sb3.report.comparison_figure import comparison_figure

        name = self._first[self.rank_by if quantity is None else quantity].quantity.name
        return comparison_figure(self, name, ax)

    def save_html(
        self,
        path: str | PathLike[str],
        *requirements: str | Requirement,
        author: str | None = None,
        purpose: str | None = None,
    ) -> None:
        """Write a self-contained HTML report, atomically.

        It names a best candidate only if that is proven.

        Parameters
        ----------
        path : path
        *requirements : str
            Requirements that the report decides for every candidate, see `Evaluation.check_all`.
        author, purpose : str, optional
            Who made the report and what for; shown with its date.
        """
        from ove_sb3._files import write_text
        from ove_sb3.report.about import About
        from ove_sb3.report.pages import comparison_page

        about = About(author, purpose)
        verdicts = {
            name: result.check_all(*requirements) if requirements else ()
            for name, result in self.evaluations.items()
        }
        write_text(path, comparison_page(self, verdicts, about))


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
    quantities: Sequence[str | Quantity] = MOMENTS,
    delta: float = 0.05,
    rank_by: str = "variance",
    method: str | Method = "betting",
    approximate: str | Method | None = "bootstrap",
    estimators: Mapping[str, str] | None = None,
    model_class: Any = None,
    safe_load: bool = False,
    vec_normalize: Any = None,
    deterministic: bool = False,
    rng: int | np.random.Generator | None = 0,
    n_jobs: int = 1,
    scheduler: Any = None,
    progress: bool | None = None,
) -> Comparison:
    """Evaluate several candidates from one log, with bounds that hold for all of them together.

    Parameters
    ----------
    data : Trajectories, Log or path
        The log; it is read once.
    candidates : mapping of str to model, policy, path or array_like
        See `evaluate`. With paths, `model_class` is required.
    quantities : sequence of str or Quantity
        Quantities of the return to evaluate; by default only the mean, the variance and the
        standard deviation, because `delta` is divided among them.
    delta : float
        Probability that any main interval of any candidate misses: it is divided evenly among the
        candidates, and among the quantities.
    rank_by : {"variance", "mean"}
        Order of the candidates: smallest upper bound of the variance first, or largest lower
        bound of the mean. Candidates with bounds no tighter than the a priori range come last, in
        the given order.
    model_class : type or mapping of str to type, optional
        The class that saved the models, or one for each name, and for ``"behavior"``.
    vec_normalize : VecNormalize, path or mapping of str to such, optional
        Statistics for all models, or for some names.
    gamma, reward_range, return_range, horizon, max_ratio, max_weight, behavior, reward, \
method, approximate, estimators, safe_load, deterministic, rng, n_jobs, scheduler, \
progress
        See `evaluate`; the same for all candidates.

    Returns
    -------
    Comparison

    Notes
    -----
    Because the bounds hold simultaneously, it is sound to choose the candidate with the best bound
    and then to rely on that bound. `Comparison.best` is None unless the intervals are separated.
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
    _check_options(candidates, behavior, model_class, vec_normalize, deterministic)
    check_safe_load(safe_load, behavior, *candidates.values())
    known = as_behavior(
        behavior,
        metadata=log.metadata,
        model_class=_class_of(model_class, "behavior", behavior),
        safe_load=safe_load,
    )
    policies = {
        str(name): as_candidate(
            candidate,
            metadata=log.metadata,
            n_steps=log.n_steps,
            model_class=_class_of(model_class, name, candidate),
            vec_normalize=None if is_array(candidate) else _normalizer_of(vec_normalize, name),
            deterministic=False if is_array(candidate) else deterministic,
            name=f"candidates[{name!r}]",
            label=str(name),
            behavior=known,
            safe_load=safe_load,
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
    ranked = _ranking(evaluations, rank_by)
    order = [*ranked, *(name for name in evaluations if name not in ranked)]
    return Comparison({name: evaluations[name] for name in order}, plan.budget.delta, rank_by)


def _normalizer_of(vec_normalize: Any, name: str) -> Any:
    return vec_normalize.get(name) if isinstance(vec_normalize, Mapping) else vec_normalize


def _ranking(evaluations: Mapping[str, Evaluation], rank_by: str) -> list[str]:
    """Names by the bound of a quantity, without those whose bound is uninformative."""
    bounds = {}
    for name, evaluation in evaluations.items():
        interval = evaluation[rank_by].interval
        low, high = interval.a_priori
        if rank_by == "variance":
            bound, informative = interval.upper, interval.upper < high
        else:
            bound, informative = -interval.lower, interval.lower > low
        if interval.consistent and informative:
            bounds[name] = bound
    return sorted(bounds, key=bounds.__getitem__)


def _check_options(
    candidates: Mapping[str, Any],
    behavior: Any,
    model_class: Any,
    vec_normalize: Any,
    deterministic: Any,
) -> None:
    """Refuse options that no candidate uses."""
    deterministic = check_flag(deterministic, "deterministic")
    paths = {
        name for name, candidate in candidates.items() if isinstance(candidate, (str, PathLike))
    }
    loaded = paths | ({"behavior"} if isinstance(behavior, (str, PathLike)) else set())
    if isinstance(model_class, Mapping) and (unknown := set(model_class) - loaded):
        raise InvalidInputError(
            "`model_class` must have entries only for models that are paths, got "
            f"{sorted(map(str, unknown))}."
        )
    models = [name for name, candidate in candidates.items() if not is_array(candidate)]
    if isinstance(vec_normalize, Mapping) and (unknown := set(vec_normalize) - set(models)):
        raise InvalidInputError(
            "`vec_normalize` must have entries only for candidates that are models, got "
            f"{sorted(map(str, unknown))}."
        )
    given = {
        "model_class": (model_class, loaded, "models are paths"),
        "vec_normalize": (vec_normalize, models, "candidates are models"),
        "deterministic": (deterministic or None, models, "candidates are models"),
    }
    for option, (value, users, kind) in given.items():
        empty = isinstance(value, Mapping) and not value  # as the command line passes it
        if value is not None and not users and not empty:
            raise InvalidInputError(
                f"`{option}` must be left out when no {kind}, got {value!r}. It "
                "would change nothing."
            )


def _class_of(model_class: Any, name: str, candidate: Any) -> Any:
    if not isinstance(candidate, (str, PathLike)):
        return None  # only paths are loaded
    return model_class.get(name) if isinstance(model_class, Mapping) else model_class
