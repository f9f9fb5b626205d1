"""Runs studies: in parallel, with a progress bar, and so that no finished trial is ever lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from ove_sb3 import parallel

from .domains import make_domain
from .policies import evaluation_policy
from .settings import BOUNDS, ESTIMATORS, Sizes, Study, as_plain
from .storage import fingerprint, read_json, versions, write_json
from .trials import TRUTH_PORTION, merge_truth, run_trial, run_truth

FloatArray = NDArray[np.float64]

_TRIAL_CODE = ("core", "envs", "domains", "trials")
_TRUTH_CODE = ("envs", "domains", "trials")


@dataclass(frozen=True)
class Truth:
    """True moments of the return under the evaluation policy.

    Attributes
    ----------
    mean, variance
        The moments.
    standard_error
        Of the variance; 0 if it is exact.
    episodes
        On-policy episodes behind it; 0 if it is exact.
    """

    mean: float
    variance: float
    standard_error: float = 0.0
    episodes: int = 0


@dataclass(frozen=True)
class StudyResult:
    """Everything a study has found.

    Attributes
    ----------
    study, sizes, seed
        The settings.
    truth
        True moments.
    candidate
        The evaluation policy.
    cells
        One entry per trial and n, see `run_trial`.
    """

    study: Study
    sizes: Sizes
    seed: int
    truth: Truth
    candidate: FloatArray
    cells: list[dict[str, Any]]

    def settings(self) -> dict[str, Any]:
        """All settings and versions as plain values, ready for JSON."""
        return {
            "study": as_plain(self.study),
            "sizes": as_plain(self.sizes),
            "seed": self.seed,
            "truth": vars(self.truth),
            "candidate": self.candidate.tolist(),
            "estimators": {name: item.options for name, item in ESTIMATORS.items()},
            "bounds": {name: item.options for name, item in BOUNDS.items()},
            "versions": versions(),
        }


def run_study(
    study: Study,
    sizes: Sizes,
    *,
    out: Path,
    seed: int = 0,
    jobs: int = 1,
    scheduler: str | None = None,
    progress: bool = True,
) -> StudyResult:
    """Run a study, or what is left of it.

    The results do not depend on `jobs` or `scheduler`, nor on how often the run was stopped and
    started again.

    Parameters
    ----------
    study, sizes
        What to run, and how much.
    out
        Folder of the results. Each finished trial is one file in ``out/runs``.
    seed
        Of the training, of the truth and of the trials.
    jobs
        Number of processes.
    scheduler
        Address of a Dask cluster in place of them; its workers must see the folder `out`.
    progress
        Show a progress bar with the time left.
    """
    candidate = evaluation_policy(study, out / "policies", seed)
    plain = candidate.tolist()
    how: dict[str, Any] = {"jobs": jobs, "scheduler": scheduler, "progress": progress}
    truth = find_truth(study, candidate, sizes, out=out, seed=seed, **how)
    looks = ("title", "unit")
    setting = {
        "study": {name: value for name, value in as_plain(study).items() if name not in looks},
        "candidate": plain,
        "n_grid": list(sizes.n_grid),
        "seed": seed,
        "estimators": {name: item.options for name, item in ESTIMATORS.items()},
        "bounds": {name: item.options for name, item in BOUNDS.items()},
    }
    trials = run_tasks(
        run_trial,
        [(study, plain, sizes.n_grid, seed, trial) for trial in range(sizes.n_trials)],
        folder=out / "runs" / f"{study.name}-{fingerprint(setting, _TRIAL_CODE)}",
        label=study.name,
        **how,
    )
    cells = [cell for trial in trials for cell in trial]
    return StudyResult(study, sizes, seed, truth, candidate, cells)


def find_truth(
    study: Study,
    candidate: FloatArray,
    sizes: Sizes,
    *,
    out: Path,
    seed: int,
    jobs: int = 1,
    scheduler: str | None = None,
    progress: bool = True,
) -> Truth:
    """Exact moments where there are any, else those of many on-policy episodes."""
    exact = make_domain(study, candidate).exact_moments()
    if exact is not None:
        return Truth(*exact)
    plain = candidate.tolist()
    # Studies that differ in the behavior only share their truth.
    setting = {"domain": study.domain, "env": study.env, "candidate": plain, "seed": seed}
    portions = run_tasks(
        run_truth,
        [(study, plain, seed, k) for k in range(-(-sizes.truth_episodes // TRUTH_PORTION))],
        folder=out / "runs" / f"truth-{study.domain}-{fingerprint(setting, _TRUTH_CODE)}",
        label=f"{study.domain}, truth",
        jobs=jobs,
        scheduler=scheduler,
        progress=progress,
    )
    found = merge_truth(portions)
    return Truth(found["mean"], found["variance"], found["standard_error"], int(found["episodes"]))


def run_tasks(
    function: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    *,
    folder: Path,
    label: str,
    jobs: int = 1,
    scheduler: str | None = None,
    progress: bool = True,
) -> list[Any]:
    """Call `function` with each of `tasks`, unless its result is in `folder` already.

    The process that has computed a result writes it, whole or not at all: what was finished when
    the run is interrupted or killed is there for the next one.

    Returns
    -------
    list
        The results, in the order of `tasks`, as JSON keeps them.
    """
    paths = [folder / f"{k:05d}.json" for k in range(len(tasks))]
    missing = [k for k, path in enumerate(paths) if not path.exists()]
    bar = tqdm(
        total=len(tasks),
        initial=len(tasks) - len(missing),
        desc=label,
        unit="part",
        disable=not progress,
        dynamic_ncols=True,
    )
    # Absolute, as workers elsewhere may have another working directory.
    calls = [(function, tasks[k], paths[k].absolute()) for k in missing]
    with bar:
        for _ in parallel.run(_compute, calls, n_jobs=jobs, scheduler=scheduler):
            bar.update()
    return [read_json(path) for path in paths]


def _compute(call: tuple[Callable[..., Any], tuple[Any, ...], Path], _: None) -> None:
    function, task, path = call
    # Linear algebra in several threads adds up in another order: the last digits would depend on
    # the number of cores that each process has to itself.
    with threadpool_limits(limits=1):
        result = function(*task)
    write_json(path, result)
