"""Scores of a log whose behavior is known: checked probabilities, and ratios of all actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ove_sb3._validation import FloatArray, IntArray, episode_and_step
from ove_sb3.core.truncation import ActionRatios
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.errors import PLACE, BehaviorError, InvalidInputError

from .distribution import ActionDistribution
from .log_prob import check_action_space, scan_log
from .observations import as_batch, take_rows
from .policy import Policy

N_DRAWS = 4  # of the candidate at every step, where not all actions can be listed
_SEED = 0x0B5E55ED  # of these draws: a stream of their own, apart from any seed of a log
_STEP_TOLERANCE = 1e-4  # of a log-probability, and relative to it: single precision
_EPISODE_TOLERANCE = 1e-3  # of the sum over an episode: what the weight may be off by
_ROUNDING = 2e-6  # of the sum, for every step


@dataclass(frozen=True)
class KnownBehaviorScores:
    """Scores of the logged actions under the candidate, where the behavior is known.

    Attributes
    ----------
    log_probs : ndarray of float64, (n_steps,)
        The candidate's log-probability of every logged action.
    actions : ActionRatios
        Ratios of all actions, or of draws of the candidate.
    """

    log_probs: FloatArray
    actions: ActionRatios


def score_known_behavior(
    candidate: Policy,
    behavior: Policy,
    data: Trajectories,
    *,
    deterministic: bool = False,
    first_step: int = 0,
) -> KnownBehaviorScores:
    """Score a log under the candidate and the behavior that wrote it.

    Parameters
    ----------
    candidate, behavior : Policy
    data : Trajectories
    deterministic : bool
        Whether the candidate acts deterministically.
    first_step : int
        Index in the whole log of the first step of `data`. It seeds the draws, so that they do not
        depend on which process computes them.

    Raises
    ------
    BehaviorError
        If the behavior's probabilities are not those that were logged.
    """
    scan = _Scan(behavior, data, first_step)
    whole_episodes = candidate.recurrent or behavior.recurrent
    log_probs = scan_log(
        candidate, data, scan.visit, deterministic=deterministic, whole_episodes=whole_episodes
    )
    check_behavior(scan.behavior_log_probs, data)
    return KnownBehaviorScores(log_probs, scan.actions())


class _Scan:
    """Ratios of the candidate's actions, batch by batch."""

    def __init__(self, behavior: Policy, data: Trajectories, first_step: int) -> None:
        self.behavior = behavior
        self.data = data
        self.first_step = first_step
        try:
            check_action_space(behavior, data)
            batch = as_batch(data.observations, behavior.observation_space)
        except InvalidInputError as error:
            raise BehaviorError(f"`behavior` does not fit the log: {error.args[0]}") from error
        self.observations = batch.observations
        self.behavior_log_probs = np.empty(data.n_steps)
        self.logged = np.empty(data.n_steps)
        self.parts: list[tuple[Any, FloatArray, FloatArray]] = []
        self.exact = False

    def visit(self, steps: Any, lengths: IntArray, candidate: ActionDistribution) -> None:
        """Take the candidate's distributions of a batch of steps."""
        data = self.data
        masks = None if data.action_masks is None else data.action_masks[steps]
        rows = take_rows(self.observations, steps)
        behavior = self.behavior.unroll(rows, lengths, masks)
        acted = data.actions[steps]
        known = candidate.choices(acted), behavior.choices(acted)
        if known[0] is not None and known[1] is not None:
            self._list(steps, known[0], known[1][0])
        else:
            self._draw(steps, candidate, behavior)

    def _list(self, steps: Any, candidate: tuple[FloatArray, IntArray], log_b: FloatArray) -> None:
        log_p, index = candidate
        each = np.arange(len(index))
        ratios = _ratio(log_p, log_b)
        self.behavior_log_probs[steps] = log_b[each, index]
        self.logged[steps] = ratios[each, index]
        self.exact = True
        self.parts.append((steps, ratios, np.exp(log_p)))

    def _draw(
        self, steps: Any, candidate: ActionDistribution, behavior: ActionDistribution
    ) -> None:
        acted = self.data.actions[steps]
        rng = np.random.default_rng([_SEED, self.first_step, len(self.parts)])
        log_b = behavior.log_prob(acted)
        ratios = np.empty((len(acted), N_DRAWS))
        for j in range(N_DRAWS):
            drawn = candidate.sample(rng)
            ratios[:, j] = _ratio(candidate.log_prob(drawn), behavior.log_prob(drawn))
        self.behavior_log_probs[steps] = log_b
        self.logged[steps] = _ratio(candidate.log_prob(acted), log_b)
        self.parts.append((steps, ratios, np.full_like(ratios, 1.0 / N_DRAWS)))

    def actions(self) -> ActionRatios:
        """Ratios of all batches."""
        shape = self.data.n_steps, self.parts[0][1].shape[1]
        ratios, masses = np.empty(shape), np.empty(shape)
        for steps, batch_ratios, batch_masses in self.parts:
            ratios[steps], masses[steps] = batch_ratios, batch_masses
        return ActionRatios(self.logged, ratios, masses, self.exact)


def _ratio(log_p: FloatArray, log_b: FloatArray) -> FloatArray:
    """Importance ratios; 0 if the candidate never takes an action, infinite if only it does."""
    with np.errstate(invalid="ignore", over="ignore"):
        ratios = np.exp(log_p - log_b)
    return np.asarray(np.where(log_p == -np.inf, 0.0, ratios))


_REMEDY = (
    "Pass the model as it was when it acted, with the statistics of its VecNormalize, if it had "
    "one; or leave `behavior` out."
)


def check_behavior(
    log_probs: FloatArray,
    data: Trajectories,
    rule: str = "`behavior` must be the policy that wrote the log",
    remedy: str = _REMEDY,
) -> None:
    """Refuse a behavior whose log-probabilities of the logged actions are not the logged ones.

    They are compared step by step, and summed over episodes, where small differences add up.
    """
    logged = data.log_probs
    with np.errstate(invalid="ignore"):
        difference = np.where(log_probs == logged, 0.0, log_probs - logged)
    bad = ~(np.abs(difference) <= _STEP_TOLERANCE * (1.0 + np.abs(logged)))
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        episode, step = episode_and_step(first, data.lengths)
        raise BehaviorError(
            f"{rule}, but its log-probability of the logged "
            f"action is {log_probs[first]:.6g} where {logged[first]:.6g} was logged, at "
            f"{PLACE} ({int(bad.sum())} of {bad.size} steps of this part of the log). {remedy}",
            episode=episode,
            step=step,
        )
    starts = np.cumsum(data.lengths) - data.lengths
    sums = np.add.reduceat(difference, starts)
    bad = np.abs(sums) > _EPISODE_TOLERANCE + _ROUNDING * data.lengths
    if bad.any():
        episode = int(np.flatnonzero(bad)[0])
        start = int(starts[episode])
        part = difference[start : start + int(data.lengths[episode])]
        raise BehaviorError(
            f"{rule}, but its log-probabilities of the logged "
            f"actions differ from the logged ones by {sums[episode]:.3g} in all at {PLACE}, "
            f"most at this step ({int(bad.sum())} of {bad.size} episodes of this part of the log). "
            f"{remedy}",
            episode=episode,
            step=int(np.abs(part).argmax()),
        )
