"""Cuts logged steps into complete episodes, in memory or on disk."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ove_sb3._validation import FloatArray
from ove_sb3.data.log_ids import new_log_id
from ove_sb3.data.metadata import Metadata
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.data.writer import EpisodeWriter
from ove_sb3.errors import InvalidInputError
from ove_sb3.policies.discrete import log_softmax
from ove_sb3.policies.observations import add_batch_axis, take_rows
from ove_sb3.policies.policy import Masks

from .environments import stack_observations

_TRIM = 4096


class Step(NamedTuple):
    """One step of all environments, without its outcome.

    `log_probs` are those of the actions, (n_envs,), or of all choices, (n_envs, k), because picking
    from them is cheaper for a whole episode than step by step.
    """

    observations: Any
    actions: NDArray[Any]
    log_probs: NDArray[Any]
    masks: Masks | None


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

    def add(self, step: Step, rewards: FloatArray, dones: NDArray[np.bool_], infos: Any) -> None:
        """Add one step with its outcome."""
        self._steps.append((step, rewards))
        if not dones.any():
            return
        now = self._trimmed + len(self._steps)
        ended = np.flatnonzero(dones)
        for i in ended:
            self._finish(int(i), infos[i])
        self._begin[ended] = now
        self._ended_before[ended] = self.n_episodes
        spare = int(self._begin.min()) - self._trimmed
        if spare > _TRIM or spare == len(self._steps):
            del self._steps[:spare]
            self._trimmed += spare

    def _finish(self, i: int, info: Mapping[str, Any]) -> None:
        steps = self._steps[int(self._begin[i]) - self._trimmed :]
        truncated = bool(info.get("TimeLimit.truncated", False))
        terminated = bool(info.get("terminated", not truncated))
        final = info.get("terminal_observation")
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
            terminated=np.array([terminated]),
            truncated=np.array([truncated]),
            action_masks=None
            if first.masks is None
            else np.stack([step.masks[i] for step, _ in steps if step.masks is not None]),
            final_observations=None if final is None else add_batch_axis(final),
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

    def mark(self, *, adaptive: bool, fingerprint: str | None) -> None:
        """Set the metadata of the episodes that end from now on."""
        if (adaptive, fingerprint) != (self.metadata.adaptive, self.metadata.fingerprint):
            self.metadata = replace(self.metadata, adaptive=adaptive, fingerprint=fingerprint)

    def name_behavior(self, name: str) -> None:
        """Set the name of the behavior in the metadata."""
        self.metadata = replace(self.metadata, behavior=name)

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
