"""Steps as they are logged: copies, made before anyone else can change the originals.

Environments may reuse the buffers of their observations, rewards and masks, or change an action in
place; stable-baselines3 changes rewards in place at time-outs. Whatever is logged passes through
here first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ove_sb3._validation import FloatArray
from ove_sb3.errors import InvalidInputError
from ove_sb3.policies.observations import copy_observations
from ove_sb3.policies.policy import Masks

_NO_SIGNALS: Mapping[str, FloatArray] = MappingProxyType({})


class Step(NamedTuple):
    """One step of all environments, without its outcome.

    `log_probs` are those of the actions, (n_envs,), or of all choices, (n_envs, k), because picking
    from them is cheaper for a whole episode than step by step. `columns` are further values to log,
    (n_envs, ...).
    """

    observations: Any
    actions: NDArray[Any]
    log_probs: NDArray[Any]
    masks: Masks | None
    columns: Mapping[str, NDArray[Any]] = MappingProxyType({})


class EpisodeEnd(NamedTuple):
    """How an episode ended; `final` is its last observation, None if unknown."""

    terminated: bool
    truncated: bool
    final: Any


class Outcome(NamedTuple):
    """Return values of the environments for a step.

    Attributes
    ----------
    observations : ndarray, (n_envs, ...), or dict of such
    rewards : ndarray of float64, (n_envs,)
    dones : ndarray of bool, (n_envs,)
    ends : dict of int to EpisodeEnd
        By environment.
    signals : dict of str to ndarray of float64, (n_envs,)
        Values of the infos that are logged as columns.
    """

    observations: Any
    rewards: FloatArray
    dones: NDArray[np.bool_]
    ends: dict[int, EpisodeEnd]
    signals: Mapping[str, FloatArray] = _NO_SIGNALS


def copy_step(
    observations: Any,
    actions: Any,
    log_probs: NDArray[Any],
    masks: Masks | None,
    columns: Mapping[str, NDArray[Any]] = MappingProxyType({}),
) -> Step:
    """Copy a step; to be called before the environments see the actions.

    `observations` are those of `copy_outcome` or `copy_observations`.
    """
    return Step(
        observations,
        np.array(actions),
        np.array(log_probs),
        None if masks is None else np.array(masks),
        {name: np.array(values) for name, values in columns.items()} if columns else columns,
    )


def copy_outcome(
    observations: Any, rewards: Any, dones: Any, infos: Any, signals: Sequence[str] = ()
) -> Outcome:
    """Copy the return values of a step; to be called before anyone else sees them."""
    dones = np.array(dones, dtype=np.bool_)
    return Outcome(
        copy_observations(observations),
        np.array(rewards, dtype=np.float64),
        dones,
        {int(i): _read_end(infos[i]) for i in dones.nonzero()[0]},
        {name: np.array([_read_signal(info, name) for info in infos]) for name in signals}
        if signals
        else _NO_SIGNALS,
    )


def check_signals(names: object) -> tuple[str, ...]:
    """Names of the infos to log."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InvalidInputError(f"`columns` must be a sequence of names, got {names!r}.")
    return tuple(names)


def _read_signal(info: Mapping[str, Any], name: str) -> float:
    try:
        return float(info[name])
    except (KeyError, TypeError, ValueError) as error:
        got = f"{info[name]!r} for it" if name in info else f"an info with {sorted(info)}"
        raise InvalidInputError(
            "`columns` must name numbers that the environment puts into every info, got the name "
            f"{name!r} and {got}."
        ) from error


def _read_end(info: Mapping[str, Any]) -> EpisodeEnd:
    truncated = bool(info.get("TimeLimit.truncated", False))
    terminated = bool(info.get("terminated", not truncated))
    final = info.get("terminal_observation")
    return EpisodeEnd(terminated, truncated, None if final is None else copy_observations(final))
