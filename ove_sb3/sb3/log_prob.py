"""Log-probabilities of logged actions under any policy: the one place the candidate enters."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from stable_baselines3.common.vec_env import VecNormalize

from ove_sb3._validation import FloatArray, IntArray, check_integer
from ove_sb3.data.metadata import describe_space
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.errors import InvalidInputError, SupportWarning

from .dispatch import law_of
from .laws import Law, Masks
from .networks import NotANumber, check_observations
from .recurrent import rows_of
from .uniform import uniform_on

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
    model : BaseAlgorithm, BasePolicy or ready policy
        See `action_distribution`. Off-policy models are taken with their exploration.
    data : Trajectories, or observations (n_steps, ...) or a dict of such
        A log; or observations, and then `actions` are required.
    actions : array_like, (n_steps, ...), optional
        Executed actions in the units of the environment.
    lengths : array_like of int, optional
        With observations and a policy with memory: the length of every episode.
    action_masks : array_like of bool, (n_steps, n_choices), optional
        With observations and a policy that is masked.
    deterministic : bool
        The law of ``predict(..., deterministic=True)``; not for a Box.
    vec_normalize : VecNormalize, optional
        Normalises the observations for this model; by default the model's own.
    batch_size : int
        Number of steps in one forward pass.

    Returns
    -------
    ndarray of float64, (n_steps,)
        ``-inf`` for an action that `model` never takes. Counting measure for discrete actions; for
        a Box, density per unit of the environment inside and probability on a bound.

    Notes
    -----
    If `model` is the behavior itself, unchanged since a log was collected, the logged values are
    returned: they are the same up to rounding, which differs between batch sizes, and the
    log-ratio is then exactly 0.
    """
    law = law_of(model, vec_normalize=vec_normalize)
    batch_size = check_integer(batch_size, "batch_size", 1)
    if isinstance(data, Trajectories):
        if not (actions is None and lengths is None and action_masks is None):
            raise InvalidInputError(
                "`actions`, `lengths` and `action_masks` must not be given with Trajectories, "
                "which hold them."
            )
        _check_action_space(law, data)
        known = data.metadata.fingerprint
        if known is not None and not deterministic and known == law.fingerprint():
            return data.log_probs.copy()
        observations, acted, masks = data.observations, data.actions, data.action_masks
        episodes: IntArray | None = data.lengths
    else:
        if actions is None:
            raise InvalidInputError(
                "`actions` must be given with observations, got None. Pass the executed actions, "
                "or Trajectories."
            )
        observations, acted = data, np.asarray(actions)
        masks = None if action_masks is None else np.asarray(action_masks, dtype=np.bool_)
        episodes = None if lengths is None else np.asarray(lengths, dtype=np.int64)
    batch, n = check_observations(observations, law.observation_space)
    _check_counts(law, n, acted, masks, episodes)
    found = np.empty(n)
    mass: FloatArray | None = None
    counts: IntArray | None = None
    for steps, parts in _batches(law, n, episodes, batch_size):
        rows = rows_of(batch, steps)
        part_masks = None if masks is None else masks[steps]
        try:
            laws = law.roll(rows, parts, part_masks)
            if deterministic:
                laws = laws.deterministic()
            found[steps] = laws.log_prob(acted[steps])
        except NotANumber as error:
            raise InvalidInputError(_located(error, np.arange(n)[steps], episodes)) from error
        except InvalidInputError as error:
            raise _in_all_rows(error, np.arange(n)[steps]) from error
        if mass is None or counts is None:
            mass, counts = laws.cells(acted[steps])
            unseen = np.flatnonzero((counts == 0) & (mass > _NOTABLE))
        del laws, rows  # their memory is used again, while it is in the cache
    if mass is not None and unseen.size:
        _warn_if_uncovered(law, mass, unseen, acted)
    return found


def _in_all_rows(error: InvalidInputError, rows: IntArray) -> InvalidInputError:
    """The error about a batch, with its row numbered among all steps."""
    message = re.sub(r"\brow (\d+)", lambda found: f"row {rows[int(found[1])]}", str(error))
    return type(error)(message)


def _located(error: NotANumber, steps: IntArray, lengths: IntArray | None) -> str:
    """The message with the place in the whole log instead of the batch."""
    step = int(steps[error.row])
    if lengths is None:
        return error.cause.format(place=f"row {step}")
    ends = np.cumsum(lengths)
    episode = int(np.searchsorted(ends, step, side="right"))
    within = step - int(ends[episode] - lengths[episode])
    return error.cause.format(place=f"episode {episode}, step {within}")


def _warn_if_uncovered(law: Law, mass: FloatArray, unseen: IntArray, actions: Any) -> None:
    """Say so if the candidate often does what the whole log never shows."""
    uniform = uniform_on(law.action_space, len(actions))
    _, counts = uniform.cells(actions)
    missing = unseen[(counts[unseen] == 0) & (mass[unseen] * len(actions) > _SURELY_SEEN)]
    if missing.size:
        what = "acts at a bound" if hasattr(law.action_space, "low") else "takes an action"
        warnings.warn(
            f"the candidate {what} that is never seen in the {len(actions)} logged steps, with "
            f"probability {mass[missing].max():.2g}. The behavior seems to have probability 0 "
            "there: estimates leave that part of the candidate out. Use a behavior that covers the "
            "candidate, such as a MixturePolicy with it.",
            SupportWarning,
            stacklevel=3,
        )


def _batches(
    law: Law, n: int, lengths: IntArray | None, batch_size: int
) -> Iterator[tuple[Any, IntArray]]:
    """Slices of steps; for a policy with memory, whole episodes of about equal length."""
    if not law.recurrent:
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


def _check_action_space(law: Law, data: Trajectories) -> None:
    logged = data.metadata.action_space
    ours = describe_space(law.action_space)
    if logged is not None and dict(logged) != ours:
        raise InvalidInputError(
            f"`model` must have the action space of the log, {logged}, got {ours}. Probabilities "
            "on different spaces cannot be compared."
        )


def _check_counts(
    law: Law, n: int, actions: NDArray[Any], masks: Masks | None, lengths: IntArray | None
) -> None:
    for name, array in (("actions", actions), ("action_masks", masks)):
        if array is not None and array.shape[:1] != (n,):
            raise InvalidInputError(
                f"`{name}` must have one entry per observation, {n}, got shape {array.shape}."
            )
    if law.recurrent and (lengths is None or int(lengths.sum()) != n):
        got = None if lengths is None else int(lengths.sum())
        raise InvalidInputError(
            "`lengths` must be given for a policy with memory and add up to the number of steps, "
            f"{n}, got {got}. The memory is rolled over whole episodes."
        )
