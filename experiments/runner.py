"""Run studies in parallel; finished trials survive an interruption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from ove_sb3 import _parallel as parallel

from .domains import make_domain
from .policies import evaluation_policy
from .settings import BOUNDS, ESTIMATORS, RISK, RISK_BOUNDS, Sizes, Study, as_plain
from .storage import fingerprint, last_day, measurement, read_json, write_json
from .trials import TRUTH_PART, merge_risk, merge_truth, run_trial, run_truth

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
        Standard error of the variance; 0 if it is exact.
    episodes
        Number of on-policy episodes behind the estimate; 0 if it is exact.
    risk
        Risk quantities by name, from on-policy episodes.
    """

    mean: float
    variance: float
    standard_error: float = 0.0
    episodes: int = 0
    risk: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class StudyResult:
    """Results of a study.

    Attributes
    ----------
    study, sizes, seed
        The settings.
    truth
        True moments.
    candidate
        The evaluation policy.
    cells
        One entry per trial and n; see `run_trial`.
    day
        Day on which the last trial was computed; today if empty.
    """

    study: Study
    sizes: Sizes
    seed: int
    truth: Truth
    candidate: FloatArray
    cells: list[dict[str, Any]]
    day: str = ""

    def settings(self) -> dict[str, Any]:
        """All settings and versions as plain values, ready for JSON."""
        return {
            "study": as_plain(self.study),
            "sizes": as_plain(self.sizes),
            "seed": self.seed,
            "truth": vars(self.truth),
            "candidate": self.candidate.tolist(),
            "estimators": list(ESTIMATORS),
            "bounds": {name: item.options for name, item in BOUNDS.items()},
            "risk_quantities": list(RISK),
            "risk_bounds": {name: item.options for name, item in RISK_BOUNDS.items()},
            "measured": measurement(self.day),
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
    """Run a study, or the rest of it if it was interrupted.

    The results depend neither on `jobs` and `scheduler` nor on interruptions.

    Parameters
    ----------
    study, sizes
        The settings.
    out
        Folder of the results. Each finished trial is one file in ``out/runs``.
    seed
        Seed of the training, of the truth and of the trials.
    jobs
        Number of processes.
    scheduler
        Address of a Dask cluster to use instead; its workers must see the folder `out`.
    progress
        Show a progress bar.
    """
    candidate = evaluation_policy(study, out / "policies", seed)
    plain = candidate.tolist()
    how: dict[str, Any] = {"jobs": jobs, "scheduler": scheduler, "progress": progress}
    truth = find_truth(study, candidate, sizes, out=out, seed=seed, **how)
    display = ("title", "unit")  # without influence on the results
    setting = {
        "study": {name: value for name, value in as_plain(study).items() if name not in display},
        "candidate": plain,
        "n_grid": list(sizes.n_grid),
        "seed": seed,
        "estimators": list(ESTIMATORS),
        "bounds": {name: item.options for name, item in BOUNDS.items()},
        "risk": {name: item.options for name, item in RISK_BOUNDS.items()},
        "risk_quantities": list(RISK),
    }
    folder = out / "runs" / f"{study.name}-{fingerprint(setting, _TRIAL_CODE)}"
    trials = run_tasks(
        run_trial,
        [(study, plain, sizes.n_grid, seed, trial) for trial in range(sizes.n_trials)],
        folder=folder,
        label=study.name,
        **how,
    )
    cells = [cell for trial in trials for cell in trial]
    return StudyResult(study, sizes, seed, truth, candidate, cells, last_day(folder))


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
    """Exact moments if they are known; all else from simulated on-policy episodes."""
    exact = make_domain(study, candidate).exact_moments()
    plain = candidate.tolist()
    # Studies that differ only in the behavior share their truth.
    setting = {"domain": study.domain, "env": study.env, "candidate": plain, "seed": seed}
    setting["gamma"] = study.gamma
    parts = run_tasks(
        run_truth,
        [(study, plain, seed, k) for k in range(-(-sizes.truth_episodes // TRUTH_PART))],
        folder=out / "runs" / f"truth-{study.domain}-{fingerprint(setting, _TRUTH_CODE)}",
        label=f"{study.domain}, truth",
        jobs=jobs,
        scheduler=scheduler,
        progress=progress,
    )
    risk = merge_risk(parts)
    if exact is not None:
        return Truth(*exact, risk=risk)
    truth = merge_truth(parts)
    episodes = int(truth["episodes"])
    return Truth(truth["mean"], truth["variance"], truth["standard_error"], episodes, risk)


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

    Each result is written atomically by the process that computed it, so finished results survive
    if the run is interrupted or killed.

    Returns
    -------
    list
        The results in the order of `tasks`, as read back from JSON.
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
    # Absolute paths, because workers may have another working directory.
    calls = [(function, tasks[k], paths[k].absolute()) for k in missing]
    with bar:
        for _ in parallel.run(_compute, calls, n_jobs=jobs, scheduler=scheduler):
            bar.update()
    return [read_json(path) for path in paths]


def _compute(call: tuple[Callable[..., Any], tuple[Any, ...], Path], _: None) -> None:
    function, task, path = call
    # The order of summation in multithreaded linear algebra depends on the number of threads, and
    # so do the last digits.
    with threadpool_limits(limits=1):
        result = function(*task)
    write_json(path, result)
