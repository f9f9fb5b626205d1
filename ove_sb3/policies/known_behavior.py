"""Scores of a log whose behavior is known: checked probabilities, and ratios of all actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ove_sb3._validation import FloatArray, IntArray, episode_and_step
from ove_sb3.core.truncation import ActionRatios
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.errors import PLACE, BehaviorError, InvalidInputError

from .discrete import pick
from .distribution import ActionDistribution
from .log_prob import check_action_space, has_acted, scan_log
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
    if has_acted(candidate, data, deterministic) and _agree(log_probs, data):
        log_probs = data.log_probs.copy()  # so that the log-ratio is exactly 0
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
        # By action and step: reductions over a short last axis are several times slower.
        self.ratios = self.masses = np.empty((0, data.n_steps))
        self.n_batches = 0
        self.exact = False

    def visit(self, steps: Any, lengths: IntArray, candidate: ActionDistribution) -> FloatArray:
        """Take the candidate's distributions of a batch; return its log-probabilities."""
        data = self.data
        masks = None if data.action_masks is None else data.action_masks[steps]
        rows = take_rows(self.observations, steps)
        behavior = self.behavior.unroll(rows, lengths, masks)
        acted = data.actions[steps]
        known = candidate.choices(acted)
        listed = None if known is None else behavior.choices(acted)
        self.n_batches += 1
        if known is not None and listed is not None:
            return self._list(steps, known, listed[0])
        return self._draw(steps, candidate, behavior)

    def _list(
        self, steps: Any, candidate: tuple[FloatArray, IntArray], log_b: FloatArray
    ) -> FloatArray:
        log_p, index = candidate
        ratios = _ratio(log_p, log_b)
        self.behavior_log_probs[steps] = pick(log_b, index)
        self.logged[steps] = pick(ratios, index)
        self.exact = True
        self._keep(steps, ratios.T, np.exp(log_p).T)
        return pick(log_p, index)

    def _draw(
        self, steps: Any, candidate: ActionDistribution, behavior: ActionDistribution
    ) -> FloatArray:
        rng = np.random.default_rng([_SEED, self.first_step, self.n_batches - 1])
        actions = [self.data.actions[steps], *(candidate.sample(rng) for _ in range(N_DRAWS))]
        log_p, log_b = candidate.log_probs(actions, behavior)
        ratios = _ratio(log_p, log_b)
        self.behavior_log_probs[steps], self.logged[steps] = log_b[0], ratios[0]
        self._keep(steps, ratios[1:], 1.0 / N_DRAWS)
        return np.asarray(log_p[0])

    def _keep(self, steps: Any, ratios: FloatArray, masses: FloatArray | float) -> None:
        """Keep the ratios and masses of a batch, (m, batch)."""
        if not len(self.ratios):
            shape = len(ratios), self.data.n_steps
            self.ratios, self.masses = np.empty(shape), np.empty(shape)
        self.ratios[:, steps], self.masses[:, steps] = ratios, masses

    def actions(self) -> ActionRatios:
        """Ratios of all batches."""
        return ActionRatios(self.logged, self.ratios.T, self.masses.T, self.exact)


def _ratio(log_p: FloatArray, log_b: FloatArray) -> FloatArray:
    """Importance ratios; 0 if the candidate never takes an action, infinite if only it does."""
    with np.errstate(invalid="ignore", over="ignore"):
        ratios = np.asarray(np.exp(log_p - log_b))
    ratios[log_p == -np.inf] = 0.0
    return ratios


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


def _agree(log_probs: FloatArray, data: Trajectories) -> bool:
    """Whether log-probabilities are the logged ones up to rounding."""
    try:
        check_behavior(log_probs, data)
    except BehaviorError:
        return False
    return True
