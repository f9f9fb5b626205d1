"""Logs of episodes that were assigned to known policies, as in an A/B test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ove_sb3._validation import FloatArray, IntArray, as_array
from ove_sb3.core.assigned import ASSIGNED_TO
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.errors import PLACE, InvalidInputError

from .dispatch import as_policy
from .episode_mixture import COMPONENT_LOG_PROBS, episode_log_probs
from .known_behavior import check_behavior
from .log_prob import log_prob
from .policy import Policy

_FEWEST = 2  # episodes of every policy: one for the pilot, one to bet on
_REMEDY = (
    "Pass the models as they were when they acted, and in the order in which `acted` numbers them."
)


def as_mixture(data: Trajectories, policies: Sequence[Any], acted: str | ArrayLike) -> Trajectories:
    """Episodes of several known policies as the log of their mixture.

    For logs of an A/B test or canary release that exist already: one of the policies acted for
    the whole of each episode, at random or as planned. Every policy can then be evaluated from all
    episodes, with weights of at most 1 over its share, however long episodes are.

    Parameters
    ----------
    data : Trajectories
        Episodes with the log-probability under the policy that acted.
    policies : sequence of K models or policies
        See `action_distribution`. Each acted in at least two episodes.
    acted : str or array_like of int, (n,) or (n_steps,)
        Number of the policy that acted in every episode, from 0 to K - 1; or the name of a kept
        column that holds it.

    Returns
    -------
    Trajectories
        With the log-probabilities of the mixture whose shares are the realized ones.

    Raises
    ------
    BehaviorError
        If the logged probabilities are not those of the policy that is said to have acted.

    Notes
    -----
    It does not matter whether the assignment was random, but it must not depend on what happened in
    any episode. A split that was planned is not needed, and not used: intervals by betting use the
    realized shares of the episodes that they bet on, with bets of constant size. They are wider
    than those of a log that a `MixturePolicy` drawn per episode has written.
    """
    _check_log(data)
    parts = [as_policy(policy) for policy in _sequence(policies)]
    _check_policies(parts)
    arms = _arms(data, acted, len(parts))
    counts = np.bincount(arms, minlength=len(parts))
    if (counts < _FEWEST).any():
        raise InvalidInputError(
            f"`acted` must name every policy at least {_FEWEST} times, got {counts.tolist()} "
            "episodes. Leave out policies that did not act."
        )
    plain = replace(data, metadata=replace(data.metadata, fingerprint=None))
    log_probs = np.stack([log_prob(policy, plain) for policy in policies], axis=1)
    steps = np.repeat(arms, data.lengths)
    rule = "`policies[acted]` must be the policy that acted"
    check_behavior(log_probs[np.arange(data.n_steps), steps], data, rule, _REMEDY)
    # The logged value is the exact one, of the action as it was drawn.
    log_probs[np.arange(data.n_steps), steps] = data.log_probs
    shares = counts / counts.sum()
    components = [
        {
            "weight": float(share),
            "policy": type(policy).__name__,
            "fingerprint": part.fingerprint(),
        }
        for share, policy, part in zip(shares, policies, parts, strict=True)
    ]
    return replace(
        data,
        log_probs=episode_log_probs(log_probs, np.log(shares), data.lengths),
        columns={**data.columns, COMPONENT_LOG_PROBS: log_probs, ASSIGNED_TO: steps},
        metadata=replace(
            data.metadata,
            behavior=" and ".join(dict.fromkeys(type(policy).__name__ for policy in policies)),
            fingerprint=None,
            components=tuple(components),
            assigned=True,
            several_behaviors=False,
        ),
    )


def _check_log(data: object) -> None:
    if not isinstance(data, Trajectories):
        raise InvalidInputError(
            f"`data` must be Trajectories, got {type(data).__name__}. Load a log with "
            "Trajectories.load."
        )
    if data.metadata.components or data.metadata.assigned:
        raise InvalidInputError(
            "`data` must hold the probabilities of the policy that acted, got a log that holds "
            "those of a mixture already. Evaluate it as it is."
        )
    if data.metadata.adaptive:
        raise InvalidInputError(
            "`data` must not be the log of a behavior that learned: no fixed policy acted in it. "
            "Evaluate it as it is."
        )


def _sequence(policies: object) -> Sequence[Any]:
    if not isinstance(policies, (list, tuple)) or len(policies) < 2:
        raise InvalidInputError(
            f"`policies` must be a list of at least two models or policies, got {policies!r}."
        )
    return policies


def _check_policies(parts: Sequence[Policy]) -> None:
    for part in parts:
        if part.has_noise_state or getattr(part, "per", "step") == "episode":
            raise InvalidInputError(
                "`policies` must have probabilities that are known where they did not act, got "
                "one with Ornstein-Uhlenbeck noise or a mixture that is drawn per episode. Name "
                "the policies of such a mixture themselves."
            )


def _arms(data: Trajectories, acted: str | ArrayLike, n_policies: int) -> IntArray:
    """Number of the policy that acted in every episode, (n,)."""
    name = "acted" if not isinstance(acted, str) else f"columns[{acted!r}]"
    values: FloatArray = data.signal(acted) if isinstance(acted, str) else as_array(acted, "acted")
    if values.dtype.kind not in "biuf":
        raise InvalidInputError(f"`{name}` must hold numbers, got dtype {values.dtype}.")
    if values.shape == (data.n_steps,) and data.n_steps != len(data):
        first = values[data.starts]
        changed = np.flatnonzero(values != np.repeat(first, data.lengths))
        if changed.size:
            episode = int(np.searchsorted(np.cumsum(data.lengths), changed[0], side="right"))
            step = int(changed[0] - data.starts[episode])
            raise InvalidInputError(
                f"`{name}` must name one policy per episode, got {values[changed[0]]:g} after "
                f"{first[episode]:g} at {PLACE}.",
                episode=episode,
                step=step,
            )
        values = first
    if values.shape != (len(data),):
        raise InvalidInputError(
            f"`{name}` must have one entry per episode, {len(data)}, or per step, {data.n_steps}, "
            f"got shape {values.shape}."
        )
    bad = ~np.isin(values, np.arange(n_policies))
    if bad.any():
        episode = int(np.flatnonzero(bad)[0])
        raise InvalidInputError(
            f"`{name}` must be a number of the {n_policies} policies, 0 to {n_policies - 1}, got "
            f"{values[episode]:g} at {PLACE}.",
            episode=episode,
        )
    return values.astype(np.int64)
