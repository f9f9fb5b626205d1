"""Running a policy for a number of episodes, in one go or in rounds that are kept on disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ove_sb3._progress import ProgressBar
from ove_sb3._validation import FloatArray, IntArray
from ove_sb3.data.log import open_log
from ove_sb3.data.log_ids import new_log_id
from ove_sb3.data.metadata import Metadata
from ove_sb3.data.seeds import collect_seed
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.data.writer import FLUSH_SECONDS, EpisodeWriter, begin_collection, note_error
from ove_sb3.errors import (
    EmptyLogError,
    InvalidInputError,
    StorageError,
    UnsupportedPolicyError,
)
from ove_sb3.policies.observations import copy_observations, take_rows
from ove_sb3.policies.policy import Policy, PolicyContext

from .changing_environment import ChangingEnvironment
from .dead_workers import raise_if_worker_died
from .environments import read_masks, stack_observations
from .steps import EpisodeEnd, Outcome, Step, copy_outcome, copy_step
from .vector_env import GymnasiumVecEnv

_PER_ENV = 16  # episodes of an environment in a round


@dataclass
class Run:
    """A policy in environments.

    Attributes
    ----------
    venv : VecEnv
    policy : Policy
    deterministic : bool
    metadata : Metadata
    bar : ProgressBar
    signals : sequence of str
        Numbers of the infos that are logged.
    """

    venv: Any
    policy: Policy
    deterministic: bool
    metadata: Metadata
    bar: ProgressBar
    signals: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._environment = ChangingEnvironment(self.venv)
        self._changed = False

    def trajectories(self, steps: Steps, metadata: Metadata, first: int = 0) -> Trajectories:
        """The episodes of `steps` from the first on that are ready."""
        return steps.trajectories(replace(metadata, changing_environment=self._changed), first)

    def _note_changes(self) -> None:
        self._changed = self._changed or self._environment.changes

    def steps(
        self,
        steps: Steps,
        streams: np.random.SeedSequence,
        *,
        seeded: bool = True,
        ended: Callable[[int], None] | None = None,
    ) -> None:
        """Run until `steps` has all its episodes; `ended` gets the number that ended per step."""
        try:
            self._steps(steps, streams, seeded, ended)
        except Exception as error:
            raise_if_worker_died(self.venv, error)
            raise

    def _steps(
        self,
        steps: Steps,
        streams: np.random.SeedSequence,
        seeded: bool,
        ended: Callable[[int], None] | None,
    ) -> None:
        rng = np.random.default_rng(streams)
        if seeded:
            # A hashed number: SB3 counts up from it, and small seeds would overlap.
            self.venv.seed(int(streams.generate_state(1)[0]) >> 1)
        observations = copy_observations(self.venv.reset())
        self._note_changes()
        start = np.ones(self.venv.num_envs, dtype=np.bool_)
        vector = self.venv if isinstance(self.venv, GymnasiumVecEnv) else None
        state = None
        while steps.missing:
            masks = read_masks(self.venv) if self.policy.masked else None
            context = PolicyContext(masks, state, start)
            distribution = self.policy.distribution(observations, context)
            if self.deterministic:
                state, distribution = distribution.state, distribution.deterministic()
            actions = distribution.sample(rng)
            log_probs = distribution.log_prob(actions)
            if not self.deterministic:
                state = distribution.state  # that of Ornstein-Uhlenbeck noise: known after the draw
            step = copy_step(observations, actions, log_probs, masks, distribution.columns)
            ignored = None if vector is None else vector.restarting
            after, rewards, dones, infos = self.venv.step(actions)
            self._note_changes()
            outcome = copy_outcome(after, rewards, dones, infos, steps.signals)
            observations = outcome.observations
            start = outcome.dones if vector is None else vector.started
            n = steps.add(step, outcome, ignored)
            if n:
                self.bar.update(n)
                if ended is not None:
                    ended(n)


def collect_rounds(run: Run, n_episodes: int, path: str | PathLike[str]) -> Trajectories:
    """Collect into a directory, from where an earlier call stopped."""
    asked = run.metadata.seed
    plan = {
        "seed": int(np.random.SeedSequence().generate_state(1)[0]) if asked is None else asked,
        "n_episodes": n_episodes,
        "n_envs": run.venv.num_envs,
        "deterministic": run.deterministic,
        "fingerprint": run.policy.fingerprint() or run.policy.state_digest(),
    }
    begun = begin_collection(path, {**plan, "log_id": new_log_id()})
    for name, value in plan.items():
        if begun.get(name) != value and not (name == "seed" and asked is None):
            raise InvalidInputError(
                f"`path` must be empty, or hold the beginning of the same collection, got {path} "
                f"with {name} {begun.get(name)!r}, not {value!r}. Choose another directory."
            )
    seed = int(begun["seed"])
    # An interrupted collection is continued as the same log. Episodes under way at an error are run
    # again, and may then go differently.
    log_id = str(begun.get("log_id", new_log_id()))
    metadata = replace(
        run.metadata,
        seed=seed,
        seeds=collect_seed(log_id, seed),
        interrupted=bool(begun.get("raised", False)),
    )
    try:
        done = len(open_log(path))
    except EmptyLogError:
        done = 0
    size = _PER_ENV * run.venv.num_envs
    if done < n_episodes:
        with EpisodeWriter(path, metadata) as writer:
            for k in range(done // size, -(-n_episodes // size)):
                # An interrupted round is run again; episodes that are stored are skipped.
                first = max(done - k * size, 0)
                steps = Steps(run.venv.num_envs, min(size, n_episodes - k * size), run.signals)
                _run_round(run, steps, np.random.SeedSequence([seed, k]), writer, metadata, first)
    return Trajectories.load(path)


def _run_round(
    run: Run,
    steps: Steps,
    streams: np.random.SeedSequence,
    writer: EpisodeWriter,
    metadata: Metadata,
    written: int,
) -> None:
    """Run a round, and write its episodes from number `written` on, even if it fails."""
    last = time.monotonic()

    def write(_: int = 0, *, now: bool = False) -> None:
        nonlocal written, last
        due = now or time.monotonic() - last > FLUSH_SECONDS
        if due and (ready := steps.n_ready) > written:
            writer.add(run.trajectories(steps, metadata, written))
            writer.flush()
            written, last = ready, time.monotonic()

    try:
        run.steps(steps, streams, ended=write)
    except (Exception, SystemExit) as error:
        if _is_outcome(error, steps):
            note_error(writer.path)  # first: nothing may be lost if the process ends now
        raise
    finally:
        write(now=True)


def _is_outcome(error: BaseException, steps: Steps) -> bool:
    """Whether an error may depend on how an episode went: not on settings, nor on the disk."""
    settings = isinstance(error, (InvalidInputError, UnsupportedPolicyError)) and not steps.rows
    return not settings and not isinstance(error, StorageError)


class Steps:
    """Steps of all environments, and the episodes among them that belong to the log.

    The order of the episodes is fixed in advance: the first of every environment, then the second
    ones, and so on. In the order in which they end, short ones would come first.
    """

    def __init__(self, n_envs: int, n_episodes: int, signals: Sequence[str] = ()) -> None:
        self.signals = signals
        # A quota per environment: the first n to finish would be the short ones.
        self.quota = np.array([(n_episodes + i) // n_envs for i in range(n_envs)])
        self.ended = np.zeros(n_envs, dtype=np.int64)
        self.missing = n_episodes
        self.begin = np.zeros(n_envs, dtype=np.int64)
        self.rows: list[Step] = []
        self.rewards: list[FloatArray] = []
        # By number of the episode in its environment, and environment: begin, end and how.
        self.episodes: dict[tuple[int, int], tuple[int, int, EpisodeEnd]] = {}

    def add(self, step: Step, outcome: Outcome, ignored: NDArray[np.bool_] | None = None) -> int:
        """Add one step of all environments; return the number of logged episodes that ended.

        Environments in `ignored`, (n_envs,), were reset: for them the step does not count.
        """
        if outcome.signals:
            step = step._replace(columns={**step.columns, **outcome.signals})
        self.rows.append(step)
        self.rewards.append(outcome.rewards)
        now, ended = len(self.rows), 0
        if ignored is not None:
            self.begin[ignored] = now
        for i, end in outcome.ends.items():
            if self.ended[i] < self.quota[i]:
                self.episodes[int(self.ended[i]), i] = (int(self.begin[i]), now, end)
                self.ended[i] += 1
                ended += 1
            self.begin[i] = now
        self.missing -= ended
        return ended

    @property
    def n_ready(self) -> int:
        """Number of episodes before the first, in order, that has not ended."""
        running = np.flatnonzero(self.ended < self.quota)
        if not running.size:
            return len(self.episodes)
        first = int(running[np.argmin(self.ended[running])])
        before = self.ended[first] + (np.arange(self.quota.size) < first)
        return int(np.minimum(self.quota, before).sum())

    def trajectories(self, metadata: Metadata, first: int = 0) -> Trajectories:
        """The logged episodes from the first on that are ready, in order."""
        order = sorted(self.episodes)[first : self.n_ready]
        env = [i for _, i in order]
        begin, end, ends = zip(*(self.episodes[key] for key in order), strict=True)
        terminated, truncated, final = zip(*ends, strict=True)
        lengths = np.array(end) - np.array(begin)
        time = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        at = (time + np.repeat(begin, lengths), np.repeat(env, lengths))
        observations, actions, log_probs, masks, columns = zip(*self.rows, strict=True)
        complete = all(observation is not None for observation in final)
        return Trajectories.from_arrays(
            observations=_gather(observations, at),
            actions=_gather(actions, at),
            log_probs=_gather(log_probs, at),
            rewards=_gather(self.rewards, at),
            lengths=lengths,
            terminated=terminated,
            truncated=truncated,
            action_masks=None if masks[0] is None else _gather(masks, at),
            final_observations=stack_observations(final) if complete else None,
            columns={name: _gather([row[name] for row in columns], at) for name in columns[0]},
            metadata=metadata,
        )


def _gather(rows: Any, at: tuple[IntArray, IntArray]) -> Any:
    return take_rows(stack_observations(rows), at)
