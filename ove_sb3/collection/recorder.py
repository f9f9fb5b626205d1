"""Cuts logged steps into complete episodes, in memory or on disk."""

from __future__ import annotations

import uuid
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.data.log_ids import new_log_id
from ove_sb3.data.metadata import Metadata
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.data.writer import EpisodeWriter
from ove_sb3.errors import InvalidInputError
from ove_sb3.policies.discrete import log_softmax
from ove_sb3.policies.observations import add_batch_axis, take_rows

from .environments import stack_observations
from .steps import EpisodeEnd, Outcome, Step

_TRIM = 4096


class Recorder:
    """Cuts the steps of several environments into episodes and stores the complete ones.

    Parameters
    ----------
    n_envs : int
    metadata : Metadata
    path : path or None
        Directory to append to; None keeps the episodes in memory.
    flush_every : int
        See `EpisodeWriter`.
    """

    def __init__(
        self,
        n_envs: int,
        metadata: Metadata,
        path: str | PathLike[str] | None,
        flush_every: int,
    ) -> None:
        metadata = replace(metadata, log_ids=(new_log_id(),))
        self.metadata = metadata
        self.path = path
        self.n_episodes = 0
        self.n_envs = n_envs
        self._name = uuid.uuid4().hex[:12]
        self._abandoned = 0
        self._writer = (
            None if path is None else EpisodeWriter(path, metadata, flush_every=flush_every)
        )
        self._memory: list[Trajectories] = []
        self._steps: list[tuple[Step, FloatArray]] = []
        self._trimmed = 0  # steps dropped from the front of the list
        self._begin = np.zeros(n_envs, dtype=np.int64)
        # Number of episodes that had ended when the current one of every environment began.
        self._ended_before = np.zeros(n_envs, dtype=np.int64)

    def restart(self) -> None:
        """Begin new episodes: those in progress are counted, but not logged."""
        self._abandoned += int(np.sum(self._begin < self._trimmed + len(self._steps)))
        self._trimmed += len(self._steps)
        self._steps.clear()
        self._begin[:] = self._trimmed
        self._ended_before[:] = self.n_episodes

    def add(self, step: Step, outcome: Outcome) -> None:
        """Add one step with its outcome."""
        self._steps.append((step, outcome.rewards))
        if not outcome.ends:
            return
        now = self._trimmed + len(self._steps)
        ended = list(outcome.ends)
        for i, end in outcome.ends.items():
            self._finish(i, end)
        self._begin[ended] = now
        self._ended_before[ended] = self.n_episodes
        spare = int(self._begin.min()) - self._trimmed
        if spare > _TRIM or spare == len(self._steps):
            del self._steps[:spare]
            self._trimmed += spare

    def _finish(self, i: int, end: EpisodeEnd) -> None:
        steps = self._steps[int(self._begin[i]) - self._trimmed :]
        first = steps[0][0]
        actions = np.stack([step.actions[i] for step, _ in steps])
        log_probs = np.stack([step.log_probs[i] for step, _ in steps])
        if log_probs.ndim == 2:
            log_probs = log_softmax(log_probs)[np.arange(len(steps)), actions.reshape(-1)]
        episode = Trajectories(
            observations=stack_observations([take_rows(step.observations, i) for step, _ in steps]),
            actions=actions,
            log_probs=log_probs,
            rewards=np.array([rewards[i] for _, rewards in steps]),
            lengths=np.array([len(steps)]),
            terminated=np.array([end.terminated]),
            truncated=np.array([end.truncated]),
            action_masks=None
            if first.masks is None
            else np.stack([step.masks[i] for step, _ in steps if step.masks is not None]),
            final_observations=None if end.final is None else add_batch_axis(end.final),
            overlaps=np.array([self.n_episodes - self._ended_before[i]])
            if self.n_envs > 1
            else None,
            metadata=self._current_metadata(),
        )
        self.n_episodes += 1
        if self._writer is None:
            self._memory.append(episode)
        else:
            self._writer.add(episode)

    def _current_metadata(self) -> Metadata:
        # Logging may stop with an episode in progress in every environment.
        missing = self._abandoned + self.n_envs
        return replace(self.metadata, unfinished={self._name: (missing, self.n_episodes + 1)})

    def mark(self, **changes: Any) -> None:
        """Set metadata of the episodes that end from now on."""
        self.metadata = replace(self.metadata, **changes)

    def mark_all(self, **changes: Any) -> None:
        """Set metadata of all episodes, including those that are written already."""
        self.mark(**changes)
        self._memory = [
            replace(part, metadata=replace(part.metadata, **changes)) for part in self._memory
        ]
        if self._writer is not None:
            self._writer.update(self.metadata)
            self._writer.flush()

    def holds(self, data: Trajectories | str | PathLike[str]) -> bool:
        """Whether `data` are the episodes in memory, or the directory that is written to."""
        if isinstance(data, Trajectories):
            return any(np.shares_memory(data.rewards, part.rewards) for part in self._memory)
        return self.path is not None and Path(self.path).resolve() == Path(data).resolve()

    def flush(self) -> None:
        """Write all complete episodes to disk."""
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Flush, and convert the file to Parquet."""
        if self._writer is not None:
            self._writer.close()

    def trajectories(self) -> Trajectories:
        """All complete episodes so far."""
        if self.path is not None:
            self.flush()
            return Trajectories.load(self.path)
        if not self._memory:
            raise InvalidInputError(
                "`trajectories` must be called after an episode has ended, got none so far."
            )
        self._memory = [Trajectories.concat(self._memory)]
        return self._memory[0]
