"""Episodes whose length depends on their return, logged for a number of steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import ove_sb3 as ove
from ove_sb3.core.stopping import Logging, LoggingRecord, begin_key


@dataclass(frozen=True)
class Queue:
    """One-decision episodes of n_envs environments, logged for a number of steps.

    Two equally likely actions; the candidate takes the first with probability `candidate`. It
    leads to an episode of `lengths[0]` steps and the return `returns[0]` with probability 0.9, else
    to those of the other action.
    """

    n_envs: int
    n_steps: int  # of every environment
    lengths: tuple[int, int]
    returns: tuple[float, float]
    candidate: float = 0.7
    known_ratio: bool = True

    @property
    def max_ratio(self) -> float | None:
        return 2 * max(self.candidate, 1 - self.candidate) if self.known_ratio else None

    @property
    def truth(self) -> dict[str, float]:
        p = 0.9 * self.candidate + 0.1 * (1 - self.candidate)
        mean = p * self.returns[0] + (1 - p) * self.returns[1]
        return {
            "mean": mean,
            "variance": p * (1 - p) * (self.returns[0] - self.returns[1]) ** 2,
        }

    def log(
        self, rng: np.random.Generator, *, planned: bool = True, stop: str = "steps"
    ) -> ove.TrajectoryStatistics:
        """Statistics of the episodes that ended, in the order in which they did."""
        most = 2 + self.n_steps // min(self.lengths)
        shape = (self.n_envs, most)
        action = rng.integers(0, 2, shape)
        kind = np.where(rng.random(shape) < 0.9, action, 1 - action)
        length = np.array(self.lengths)[kind]
        end = np.cumsum(length, axis=1)
        begin = end - length
        last = self.n_steps
        if stop == "good news":  # stop as soon as the mean return is high, after some time
            last = self._good_news(np.array(self.returns)[kind], end)
        begun = np.argwhere(begin < last)
        begun = begun[np.lexsort((begun[:, 0], begin[tuple(begun.T)]))]
        at = tuple(begun.T)
        number, ends = np.arange(len(begun)), end[at]
        done = ends <= last
        order = np.lexsort((begun[:, 0], ends))
        order = order[done[order]]
        pick = tuple(begun[order].T)
        ratio = 2 * np.where(action[pick] == 0, self.candidate, 1 - self.candidate)
        stats = ove.trajectory_statistics(
            np.log(ratio),
            np.array(self.returns)[kind[pick]],
            np.ones(order.size, np.int64),
            gamma=1.0,
            horizon=1,
        )
        ended_before = np.searchsorted(np.sort(ends[done]), begin[pick], side="right")
        record = LoggingRecord(
            len(begun),
            order.size,
            self.n_envs,
            last * self.n_envs,
            self.n_steps * self.n_envs if planned else None,
        )
        return replace(
            stats,
            lengths=length[pick],
            begins=begin_key(1, 0) + number[order],
            overlaps=np.arange(order.size) - ended_before,
            logging=Logging({1: record}),
        )

    def _good_news(self, returns: np.ndarray, end: np.ndarray) -> int:
        """First time in the second half at which the mean return of ended episodes is high."""
        mean = sum(self.returns) / 2
        for now in range(self.n_steps // 2, self.n_steps, max(1, self.n_steps // 50)):
            ended = returns[end <= now]
            if ended.size > 20 and ended.mean() > mean + 1.5 * ended.std() / np.sqrt(ended.size):
                return now
        return self.n_steps


LONG_IS_GOOD = Queue(16, 100, (40, 2), (1.0, 0.0))
LONG_IS_BAD = Queue(8, 400, (30, 3), (0.0, 1.0), known_ratio=False)
QUEUES = {
    "long is good": LONG_IS_GOOD,
    "long is bad, ratios unknown": LONG_IS_BAD,
    "long is bad": replace(LONG_IS_BAD, known_ratio=True),
    "long is good, ratios unknown": replace(LONG_IS_GOOD, known_ratio=False),
    "long is unlikely": Queue(64, 60, (1, 30), (0.2, 1.0), candidate=0.9),
    "one environment": Queue(1, 3000, (40, 2), (1.0, 0.0)),
    "many environments": Queue(256, 30, (20, 2), (1.0, 0.0)),
    "more environments": Queue(1024, 12, (10, 1), (0.0, 1.0)),
    "hardly any": Queue(2, 6000, (10, 2), (1.0, 0.0)),
}
