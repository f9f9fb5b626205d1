"""From a log and candidates to the statistics per trajectory, in one pass over the log.

The log is processed in blocks that depend on the log alone (see `ove_sb3.data.log`). Each is scored
and reduced by itself, and the blocks are joined in order. So the result is the same to the last bit
for a log on disk and in memory, and for any number of processes or machines of one kind.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ove_sb3 import _parallel as parallel
from ove_sb3._progress import progress_bar
from ove_sb3._validation import FloatArray, check_integer
from ove_sb3.core.assigned import ARMS, ASSIGNED_TO, SHARES
from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.core.step_reduction import shard_statistics
from ove_sb3.core.steps import Column, StepScores
from ove_sb3.data.completeness import check_complete
from ove_sb3.data.log import ChunkError, LogLike, Part
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.errors import InvalidInputError, OveError, UncoveredActionWarning

from .candidates import Candidate, KnownLogProbs


@dataclass(frozen=True)
class Job:
    """Data shared by all tasks, sent once to every worker."""

    candidates: list[Candidate | None]  # None: sent with the task
    gamma: float
    horizon: int | None
    block_steps: int
    columns: tuple[Column, ...] = ()
    reward: str | None = None  # kept column to take in place of the reward


@dataclass(frozen=True)
class Task:
    """Some episodes of the log, and the candidates that are given for these steps only."""

    part: Part
    known: dict[int, KnownLogProbs]


@dataclass(frozen=True)
class Block:
    """Per-candidate statistics of one block of the log.

    Attributes
    ----------
    stats : list of TrajectoryStatistics
        For every candidate.
    warnings : list of UncoveredActionWarning or None
        For every candidate, set if the block seems not to cover it.
    """

    stats: list[TrajectoryStatistics]
    warnings: list[UncoveredActionWarning | None]


def reduce_log(
    log: LogLike,
    candidates: Sequence[Candidate],
    *,
    gamma: float,
    horizon: int | None,
    columns: Sequence[Column] = (),
    reward: str | None = None,
    n_jobs: int = 1,
    scheduler: Any = None,
    progress: bool | None = None,
) -> list[TrajectoryStatistics]:
    """Statistics of every candidate, in one pass over the log.

    Only a few numbers per trajectory are kept in memory.
    """
    n_jobs = check_integer(n_jobs, "n_jobs", 1)
    totals = [Total() for _ in candidates]
    uncovered: list[list[UncoveredActionWarning | None]] = []
    sent = [None if isinstance(one, KnownLogProbs) else one for one in candidates]
    job = Job(sent, gamma, horizon, log.block_steps, tuple(columns), reward)
    bar = progress_bar(progress, total=log.n_steps, unit="step", scale=True)
    try:
        for block in _blocks(log, candidates, job, n_jobs, scheduler):
            for total, stats in zip(totals, block.stats, strict=True):
                total.add(stats)
            uncovered.append(block.warnings)
            bar.update(block.stats[0].n_steps)
    except ChunkError as error:
        raise error.in_log(log) from error
    finally:
        bar.close()
    joined = [replace(total.join(), logging=log.metadata.logging) for total in totals]
    if joined[0].n_steps != log.n_steps:
        raise RuntimeError(f"{joined[0].n_steps} of {log.n_steps} steps were counted")
    if len(joined[0]) < 2:
        raise _too_few(len(joined[0]))
    for of_blocks in zip(*uncovered, strict=True):
        _warn_if_uncovered(of_blocks, log.n_steps)
    return joined


def _blocks(
    log: LogLike,
    candidates: Sequence[Candidate],
    job: Job,
    n_jobs: int,
    scheduler: Any,
) -> Iterator[Block]:
    tasks = _Tasks(log, candidates)
    if not log.n_steps:
        raise _too_few(0)
    if parallel.is_local(n_jobs, scheduler):
        # In one go: no file is opened twice.
        yield from reduce_blocks(tasks.whole, job)
        return
    with closing(
        parallel.run(reduce_task, tasks, shared=job, n_jobs=n_jobs, scheduler=scheduler)
    ) as results:
        for blocks in results:
            if isinstance(blocks, OveError):
                raise blocks
            yield from blocks


class _Tasks:
    """The log in tasks of about `log.chunk_steps` steps, made when they are asked for."""

    def __init__(self, log: LogLike, candidates: Sequence[Candidate]) -> None:
        self.log = log
        self.steps = math.ceil(log.chunk_steps / log.block_steps) * log.block_steps
        self.known = {
            k: candidate
            for k, candidate in enumerate(candidates)
            if isinstance(candidate, KnownLogProbs)
        }

    @property
    def whole(self) -> Task:
        """The whole log as one task."""
        return Task(self.log.part(0, self.log.n_steps), self.known)

    def __len__(self) -> int:
        return math.ceil(self.log.n_steps / self.steps)

    def __getitem__(self, k: int) -> Task:
        first, last = k * self.steps, min((k + 1) * self.steps, self.log.n_steps)
        known: dict[int, KnownLogProbs] = {}
        if self.known:
            end = self.log.episode_end(last - 1)
            known = {i: candidate.part(first, end) for i, candidate in self.known.items()}
        return Task(self.log.part(first, last), known)


def reduce_task(task: Task, job: Job) -> list[Block] | OveError:
    """All blocks of a task, or the error about the first invalid one; runs in a worker.

    An error is returned, not raised, so that the first one of the log is reported, whichever worker
    is first.
    """
    try:
        return list(reduce_blocks(task, job))
    except OveError as error:
        return error


def reduce_blocks(task: Task, job: Job) -> Iterator[Block]:
    """Score the steps of every block under every candidate, and reduce them."""
    for first_step, chunk in task.part.windows(job.block_steps):
        block = Block([], [])
        try:
            check_complete(chunk, job.horizon)
            rewards = chunk.rewards if job.reward is None else chunk.signal(job.reward)
            for k, sent in enumerate(job.candidates):
                candidate = task.known[k] if sent is None else sent
                scores, warning = _score(candidate, chunk, first_step)
                stats = shard_statistics(
                    scores,
                    rewards,
                    chunk.lengths,
                    gamma=job.gamma,
                    horizon=job.horizon,
                    overlaps=chunk.overlaps,
                    begins=chunk.begins,
                    columns=job.columns,
                )
                block.stats.append(stats)
                block.warnings.append(warning)
        except InvalidInputError as error:
            raise ChunkError(error, first_step) from error
        yield block


def _score(
    candidate: Candidate, chunk: Trajectories, first_step: int
) -> tuple[StepScores, UncoveredActionWarning | None]:
    """Scores of the chunk, and a warning if it seems not to cover the candidate."""
    warning = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UncoveredActionWarning)
        scores = candidate.score(chunk, first_step)
    for entry in caught:
        if isinstance(entry.message, UncoveredActionWarning):
            warning = entry.message
        else:
            warnings.warn_explicit(entry.message, entry.category, entry.filename, entry.lineno)
    return replace(scores, columns={**scores.columns, **_arms(chunk)}), warning


def _arms(chunk: Trajectories) -> dict[str, FloatArray]:
    """The policy that each episode was assigned to, and its share, if they were assigned."""
    metadata = chunk.metadata
    if not (metadata.assigned and metadata.components and ASSIGNED_TO in chunk.columns):
        return {}
    arms = chunk.columns[ASSIGNED_TO][chunk.starts].astype(np.int64)
    shares = np.array([entry["weight"] for entry in metadata.components], dtype=np.float64)
    if not ((arms >= 0) & (arms < shares.size)).all():
        raise InvalidInputError(
            f"`columns[{ASSIGNED_TO!r}]` must hold numbers of the {shares.size} policies, got "
            f"{arms.min()} to {arms.max()}. Call as_mixture again."
        )
    return {ARMS: arms.astype(np.float64), SHARES: shares[arms]}


def _warn_if_uncovered(of_blocks: Sequence[UncoveredActionWarning | None], n_steps: int) -> None:
    """Warn about actions seen nowhere in the log; its last block may be too short to tell."""
    sure = of_blocks[:-1] or of_blocks
    first = sure[0]
    if first is not None and None not in sure:
        warnings.warn(first.in_steps(n_steps), stacklevel=5)


@dataclass
class Total:
    """Statistics of the blocks so far, joined now and then so that sums over steps stay few."""

    parts: list[TrajectoryStatistics] = field(default_factory=list)
    n_since: int = 0  # trajectories since they were last joined

    def add(self, stats: TrajectoryStatistics) -> None:
        """Add the next block."""
        self.parts.append(stats)
        self.n_since += len(stats)
        if len(self.parts) > 16 and self.n_since > len(self.parts[0]):
            self.parts, self.n_since = [self.join()], 0

    def join(self) -> TrajectoryStatistics:
        """All blocks; sums are added from left to right, however often this is called."""
        return TrajectoryStatistics.concatenate(self.parts)


def _too_few(n: int) -> InvalidInputError:
    return InvalidInputError(
        f"`data` must hold at least 2 episodes, got {n}. A variance cannot be estimated from "
        "fewer: log more."
    )
