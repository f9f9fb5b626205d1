"""Candidates: models, policies or arrays, and how they score the logged actions."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ove_sb3._validation import FloatArray, as_float_vector, check_flag
from ove_sb3.core.steps import StepScores
from ove_sb3.core.truncation import truncated_columns
from ove_sb3.data.log import LogLike
from ove_sb3.data.metadata import Metadata
from ove_sb3.data.trajectories import DISCRETE_KINDS, Trajectories
from ove_sb3.errors import BehaviorError, InvalidInputError
from ove_sb3.policies.provenance import Provenance

from .model_files import check_normalizer, load_model, load_normalizer

if TYPE_CHECKING:
    from ove_sb3.policies.ratio_bounds import RatioBound


class Candidate(Protocol):
    """Anything that gives the log-probability of logged actions."""

    @property
    def label(self) -> str:
        """Display name."""

    def score(self, chunk: Trajectories, first_step: int) -> StepScores:
        """Scores of every step of the chunk, which begins at `first_step` of the log."""


@dataclass(frozen=True)
class KnownLogProbs:
    """Log-probabilities computed elsewhere, one per logged step from `first_step` on."""

    log_probs: FloatArray
    first_step: int = 0
    label: str = "the candidate"

    def part(self, first: int, last: int) -> KnownLogProbs:
        """The entries of the steps from `first` to `last`."""
        return KnownLogProbs(self.log_probs[first:last], first, self.label)

    def score(self, chunk: Trajectories, first_step: int) -> StepScores:
        """Log-ratios of the given log-probabilities."""
        begin = first_step - self.first_step
        return StepScores(self.log_probs[begin : begin + chunk.n_steps] - chunk.log_probs)


@dataclass(frozen=True)
class LoggedBehavior:
    """The behavior itself: all ratios are 1."""

    label: str = "the behavior"

    def score(self, chunk: Trajectories, first_step: int) -> StepScores:
        """Log-ratios of 0."""
        del first_step
        return StepScores(np.zeros(chunk.n_steps))


@dataclass(frozen=True)
class PolicyCandidate:
    """A model or policy whose action distribution is known."""

    policy: Any
    deterministic: bool
    label: str
    name: str = "candidate"
    behavior: Any = None
    file: str | None = None

    @property
    def ratio_bound(self) -> RatioBound | None:
        """Bound on the ratio of a step that the policies imply, if the behavior is known."""
        if self.behavior is None:
            return None
        from ove_sb3.policies.ratio_bounds import ratio_bound

        return ratio_bound(self.policy, self.behavior, deterministic=self.deterministic)

    def score(self, chunk: Trajectories, first_step: int) -> StepScores:
        """Log-ratios from one forward pass over the chunk, in batches.

        In one thread: several split a matrix product in ways that can change its last bits.
        """
        import torch

        n_threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return self._score(chunk, first_step)
        except BehaviorError:
            raise
        except InvalidInputError as error:
            message = f"`{self.name}` does not fit the log: {error.args[0]}"
            raise InvalidInputError(
                message, episode=error.episode, step=error.step, row=error.row
            ) from error
        finally:
            torch.set_num_threads(n_threads)

    def _score(self, chunk: Trajectories, first_step: int) -> StepScores:
        if self.behavior is None:
            from ove_sb3.policies.log_prob import log_prob

            log_probs = log_prob(
                self.policy, chunk, deterministic=self.deterministic, progress=False
            )
            return StepScores(log_probs - chunk.log_probs)
        from ove_sb3.policies.known_behavior import score_known_behavior

        scores = score_known_behavior(
            self.policy,
            self.behavior,
            chunk,
            deterministic=self.deterministic,
            first_step=first_step,
        )
        columns = truncated_columns(scores.actions, chunk.lengths)
        return StepScores(scores.log_probs - chunk.log_probs, columns=columns)


def as_behavior(
    behavior: Any,
    *,
    metadata: Metadata,
    model_class: Any = None,
    vec_normalize: Any = None,
    safe_load: bool = False,
) -> Any:
    """The policy that wrote the log, from what the caller passed as `behavior`; None if None."""
    if behavior is None:
        return None
    if metadata.adaptive:
        raise InvalidInputError(
            "`behavior` must be None for a log whose behavior changed while it was written: no "
            "single policy has its probabilities. Leave it out; the logged probabilities are used."
        )
    if metadata.assigned:
        raise InvalidInputError(
            "`behavior` must be None for episodes that were assigned to several policies: their "
            "shares are those of the episodes that are evaluated, not those of a policy. Leave it "
            "out; the weights are bounded already."
        )
    if isinstance(behavior, (bool, int, float, np.ndarray, list, tuple)):
        raise InvalidInputError(
            "`behavior` must be a model, a policy or the path of a saved model, whose "
            f"probabilities of all actions are known, got {type(behavior).__name__}."
        )
    if is_path(behavior):
        behavior = load_model(behavior, model_class, "behavior", safe_for=safe_load and metadata)
    from ove_sb3.policies.dispatch import as_given_policy

    policy = as_given_policy(behavior, load_normalizer(vec_normalize, safe=safe_load))
    _refuse_drawn_per_episode(policy, "behavior")
    if policy.has_noise_state:
        raise InvalidInputError(
            "`behavior` must not have Ornstein-Uhlenbeck noise: the state of its noise was not "
            "logged. Leave it out; the logged probabilities are used."
        )
    return policy


@dataclass(frozen=True)
class ComponentCandidate:
    """A component of the mixture that wrote the log, drawn once per episode.

    Its likelihood was logged beside the mixture's, so that the weight of an episode is at most 1
    over the policy's share, whatever its length.

    Attributes
    ----------
    policy : Policy or None
        None where its action distribution is not needed.
    index : int
        Number of the policy in the mixture.
    weights : tuple of float
        Shares of all policies.
    label : str
    file : str or None
        Path of the model, if it was loaded.
    """

    policy: Any
    index: int
    weights: tuple[float, ...]
    label: str
    file: str | None = None

    @property
    def max_weight(self) -> float:
        """Bound on the weight of an episode and on every partial product."""
        return 1.0 / self.weights[self.index]

    def score(self, chunk: Trajectories, first_step: int) -> StepScores:
        """Log-ratios from the logged likelihoods."""
        from ove_sb3.policies.episode_mixture import COMPONENT_LOG_PROBS, component_log_ratios

        del first_step
        if COMPONENT_LOG_PROBS not in chunk.columns:
            raise InvalidInputError(
                f"`data` must have the column {COMPONENT_LOG_PROBS!r} to evaluate a policy of the "
                "mixture that wrote it. A table does not hold it: use the log itself."
            )
        log_probs, log_weights = chunk.columns[COMPONENT_LOG_PROBS], np.log(self.weights)
        return StepScores(component_log_ratios(log_probs, log_weights, chunk.lengths, self.index))


def weight_bound(candidate: Candidate) -> float | None:
    """Bound on the importance weights that follows from how the log was made, or None."""
    return candidate.max_weight if isinstance(candidate, ComponentCandidate) else None


def _component(
    policy: Any, metadata: Metadata, deterministic: bool, label: str, file: str | None
) -> Any:
    """The candidate as a component of the mixture that wrote the log; None if it is not one."""
    if not metadata.components:
        return None
    from ove_sb3.policies.deterministic import Deterministic

    acting = Deterministic(policy) if deterministic else policy
    fingerprint = acting.fingerprint()
    for index, component in enumerate(metadata.components):
        if fingerprint is not None and component["fingerprint"] == fingerprint:
            weights = tuple(float(entry["weight"]) for entry in metadata.components)
            return ComponentCandidate(acting, index, weights, label, file)
    return None


def logged_components(log: LogLike) -> list[ComponentCandidate]:
    """The policies of a mixture drawn per episode, if the log holds their action probabilities."""
    from ove_sb3.policies.episode_mixture import COMPONENT_LOG_PROBS

    entries = log.metadata.components
    if not entries or not log.n_steps:
        return []
    _, first = next(iter(log.part(0, 1).windows(1)))
    if COMPONENT_LOG_PROBS not in first.columns:
        return []
    weights = tuple(float(entry["weight"]) for entry in entries)
    return [
        ComponentCandidate(None, index, weights, str(entry["policy"]))
        for index, entry in enumerate(entries)
    ]


def provenance_of(candidate: Candidate) -> Provenance:
    """Logs that a candidate was trained on or selected by; unknown for arrays."""
    if not isinstance(candidate, (PolicyCandidate, ComponentCandidate)):
        return Provenance()
    known: Provenance = candidate.policy.provenance()
    return known


def as_candidate(
    candidate: Any,
    *,
    metadata: Metadata,
    n_steps: int,
    model_class: Any,
    vec_normalize: Any,
    deterministic: bool,
    name: str = "candidate",
    label: str | None = None,
    behavior: Any = None,
    safe_load: bool = False,
) -> Candidate:
    """Candidate from what the caller passed as `name`; it is shown as `label`.

    `behavior` is the policy that wrote the log, from `as_behavior`, or None. With `safe_load`,
    files are loaded without unpickling.
    """
    deterministic = check_flag(deterministic, "deterministic")
    if is_array(candidate):
        _check_unused(name, model_class, vec_normalize, deterministic)
        if behavior is not None:
            raise InvalidInputError(
                f"`behavior` must be None if `{name}` is an array of log-probabilities, which does "
                "not hold those of the actions that were not taken. Pass the model itself."
            )
        log_probs = _check_log_probs(candidate, metadata, n_steps, name)
        return KnownLogProbs(log_probs, label=label or "the candidate")
    if candidate is None or isinstance(candidate, (bool, int, float)):
        raise InvalidInputError(
            f"`{name}` must be a model, a policy, the path of a saved model, or an array of "
            f"log-probabilities, got {candidate!r}."
        )
    label = label or _default_label(candidate, model_class)
    file = str(candidate) if is_path(candidate) else None
    if is_path(candidate):
        check_normalizer(vec_normalize, candidate)
        candidate = load_model(candidate, model_class, name, safe_for=safe_load and metadata)
    elif model_class is not None:
        raise InvalidInputError(
            f"`model_class` must be None unless `{name}` is a path, got {model_class!r}."
        )
    from ove_sb3.policies.dispatch import as_given_policy

    policy = as_given_policy(candidate, load_normalizer(vec_normalize, safe=safe_load))
    if behavior is not None:
        _refuse_drawn_per_episode(policy, name)
    component: Candidate | None = _component(policy, metadata, bool(deterministic), label, file)
    return component or PolicyCandidate(policy, bool(deterministic), label, name, behavior, file)


def _refuse_drawn_per_episode(policy: Any, name: str) -> None:
    """Refuse a mixture drawn per episode, whose distribution depends on the earlier actions."""
    if getattr(policy, "per", "step") == "episode":
        raise InvalidInputError(
            f"`{name}` must not be a mixture that is drawn per episode if `behavior` is given, got "
            f"{type(policy).__name__}: its weights are bounded already. Leave `behavior` out."
        )


def is_path(candidate: Any) -> bool:
    """Whether a candidate or behavior is given as the path of a saved model."""
    return isinstance(candidate, (str, PathLike))


def is_array(candidate: Any) -> bool:
    """Whether a candidate is given by its log-probabilities."""
    return isinstance(candidate, (np.ndarray, list, tuple))


def _check_unused(name: str, model_class: Any, vec_normalize: Any, deterministic: bool) -> None:
    """Refuse options that would change nothing about given log-probabilities."""
    given = {
        "model_class": model_class,
        "vec_normalize": vec_normalize,
        "deterministic": deterministic or None,
    }
    for option, value in given.items():
        if value is not None:
            raise InvalidInputError(
                f"`{option}` must be left out when `{name}` is an array of log-probabilities, got "
                f"{value!r}. It would change nothing: pass the model itself, or log-probabilities "
                "that take it into account."
            )


def _default_label(candidate: Any, model_class: Any) -> str:
    if is_path(candidate):
        return f"{Path(candidate).name} ({getattr(model_class, '__name__', model_class)})"
    return type(candidate).__name__


def _check_log_probs(values: Any, metadata: Metadata, n_steps: int, name: str) -> FloatArray:
    array = as_float_vector(values, name)
    if array.shape != (n_steps,):
        raise InvalidInputError(
            f"`{name}` must hold one log-probability per logged step, shape ({n_steps},), got "
            f"{array.shape}."
        )
    at_most_0 = (metadata.action_space or {}).get("type") in DISCRETE_KINDS
    bad = np.isnan(array) | (array == np.inf)
    if at_most_0:
        bad |= array > 1e-6  # rounding of a probability of 1
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        rule = "at most 0 for discrete actions" if at_most_0 else "finite or -inf"
        raise InvalidInputError(
            f"`{name}` must hold log-probabilities, {rule}, got {array[first]} at step {first} of "
            f"the log ({int(bad.sum())} of {array.size} entries). If these are probabilities, pass "
            "np.log(p)."
        )
    return array
