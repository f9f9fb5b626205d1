"""Cuts logged steps into complete episodes, in memory or on disk."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ove_sb3._files import new_directory
from ove_sb3._validation import FloatArray, IntArray, check_integer
from ove_sb3.core.stopping import LoggingRecord, begin_key
from ove_sb3.data.log_ids import new_log_id
from ove_sb3.data.metadata import Metadata
from ove_sb3.data.seeds import SeedRange, reset_seeds
from ove_sb3.data.trajectories import Trajectories, join_parts
from ove_sb3.data.writer import EpisodeWriter
from ove_sb3.errors import InvalidInputError
from ove_sb3.policies.discrete import log_softmax
from ove_sb3.policies.observations import add_batch_axis, stack_rows
from ove_sb3.store.index import Durability

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
    flush_every, durability
        See `EpisodeWriter`.
    total_timesteps : int or None
        Steps of all environments together after which nothing more is recorded.
    auto_reset : bool
        A new episode begins as soon as one has ended.
    """

    def __init__(
        self,
        n_envs: int,
        metadata: Metadata,
        path: str | PathLike[str] | None,
        flush_every: int,
        durability: Durability = "full",
        *,
        total_timesteps: int | None = None,
        auto_reset: bool = True,
    ) -> None:
        metadata = replace(metadata, log_ids=(new_log_id(),))
        self.metadata = metadata
        self.path = path
        self.n_episodes = 0
        self.n_envs = n_envs
        if total_timesteps is not None:
            total_timesteps = check_integer(total_timesteps, "total_timesteps", n_envs)
            total_timesteps -= total_timesteps % n_envs
        self._last_step, self._planned_steps = total_timesteps, total_timesteps
        self._auto_reset = auto_reset
        self._writer_number = uuid.uuid4().int >> 97  # 31 bits
        self._writer: EpisodeWriter | None = None
        self._flush_every, self._durability = flush_every, durability
        self._memory: list[Trajectories] = []
        self._steps: list[tuple[Step, FloatArray]] = []
        self._trimmed = 0  # steps dropped from the front of the list
        self._begin = np.zeros(n_envs, dtype=np.int64)
        # Number of episodes that had ended when the current one of every environment began.
        self._ended_before = np.zeros(n_envs, dtype=np.int64)
        self._numbers = np.zeros(n_envs, dtype=np.int64)
        self._running = np.zeros(n_envs, dtype=np.bool_)
        self._begun = 0
        self._n_steps = 0
        self._new_seeds: Sequence[int] = ()  # of episodes without a step
        self._seeds: set[int] = set()
        self._ended_before_seeds = 0

    def open(self) -> None:
        """Create the directory, if there is one and it is not open yet."""
        if self._writer is None and self.path is not None:
            self._writer = EpisodeWriter(
                self.path,
                self.metadata,
                flush_every=self._flush_every,
                durability=self._durability,
            )

    def use_new_directory(self) -> None:
        """Write to a new directory, if to any; its name may get a number."""
        if self._writer is None and self.path is not None:
            self.path = new_directory(self.path)

    @property
    def full(self) -> bool:
        """Whether all planned steps have been recorded."""
        return self._n_steps == self._last_step

    def expect(self, n_steps: int) -> None:
        """Plan for a number of steps that was fixed before the first one."""
        if self._planned_steps is None and self._n_steps == 0 and n_steps > 0:
            self._planned_steps = n_steps

    def restart(self, seeds: Sequence[int] = ()) -> None:
        """Begin new episodes: those in progress count as begun, but are not logged.

        Environments that were seeded again have `seeds`.
        """
        if self.full:
            return
        self._new_seeds = seeds or self._new_seeds
        given_up = bool(self._running.any())
        self._number(np.arange(self.n_envs))
        self._trimmed += len(self._steps)
        self._steps.clear()
        self._begin[:] = self._trimmed
        self._ended_before[:] = self.n_episodes
        if given_up:
            self._update()

    def add(self, step: Step, outcome: Outcome) -> None:
        """Add one step with its outcome."""
        if self.full:
            return
        self._add(step, outcome)
        # A run counts from its first step on, and the place of a planned stop is known, whether an
        # episode ends there or not.
        if self._n_steps in (self.n_envs, self._last_step, self._planned_steps):
            self.flush()

    def _add(self, step: Step, outcome: Outcome) -> None:
        if self._new_seeds:
            self._note_seeds()
        if outcome.signals:
            step = step._replace(columns={**step.columns, **outcome.signals})
        self._steps.append((step, outcome.rewards))
        self._n_steps += self.n_envs
        if self._writer is not None:
            self._writer.tick()
        if not outcome.ends:
            return
        now = self._trimmed + len(self._steps)
        ended = np.array(sorted(outcome.ends))
        for i, end in outcome.ends.items():
            self._finish(i, end)
        self._begin[ended] = now
        self._ended_before[ended] = self.n_episodes
        if self._auto_reset:
            self._number(ended)
        spare = int(self._begin.min()) - self._trimmed
        if spare > _TRIM or spare == len(self._steps):
            del self._steps[:spare]
            self._trimmed += spare

    def _finish(self, i: int, end: EpisodeEnd) -> None:
        steps = self._steps[int(self._begin[i]) - self._trimmed :]
        first = steps[0][0]
        # `np.stack` takes twice as long on many small arrays.
        actions = np.array([step.actions[i] for step, _ in steps])
        log_probs = np.array([step.log_probs[i] for step, _ in steps])
        if log_probs.ndim == 2:
            log_probs = log_softmax(log_probs)[np.arange(len(steps)), actions.reshape(-1)]
        episode = Trajectories(
            observations=stack_rows([step.observations for step, _ in steps], i),
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
            columns={
                name: np.stack([step.columns[name][i] for step, _ in steps])
                for name in first.columns
            },
            begins=np.array([begin_key(self._writer_number, int(self._numbers[i]))]),
            metadata=self._current_metadata(ending=i),
        )
        self.n_episodes += 1
        self._running[i] = False
        if self._writer is None:
            self._memory.append(episode)
        else:
            self._writer.add(episode)

    def _current_metadata(
        self, *, about_to_begin: bool = True, ending: int | None = None
    ) -> Metadata:
        """Metadata now, or as soon as the episode of the environment `ending` is recorded."""
        running = self._running.copy()
        ended = self.n_episodes
        if ending is not None:
            running[ending] = False
            ended += 1
        begun = self._begun
        if about_to_begin:
            # They count as begun, in case nothing is written after their first step.
            begun += int(np.sum(~running))
        record = LoggingRecord(begun, ended, self.n_envs, self._n_steps, self._planned_steps)
        return self.metadata.with_record(str(self._writer_number), record)

    def _number(self, envs: IntArray) -> None:
        """Number the episodes that begin in some environments, in the order of environments."""
        self._numbers[envs] = self._begun + np.arange(envs.size)
        self._begun += envs.size
        self._running[envs] = True

    def _note_seeds(self) -> None:
        """Record the seeds of episodes that have a step: without one they share nothing."""
        seeds, self._new_seeds = self._new_seeds, ()
        n_distinct = len(self._seeds) + len(seeds)
        self._seeds.update(seeds)
        repeated = len(self._seeds) < n_distinct
        self.add_seeds(reset_seeds(self.metadata.log_ids[0], seeds))
        if repeated and not self.metadata.repeated_seeds:
            self.mark_all(repeated_seeds=True)

    def add_seeds(self, entries: Sequence[SeedRange]) -> None:
        """Record entries of `Metadata.seeds` in the episodes that end from now on."""
        if not entries:
            return
        # Earlier ones are in the metadata of the episodes that have ended since.
        kept = self.metadata.seeds if self._ended_before_seeds == self.n_episodes else ()
        self._ended_before_seeds = self.n_episodes
        self.mark(seeds=(*kept, *entries))

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
            self._writer.update(self._current_metadata())
            self._writer.flush()

    def holds(self, data: Trajectories | str | PathLike[str]) -> bool:
        """Whether `data` are the episodes in memory, or the directory that is written to."""
        if isinstance(data, Trajectories):
            return any(np.shares_memory(data.rewards, part.rewards) for part in self._memory)
        return self.path is not None and Path(self.path).resolve() == Path(data).resolve()

    def flush(self) -> None:
        """Write all complete episodes to disk."""
        if self._writer is not None:
            self._update()
            self._writer.flush()

    def _update(self) -> None:
        """Have the metadata written; before the first step they lack the model."""
        if self._writer is not None and self._n_steps:
            self._writer.update(self._current_metadata())

    def close(self) -> None:
        """Flush, and convert the file to Parquet."""
        if self._writer is not None:
            self._update()
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
        data = join_parts(self._memory)
        metadata = replace(data.metadata, begun=self._current_metadata(about_to_begin=False).begun)
        self._memory = [replace(data, metadata=metadata)]
        return self._memory[0]
