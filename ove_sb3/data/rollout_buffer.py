"""Reading the rollout buffer of stable-baselines3."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ove_sb3._validation import check_integer
from ove_sb3.core.stopping import LoggingRecord, begin_key
from ove_sb3.errors import InvalidInputError

from .metadata import Metadata, describe_space
from .trajectories import DISCRETE_KINDS, Trajectories

_FIELDS = ("observations", "actions", "rewards", "log_probs", "episode_starts")


class _Episode(NamedTuple):
    """An episode that began in the buffer; `end` is None if its end is not there."""

    begin: int
    env: int
    end: int | None


def from_rollout_buffer(
    buffer: Any,
    *,
    horizon: int | None,
    reward_range: tuple[float, float] | None = None,
) -> Trajectories:
    """Trajectories from the rollout buffer of PPO, A2C or TRPO.

    Parameters
    ----------
    buffer : RolloutBuffer, DictRolloutBuffer or their maskable variants
        As ``model.rollout_buffer``, of an environment without VecNormalize, and with discrete
        actions: for a Box the buffer holds the actions before they were clipped.
    horizon : int or None
        The time limit of the environment, None if it never truncates an episode. An assumption: no
        episode is truncated before. stable-baselines3 adds the value of the last observation to the
        last reward of a truncated episode, and the buffer does not tell which these are. Log
        environments that truncate in other ways with `VecLogActionProbability`.
    reward_range : (float, float), optional
        Smallest and largest reward of the environment, stored in the metadata.

    Returns
    -------
    Trajectories
        The complete episodes in the order in which they ended. Those whose end is not in the
        buffer, and those that reached the time limit, are counted as begun: guaranteed intervals
        count them at their worst. The log is marked as adaptive, as that of any learning policy.

    Notes
    -----
    A buffer holds one rollout. A model has learned from it, and nothing in it shows which one, so
    that models of stable-baselines3 are evaluated on it without a guarantee.
    `VecLogActionProbability` logs a whole training run, with the rewards of the environment.
    """
    if horizon is not None:
        horizon = check_integer(horizon, "horizon", 1)
    space = _check_buffer(buffer)
    fields, n_steps = _read(buffer)
    episodes = _episodes(np.asarray(buffer.episode_starts[:n_steps], dtype=np.bool_), horizon)
    ended = sorted((e for e in episodes if e.end is not None), key=lambda e: (e.end, e.env))
    if not ended:
        raise InvalidInputError(
            f"`buffer` must hold at least one complete episode, got none in {n_steps} steps of "
            f"{buffer.n_envs} environments. Use a larger n_steps, or VecLogActionProbability."
        )
    begun = {(e.begin, e.env): k for k, e in enumerate(episodes)}
    writer = uuid.uuid4().int >> 97  # 31 bits
    fresh = bool(np.all(buffer.episode_starts[0]))
    record = LoggingRecord(
        begun=len(episodes),
        ended=len(ended),
        n_envs=int(buffer.n_envs),
        n_steps=n_steps * int(buffer.n_envs),
        planned_steps=n_steps * int(buffer.n_envs) if fresh and buffer.full else None,
    )
    lengths = np.array([e.end - e.begin for e in ended if e.end is not None])
    times = np.concatenate([np.arange(e.begin, e.end) for e in ended])
    at = times, np.repeat([e.env for e in ended], lengths)
    last = np.array([e.end for e in ended])
    before = np.array([np.sum(last <= e.begin) for e in ended])  # ended when each began
    return Trajectories.from_arrays(
        observations=_observed(_take(fields["observations"], at), buffer.observation_space),
        actions=_take(fields["actions"], at).reshape(-1, *(space.shape or ())),
        log_probs=_take(fields["log_probs"], at),
        rewards=_take(fields["rewards"], at),
        lengths=lengths,
        action_masks=_take(fields["action_masks"], at).astype(np.bool_)
        if "action_masks" in fields
        else None,
        overlaps=np.arange(len(ended)) - before if buffer.n_envs > 1 else None,
        begins=[begin_key(writer, begun[e.begin, e.env]) for e in ended],
        metadata=Metadata(
            horizon=horizon,
            observation_space=describe_space(buffer.observation_space),
            action_space=describe_space(space),
            adaptive=True,
            reward_range=reward_range,
            begun={str(writer): record},
        ),
    )


def _check_buffer(buffer: Any) -> Any:
    """The action space of a buffer that can be read."""
    missing = [name for name in (*_FIELDS, "n_envs", "pos") if not hasattr(buffer, name)]
    if missing:
        raise InvalidInputError(
            "`buffer` must be a rollout buffer of stable-baselines3, such as model.rollout_buffer, "
            f"got {type(buffer).__name__} without {missing[0]}."
        )
    if hasattr(buffer, "hidden_states_pi"):
        raise InvalidInputError(
            "`buffer` must not be that of a recurrent policy, whose memory at the first step is "
            f"not that of a new episode, got {type(buffer).__name__}. Use VecLogActionProbability."
        )
    space = buffer.action_space
    if (kind := type(space).__name__) not in DISCRETE_KINDS:
        raise InvalidInputError(
            f"`buffer` must hold discrete actions, got a {kind}: the buffer has the actions before "
            "they were clipped, not those that were executed. Use VecLogActionProbability."
        )
    return space


def _read(buffer: Any) -> tuple[dict[str, Any], int]:
    """Fields as arrays, (n_steps, n_envs, ...), and the number of steps that were filled."""
    n_steps = int(buffer.buffer_size if buffer.full else buffer.pos)
    names = [*_FIELDS[:-1], *(["action_masks"] if hasattr(buffer, "action_masks") else [])]
    # Training flattens all of them but the rewards, environment after environment.
    flat = bool(getattr(buffer, "generator_ready", False))

    def unflat(array: NDArray[Any], name: str) -> NDArray[Any]:
        if flat and name != "rewards":
            shape = (buffer.n_envs, n_steps, *array.shape[1:])
            array = array.reshape(shape).swapaxes(0, 1)
            if name == "log_probs":
                array = array.reshape(n_steps, buffer.n_envs)
        return np.asarray(array[:n_steps])

    fields: dict[str, Any] = {}
    for name in names:
        values = getattr(buffer, name)
        if isinstance(values, Mapping):
            fields[name] = {key: unflat(array, name) for key, array in values.items()}
        else:
            fields[name] = unflat(values, name)
    return fields, n_steps


def _episodes(starts: NDArray[np.bool_], horizon: int | None) -> list[_Episode]:
    """Episodes that began in the buffer, in the order of beginning; `starts` is (n_steps, n_envs).

    An episode that began before the buffer is left out. Whether the last step of the buffer ended
    one is not known.
    """
    episodes = []
    for env in range(starts.shape[1]):
        begins = np.flatnonzero(starts[:, env]).tolist()
        for begin, end in zip_longest(begins, begins[1:]):
            cut = horizon is not None and end is not None and end - begin >= horizon
            episodes.append(_Episode(begin, env, None if cut else end))
    return sorted(episodes, key=lambda e: (e.begin, e.env))


def _observed(rows: Any, space: Any) -> Any:
    """Observations in the shape of their space: the buffer has Discrete ones in a vector."""
    if isinstance(rows, Mapping):
        return {key: _observed(array, space[key]) for key, array in rows.items()}
    return rows.reshape(len(rows), *(space.shape or ()))


def _take(rows: Any, at: Any) -> Any:
    if isinstance(rows, Mapping):
        return {key: array[at] for key, array in rows.items()}
    return rows[at]
