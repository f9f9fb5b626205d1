"""Runs studies: in parallel, with a progress bar, and so that no finished trial is ever lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from tqdm import tqdm

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
    study: Study, sizes: Sizes, *, out: Path, seed: int = 0, jobs: int = 1, progress: bool = True
) -> StudyResult:
    """Run a study, or what is left of it.

    The results do not depend on `jobs`, nor on how often the run was stopped and started again.

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
    progress
        Show a progress bar with the time left.
    """
    candidate = evaluation_policy(study, out / "policies", seed)
    plain = candidate.tolist()
    truth = find_truth(study, candidate, sizes, out=out, seed=seed, jobs=jobs, progress=progress)
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
        jobs=jobs,
        progress=progress,
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
    with bar:
        if jobs == 1:
            for k in missing:
                _compute(function, tasks[k], paths[k])
                bar.update()
        elif missing:
            parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
            calls = (delayed(_compute)(function, tasks[k], paths[k]) for k in missing)
            for _ in parallel(calls):
                bar.update()
    return [read_json(path) for path in paths]


def _compute(function: Callable[..., Any], task: tuple[Any, ...], path: Path) -> None:
    # Linear algebra in several threads adds up in another order: the last digits would depend on
    # the number of cores that each process has to itself.
    with threadpool_limits(limits=1):
        result = function(*task)
    write_json(path, result)
