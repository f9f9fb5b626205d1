"""From a log and candidates to the statistics per trajectory, in one pass over chunks."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ove_sb3.core.errors import InvalidInputError
from ove_sb3.core.statistics import TrajectoryStatistics, trajectory_statistics
from ove_sb3.core.validation import check_integer
from ove_sb3.data.chunks import Log
from ove_sb3.data.trajectories import Trajectories

from .candidates import Candidate

Task = tuple[Trajectories, list[Candidate]]


def reduce_log(
    log: Log,
    candidates: Sequence[Candidate],
    *,
    gamma: float,
    horizon: int | None,
    n_jobs: int = 1,
    progress: bool = False,
) -> list[TrajectoryStatistics]:
    """Statistics of every candidate.

    The log is gone through once; what is kept is a few numbers per trajectory.
    """
    n_jobs = check_integer(n_jobs, "n_jobs", 1)
    parts: list[list[TrajectoryStatistics]] = [[] for _ in candidates]
    bar = _progress_bar(log.n_steps) if progress else None
    try:
        for found in _results(_tasks(log, candidates, horizon), gamma, horizon, n_jobs):
            for part, stats in zip(parts, found, strict=True):
                part.append(stats)
            if bar is not None:
                bar.update(found[0].n_steps)
    finally:
        if bar is not None:
            bar.close()
    if not parts[0]:
        raise _too_few(0)
    return [TrajectoryStatistics.concatenate(part) for part in parts]


def _tasks(log: Log, candidates: Sequence[Candidate], horizon: int | None) -> Iterator[Task]:
    first_step = first_episode = 0
    for chunk in log.chunks():
        if len(chunk) < 2:
            raise _too_few(len(chunk))
        check_complete(chunk, horizon, first_episode)
        last_step = first_step + chunk.n_steps
        yield chunk, [candidate.part(first_step, last_step) for candidate in candidates]
        first_step, first_episode = last_step, first_episode + len(chunk)


def _results(
    tasks: Iterator[Task], gamma: float, horizon: int | None, n_jobs: int
) -> Iterator[list[TrajectoryStatistics]]:
    if n_jobs == 1:
        for task in tasks:
            yield reduce_chunk(task, gamma, horizon)
        return
    try:
        from joblib import Parallel, delayed
    except ImportError as error:
        raise InvalidInputError(
            "`n_jobs` must be 1 without joblib. Install it: pip install joblib."
        ) from error
    # Processes, as models and their distributions are not safe to share between threads.
    pool = Parallel(n_jobs=n_jobs, return_as="generator", pre_dispatch="n_jobs", batch_size=1)
    try:
        yield from pool(delayed(reduce_chunk)(task, gamma, horizon) for task in tasks)
    except pickle.PicklingError as error:
        raise InvalidInputError(
            "`n_jobs` must be 1 for a candidate that cannot be sent to another process, got "
            f"{n_jobs}: {error.__cause__ or error}"
        ) from error


def reduce_chunk(task: Task, gamma: float, horizon: int | None) -> list[TrajectoryStatistics]:
    """Score the steps of one chunk under every candidate, and reduce them."""
    chunk, candidates = task
    return [
        trajectory_statistics(
            candidate.score(chunk) - chunk.log_probs,
            chunk.rewards,
            chunk.lengths,
            gamma=gamma,
            horizon=horizon,
            overlaps=chunk.overlaps,
        )
        for candidate in candidates
    ]


def check_complete(chunk: Trajectories, horizon: int | None, first_episode: int) -> None:
    """Refuse episodes that were cut off: their returns are not what the candidate would get."""
    if horizon is not None and int(chunk.lengths.max()) > horizon:
        worst = int(chunk.lengths.argmax())
        raise InvalidInputError(
            f"`horizon` must be at least the longest episode, got {horizon} but episode "
            f"{first_episode + worst} has {chunk.lengths[worst]} steps."
        )
    short = np.ones(len(chunk), np.bool_) if horizon is None else chunk.lengths < horizon
    cut = ~chunk.terminated & short
    if not cut.any():
        return
    first = int(np.flatnonzero(cut)[0])
    known = "no horizon is known" if horizon is None else f"the horizon is {horizon}"
    raise InvalidInputError(
        "`data` must hold complete episodes: one that was cut off has only a part of its return. "
        f"Episode {first_episode + first} was cut off after {chunk.lengths[first]} steps, and "
        f"{known} ({int(cut.sum())} such of {len(chunk)} episodes looked at). If that is the time "
        "limit of the task, pass it as `horizon`; otherwise leave such episodes out: "
        "data[data.terminated] is right only if being cut off has nothing to do with the outcome."
    )


def _too_few(n: int) -> InvalidInputError:
    return InvalidInputError(
        f"`data` must hold at least 2 episodes, got {n}. A variance cannot be estimated from "
        "fewer: log more."
    )


def _progress_bar(n_steps: int) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise InvalidInputError(
            "`progress` must be False without tqdm. Install it: pip install tqdm."
        ) from error
    return tqdm(total=n_steps, unit="step", unit_scale=True)
