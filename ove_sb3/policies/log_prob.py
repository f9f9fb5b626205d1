"""Log-probabilities of logged actions under any policy: the only place the candidate enters."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ove_sb3._validation import (
    FloatArray,
    IntArray,
    as_array,
    as_flags,
    as_lengths,
    check_flag,
    check_integer,
    episode_and_step,
)
from ove_sb3.data.metadata import describe_space
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.errors import InvalidInputError, UncoveredActionWarning

from .dispatch import as_policy
from .observations import as_batch, take_rows
from .policy import Masks, Policy
from .uniform import uniform_distribution

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecNormalize

_NO_LENGTHS = np.empty(0, dtype=np.int64)
_NOTABLE = 0.01  # mean probability of something that the log lacks
_SURELY_SEEN = 30.0  # expected number of times, if the behavior had that probability


def log_prob(
    model: Any,
    data: Trajectories | Any,
    actions: ArrayLike | None = None,
    *,
    lengths: ArrayLike | None = None,
    action_masks: ArrayLike | None = None,
    deterministic: bool = False,
    vec_normalize: VecNormalize | None = None,
    batch_size: int = 4096,
) -> FloatArray:
    """Log-probability of every logged action under `model`.

    Parameters
    ----------
    model : BaseAlgorithm, BasePolicy or built-in policy
        See `action_distribution`. Off-policy models are evaluated with their exploration.
    data : Trajectories, or observations, (n_steps, ...), or a dict of such
        A log; or observations, which require `actions`.
    actions : array_like, (n_steps, ...), optional
        Executed actions in the units of the environment.
    lengths : array_like of int, optional
        With observations and a policy with memory: the length of every episode.
    action_masks : array_like of bool, (n_steps, n_choices), optional
        With observations and a policy that uses action masks.
    deterministic : bool
        Act as ``predict(..., deterministic=True)``; not for a Box.
    vec_normalize : VecNormalize, optional
        Normalizes the observations; by default the model's own.
    batch_size : int
        Number of steps in one forward pass.

    Returns
    -------
    ndarray of float64, (n_steps,)
        ``-inf`` for an action that `model` never takes. Log-probabilities of discrete actions and
        of actions on a bound of a Box; log-densities in environment units inside a Box.

    Notes
    -----
    If `model` is the behavior itself, unchanged since the log was collected, the logged values are
    returned, so that the log-ratio is exactly 0. Computed values would equal them only up to
    rounding, which depends on the batch size.
    """
    policy = as_policy(model, vec_normalize=vec_normalize)
    batch_size = check_integer(batch_size, "batch_size", 1)
    deterministic = check_flag(deterministic, "deterministic")
    if isinstance(data, Trajectories):
        if not (actions is None and lengths is None and action_masks is None):
            raise InvalidInputError(
                "`actions`, `lengths` and `action_masks` must not be given with Trajectories, "
                "which hold them."
            )
        _check_action_space(policy, data)
        logged = data.metadata.fingerprint
        if logged is not None and not deterministic and logged == policy.fingerprint():
            return data.log_probs.copy()
        observations, acted, masks = data.observations, data.actions, data.action_masks
        episodes: IntArray | None = data.lengths
    else:
        if actions is None:
            raise InvalidInputError(
                "`actions` must be given with observations, got None. Pass the executed actions, "
                "or Trajectories."
            )
        observations, acted = data, as_array(actions, "actions")
        masks = None if action_masks is None else as_flags(action_masks, "action_masks")
        n_steps = len(acted) if acted.ndim else 0
        episodes = None if lengths is None else as_lengths(lengths, n_steps, fewest=0)
    batch = as_batch(observations, policy.observation_space)
    n = batch.n
    _check_counts(policy, n, acted, masks, episodes)
    log_probs = np.empty(n)
    mass: FloatArray | None = None
    counts: IntArray | None = None
    for steps, parts in _batches(policy, n, episodes, batch_size):
        rows = take_rows(batch.observations, steps)
        part_masks = None if masks is None else masks[steps]
        try:
            distribution = policy.unroll(rows, parts, part_masks)
            if deterministic:
                distribution = distribution.deterministic()
            log_probs[steps] = distribution.log_prob(acted[steps])
        except InvalidInputError as error:
            if error.row is None:
                raise
            raise _moved(error, int(np.arange(n)[steps][error.row]), episodes) from error
        if mass is None or counts is None:
            mass, counts = distribution.cells(acted[steps])
            unseen = np.flatnonzero((counts == 0) & (mass > _NOTABLE))
        del distribution, rows  # their memory is used again, while it is in the cache
    if mass is not None and unseen.size:
        _warn_if_uncovered(policy, mass, unseen, acted)
    return log_probs


def _moved(error: InvalidInputError, index: int, lengths: IntArray | None) -> InvalidInputError:
    """An error about a row of a batch as one about the step `index` of all steps."""
    if lengths is None:
        return error.at(row=index)
    episode, step = episode_and_step(index, lengths)
    return error.at(episode=episode, step=step)


def _warn_if_uncovered(policy: Policy, mass: FloatArray, unseen: IntArray, actions: Any) -> None:
    """Warn if the candidate often takes an action that the whole log never shows."""
    uniform = uniform_distribution(policy.action_space, len(actions))
    _, counts = uniform.cells(actions)
    missing = unseen[(counts[unseen] == 0) & (mass[unseen] * len(actions) > _SURELY_SEEN)]
    if missing.size:
        what = "acts at a bound" if hasattr(policy.action_space, "low") else "takes an action"
        warning = UncoveredActionWarning(what, float(mass[missing].max()), len(actions))
        warnings.warn(warning, stacklevel=3)


def _batches(
    policy: Policy, n: int, lengths: IntArray | None, batch_size: int
) -> Iterator[tuple[Any, IntArray]]:
    """Slices of steps; for a policy with memory, whole episodes of about equal length."""
    if not policy.recurrent:
        for start in range(0, n, batch_size):
            steps = slice(start, min(n, start + batch_size))
            yield steps, _NO_LENGTHS
        return
    assert lengths is not None
    order = np.argsort(lengths, kind="stable")
    starts = np.cumsum(lengths) - lengths
    first = 0
    while first < order.size:
        last = first + 1
        while last < order.size and (last + 1 - first) * lengths[order[last]] <= batch_size:
            last += 1
        chosen = order[first:last]
        parts = lengths[chosen]
        shift = starts[chosen] - (np.cumsum(parts) - parts)
        yield np.arange(int(parts.sum())) + np.repeat(shift, parts), parts
        first = last


def _check_action_space(policy: Policy, data: Trajectories) -> None:
    logged = data.metadata.action_space
    ours = describe_space(policy.action_space)
    if logged is not None and dict(logged) != ours:
        raise InvalidInputError(
            f"`model` must have the action space of the log, {logged}, got {ours}. Probabilities "
            "on different spaces cannot be compared."
        )


def _check_counts(
    policy: Policy, n: int, actions: NDArray[Any], masks: Masks | None, lengths: IntArray | None
) -> None:
    for name, array in (("actions", actions), ("action_masks", masks)):
        if array is not None and array.shape[:1] != (n,):
            raise InvalidInputError(
                f"`{name}` must have one entry per observation, {n}, got shape {array.shape}."
            )
    if lengths is None and not policy.recurrent:
        return
    if lengths is None or int(lengths.sum()) != n:
        got = None if lengths is None else int(lengths.sum())
        raise InvalidInputError(
            "`lengths` must be given for a policy with memory and add up to the number of steps, "
            f"{n}, got {got}. The memory is unrolled over whole episodes."
        )
