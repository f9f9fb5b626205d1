"""Statistics of a log that is still being written, each block of it reduced once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.data.log import ChunkError, Log

from .candidates import Candidate
from .plan import Plan
from .reduction import Job, Task, Total, reduce_blocks


@dataclass
class Following:
    """Statistics of the blocks that are complete; what follows them is reduced at every call.

    Blocks depend on the log alone, so that the result is that of one pass over the whole log.
    """

    complete: Total = field(default_factory=Total)
    first: int = 0  # step after the complete blocks

    def reduce(self, log: Log, candidate: Candidate, plan: Plan) -> TrajectoryStatistics:
        """Statistics of the whole log as it is now."""
        stated = plan.assumptions
        job = Job(
            [candidate], stated.gamma, stated.horizon, log.block_steps, plan.columns, plan.reward
        )
        last: TrajectoryStatistics | None = None
        try:
            for block in reduce_blocks(Task(log.part(self.first, log.n_steps), {}), job):
                if last is not None:
                    self.complete.add(last)
                    self.first += last.n_steps
                last = block.stats[0]
        except ChunkError as error:
            raise error.in_log(log) from error
        parts = [*self.complete.parts, *([] if last is None else [last])]
        return replace(TrajectoryStatistics.concatenate(parts), logging=log.metadata.logging)
