"""From a log and candidates to the statistics per trajectory, in one pass over the log.

The log is taken in blocks that depend on the log alone (see `ove_sb3.data.log`), each scored and
reduced by itself, and the blocks are joined in order: the result is the same to the last bit for
a log on disk and in memory, and for any number of processes or machines of one kind.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from ove_sb3 import parallel
from ove_sb3._progress import progress_bar
from ove_sb3._validation import check_integer
from ove_sb3.core.statistics import TrajectoryStatistics, shard_statistics
from ove_sb3.data.completeness import check_complete
from ove_sb3.data.log import Log, Part, located
from ove_sb3.data.reading import ChunkError
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.errors import InvalidInputError, OveError, SupportWarning

from .candidates import Candidate, KnownLogProbs


@dataclass(frozen=True)
class Job:
    """What all tasks share, sent once to every worker."""

    candidates: list[Candidate | None]  # None: sent with the task
    gamma: float
    horizon: int | None
    block_steps: int


@dataclass(frozen=True)
class Task:
    """Some episodes of the log, and the candidates of which only these steps are known."""

    part: Part
    known: dict[int, KnownLogProbs]


@dataclass(frozen=True)
class Block:
    """What is left of a block of the log.

    Attributes
    ----------
    stats : list of TrajectoryStatistics
        For every candidate.
    doubts : list of str or None
        For every candidate, why the block seems not to cover it.
    """

    stats: list[TrajectoryStatistics]
    doubts: list[str | None]


def reduce_log(
    log: Log,
    candidates: Sequence[Candidate],
    *,
    gamma: float,
    horizon: int | None,
    n_jobs: int = 1,
    scheduler: Any = None,
    progress: bool = False,
) -> list[TrajectoryStatistics]:
    """Statistics of every candidate.

    The log is gone through once; what is kept is a few numbers per trajectory.
    """
    n_jobs = check_integer(n_jobs, "n_jobs", 1)
    totals = [Total() for _ in candidates]
    doubts: list[list[str | None]] = []
    bar = progress_bar(progress, total=log.n_steps, unit="step", scale=True)
    try:
        for block in _blocks(log, candidates, gamma, horizon, n_jobs, scheduler):
            for total, stats in zip(totals, block.stats, strict=True):
                total.add(stats)
            doubts.append(block.doubts)
            bar.update(block.stats[0].n_steps)
    except ChunkError as error:
        raise located(error, log) from error
    finally:
        bar.close()
    found = [total.join() for total in totals]
    if found[0].n_steps != log.n_steps:
        raise RuntimeError(f"{found[0].n_steps} of {log.n_steps} steps were counted")
    if len(found[0]) < 2:
        raise _too_few(len(found[0]))
    for of_candidate in zip(*doubts, strict=True):
        _warn_if_uncovered(of_candidate, log.n_steps)
    return found


def _blocks(
    log: Log,
    candidates: Sequence[Candidate],
    gamma: float,
    horizon: int | None,
    n_jobs: int,
    scheduler: Any,
) -> Iterator[Block]:
    tasks = _Tasks(log, candidates)
    if not log.n_steps:
        raise _too_few(0)
    sent = [None if isinstance(each, KnownLogProbs) else each for each in candidates]
    job = Job(sent, gamma, horizon, log.block_steps)
    if parallel.is_local(n_jobs, scheduler):
        # In one go: no file is opened twice.
        yield from reduce_blocks(tasks.whole, job)
        return
    with closing(
        parallel.run(reduce_task, tasks, shared=job, n_jobs=n_jobs, scheduler=scheduler)
    ) as results:
        for found in results:
            if isinstance(found, OveError):
                raise found
            yield from found


class _Tasks:
    """The log in tasks of about `log.chunk_steps` steps, made when they are asked for."""

    def __init__(self, log: Log, candidates: Sequence[Candidate]) -> None:
        self.log = log
        self.steps = math.ceil(log.chunk_steps / log.block_steps) * log.block_steps
        self.known = {
            k: each for k, each in enumerate(candidates) if isinstance(each, KnownLogProbs)
        }

    @property
    def whole(self) -> Task:
        """All of it."""
        return Task(self.log.part(0, self.log.n_steps), self.known)

    def __len__(self) -> int:
        return math.ceil(self.log.n_steps / self.steps)

    def __getitem__(self, k: int) -> Task:
        first, last = k * self.steps, min((k + 1) * self.steps, self.log.n_steps)
        known: dict[int, KnownLogProbs] = {}
        if self.known:
            end = self.log.episode_end(last - 1)
            known = {i: each.part(first, end) for i, each in self.known.items()}
        return Task(self.log.part(first, last), known)


def reduce_task(task: Task, job: Job) -> list[Block] | OveError:
    """In a worker: all blocks of a task, or what is wrong with the first bad one.

    An error is handed back and not raised, so that the first one of the log is reported, whichever
    worker is first.
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
            for k, sent in enumerate(job.candidates):
                candidate = task.known[k] if sent is None else sent
                log_probs, doubt = _score(candidate, chunk, first_step)
                stats = shard_statistics(
                    log_probs - chunk.log_probs,
                    chunk.rewards,
                    chunk.lengths,
                    gamma=job.gamma,
                    horizon=job.horizon,
                    overlaps=chunk.overlaps,
                )
                block.stats.append(stats)
                block.doubts.append(doubt)
        except InvalidInputError as error:
            raise ChunkError(str(error), first_step) from error
        yield block


def _score(candidate: Candidate, chunk: Trajectories, first_step: int) -> tuple[Any, str | None]:
    """The log-probabilities, and why the chunk seems not to cover the candidate."""
    doubt = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SupportWarning)
        log_probs = candidate.score(chunk, first_step)
    for each in caught:
        if issubclass(each.category, SupportWarning):
            doubt = str(each.message)
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return log_probs, doubt


def _warn_if_uncovered(doubts: Sequence[str | None], n_steps: int) -> None:
    """Warn about what is seen nowhere in the log; its last block may be too short to tell."""
    sure = doubts[:-1] or doubts
    if all(doubt is not None for doubt in sure):
        text = re.sub(r"\d+ logged steps", f"{n_steps} logged steps", str(sure[0]))
        warnings.warn(text, SupportWarning, stacklevel=4)


@dataclass
class Total:
    """Statistics of the blocks so far, joined now and then to keep sums over steps only once."""

    parts: list[TrajectoryStatistics] = field(default_factory=list)
    n_since: int = 0  # trajectories since they were last joined

    def add(self, stats: TrajectoryStatistics) -> None:
        """Take the next block."""
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
