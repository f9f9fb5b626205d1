"""Log-probabilities of logged actions under any policy: the only place the candidate enters."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ove_sb3._progress import tracked
from ove_sb3._validation import (
    FloatArray,
    IntArray,
    as_array,
    as_flags,
    as_lengths,
    check_flag,
    check_integer,
    check_progress,
    episode_and_step,
)
from ove_sb3.data.metadata import describe_space
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.errors import InvalidInputError, UncoveredActionWarning

from .dispatch import as_given_policy
from .distribution import ActionDistribution
from .observations import as_batch, take_rows
from .policy import Masks, Policy
from .uniform import uniform_distribution

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecNormalize

BATCH_SIZE = 4096
Visit = Callable[[Any, IntArray, ActionDistribution], FloatArray]
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
    batch_size: int = BATCH_SIZE,
    progress: bool | None = None,
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
        Normalizes the observations; by default the model's own. Only for models and policies of
        stable-baselines3 and sb3-contrib.
    batch_size : int
        Number of steps in one forward pass.
    progress : bool, optional
        Show a progress bar. By default in a terminal or notebook, after two seconds.

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
    policy = as_given_policy(model, vec_normalize)
    batch_size = check_integer(batch_size, "batch_size", 1)
    deterministic = check_flag(deterministic, "deterministic")
    progress = check_progress(progress)
    if isinstance(data, Trajectories):
        if not (actions is None and lengths is None and action_masks is None):
            raise InvalidInputError(
                "`actions`, `lengths` and `action_masks` must not be given with Trajectories, "
                "which hold them."
            )
        check_action_space(policy, data)
        if has_acted(policy, data, deterministic):
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
        if acted.dtype.kind not in "biuf":
            raise InvalidInputError(f"`actions` must hold numbers, got dtype {acted.dtype}.")
        masks = None if action_masks is None else as_flags(action_masks, "action_masks")
        n_steps = len(acted) if acted.ndim else 0
        episodes = None if lengths is None else as_lengths(lengths, n_steps, fewest=0)
    return _scan(
        policy,
        observations,
        acted,
        masks,
        episodes,
        deterministic,
        batch_size,
        progress=progress,
    )


def scan_log(
    policy: Policy, data: Trajectories, visit: Visit, *, deterministic: bool, whole_episodes: bool
) -> FloatArray:
    """Computed `log_prob` of a log; `visit` sees the action distributions of every batch.

    Parameters
    ----------
    visit : callable
        Called with the indices of a batch of steps (a slice or an array), the lengths of its
        episodes if they are whole, and their action distributions. Returns the log-probabilities of
        the logged actions.
    whole_episodes : bool
        Let every batch consist of whole episodes, in any order.
    """
    check_action_space(policy, data)
    return _scan(
        policy,
        data.observations,
        data.actions,
        data.action_masks,
        data.lengths,
        deterministic,
        BATCH_SIZE,
        visit=visit,
        whole_episodes=whole_episodes,
    )


def has_acted(policy: Policy, data: Trajectories, deterministic: bool) -> bool:
    """Whether the log was written by this very policy."""
    logged = data.metadata.fingerprint
    return logged is not None and not deterministic and logged == policy.fingerprint()


def _scan(
    policy: Policy,
    observations: Any,
    acted: NDArray[Any],
    masks: Masks | None,
    episodes: IntArray | None,
    deterministic: bool,
    batch_size: int,
    *,
    visit: Visit | None = None,
    whole_episodes: bool = False,
    progress: bool | None = False,
) -> FloatArray:
    batch = as_batch(observations, policy.observation_space)
    n = batch.n
    _check_counts(policy, n, acted, masks, episodes)
    log_probs = np.empty(n)
    mass: FloatArray | None = None
    counts: IntArray | None = None
    whole = episodes if policy.recurrent or whole_episodes else None
    batches = _batches(n, whole, batch_size)
    for steps, parts in tracked(
        batches, progress, total=n, unit="step", size=lambda one: _n_steps(one[0], n), scale=True
    ):
        rows = take_rows(batch.observations, steps)
        part_masks = None if masks is None else masks[steps]
        try:
            distribution = policy.unroll(rows, parts, part_masks)
            if deterministic:
                distribution = distribution.deterministic()
            if visit is None:
                log_probs[steps] = distribution.log_prob(acted[steps])
            else:
                log_probs[steps] = visit(steps, parts, distribution)
        except InvalidInputError as error:
            if error.row is None:
                raise
            raise _at_step(error, int(np.arange(n)[steps][error.row]), episodes) from error
        if mass is None or counts is None:
            mass, counts = distribution.cells(acted[steps])
            unseen = np.flatnonzero((counts == 0) & (mass > _NOTABLE))
        del distribution, rows  # their memory is used again, while it is in the cache
    if mass is not None and unseen.size:
        _warn_if_uncovered(policy, mass, unseen, acted)
    return log_probs


def _n_steps(steps: Any, n: int) -> int:
    """Number of steps that an index of some of `n` steps selects."""
    return len(range(n)[steps]) if isinstance(steps, slice) else len(steps)


def _at_step(error: InvalidInputError, index: int, lengths: IntArray | None) -> InvalidInputError:
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
        warnings.warn(warning, stacklevel=4)


def _batches(n: int, lengths: IntArray | None, batch_size: int) -> Iterator[tuple[Any, IntArray]]:
    """Slices of n steps; with `lengths`, whole episodes of about equal length, for memory."""
    if lengths is None:
        for start in range(0, n, batch_size):
            steps = slice(start, min(n, start + batch_size))
            yield steps, _NO_LENGTHS
        return
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


def check_action_space(policy: Policy, data: Trajectories) -> None:
    """Refuse a policy with an action space other than the log's."""
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
