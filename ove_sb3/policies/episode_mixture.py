"""Action distributions of a mixture whose component is drawn once per episode.

Given the actions so far, component i has acted with probability proportional to
``alpha_i exp(l_i)``, where ``l_i`` is the log-likelihood of these actions under component i. So the
next action has the distribution of a mixture with these weights, and the probability of a whole
episode is ``sum_i alpha_i exp(l_i)``, whatever its length. The importance weight of component i is
then at most ``1 / alpha_i``, and so is every partial product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from typing_extensions import override

from ove_sb3._validation import FloatArray, IntArray, as_generator
from ove_sb3.core.steps import running_sums
from ove_sb3.errors import InvalidInputError

from .distribution import ActionDistribution, Mixture, Rng, draw_choices

COMPONENT_LOG_PROBS = "component_log_probs"
"""Logged column: log-probability of every action under every component, (n_steps, K)."""


@dataclass(frozen=True)
class EpisodeState:
    """State of a mixture whose component is drawn per episode, for n environments.

    Attributes
    ----------
    log_likelihoods : ndarray, (n, K)
        Log-likelihood of the actions of the episode so far under every component.
    chosen : ndarray of int64, (n,)
        Component that acts; -1 where the mixture did not draw the actions itself.
    components : tuple
        State of every component.
    """

    log_likelihoods: FloatArray
    chosen: IntArray
    components: tuple[Any, ...]

    @classmethod
    def begin(cls, n: int, n_components: int) -> EpisodeState:
        """State before the first step of n episodes."""
        return cls(np.zeros((n, n_components)), np.full(n, -1), (None,) * n_components)

    def restarted(self, start: NDArray[np.bool_] | None) -> EpisodeState:
        """New episodes where `start` is True; the components restart by themselves."""
        if start is None or not start.any():
            return self
        likelihoods = np.where(start[:, None], 0.0, self.log_likelihoods)
        return EpisodeState(likelihoods, np.where(start, -1, self.chosen), self.components)


class EpisodeMixture(Mixture):
    """Distribution of the next action, given those of the episode so far.

    Parameters
    ----------
    components : sequence of ActionDistribution
        Of the same n observations.
    log_weights : ndarray, (K,)
    before : EpisodeState
        State of the episode before this action.
    """

    def __init__(
        self,
        components: Sequence[ActionDistribution],
        log_weights: FloatArray,
        before: EpisodeState,
    ) -> None:
        joint = log_weights + before.log_likelihoods
        super().__init__(components, joint - logsumexp(joint, axis=1, keepdims=True))
        self._prior, self._before = log_weights, before
        self._chosen = before.chosen
        self._drawn: NDArray[Any] | None = None

    @override
    def sample(self, rng: Rng = None) -> NDArray[Any]:
        rng = as_generator(rng)
        new = self._before.chosen < 0
        drawn = draw_choices(self.log_weights, rng)
        self._chosen = np.where(new, drawn, self._before.chosen)
        draws = np.stack([component.sample(rng) for component in self.components])
        actions = np.asarray(draws[self._chosen, np.arange(len(self))])
        self._remember(actions)
        self._drawn = actions
        return actions

    @override
    def log_prob(self, actions: ArrayLike) -> FloatArray:
        """Log-probability given the earlier actions; the state then includes these."""
        joint = self._prior + self._before.log_likelihoods
        if actions is not self._drawn:
            self._remember(actions)
        after = joint + self.columns[COMPONENT_LOG_PROBS]
        return np.asarray(logsumexp(after, axis=1) - logsumexp(joint, axis=1))

    def _remember(self, actions: ArrayLike) -> None:
        log_probs = component_log_probs(self.components, actions)
        self.columns = {COMPONENT_LOG_PROBS: log_probs}
        self.state = EpisodeState(
            self._before.log_likelihoods + log_probs,
            self._chosen,
            tuple(component.state for component in self.components),
        )


class UnrolledEpisodeMixture(Mixture):
    """Distributions of all steps of whole episodes, one after another.

    `log_prob` needs the actions of whole episodes.

    Parameters
    ----------
    components : sequence of ActionDistribution
    log_weights : ndarray, (K,)
    lengths : ndarray of int64, (n,)
    """

    def __init__(
        self, components: Sequence[ActionDistribution], log_weights: FloatArray, lengths: IntArray
    ) -> None:
        super().__init__(components, log_weights)
        self._prior, self._lengths = log_weights, lengths

    @override
    def sample(self, rng: Rng = None) -> NDArray[Any]:
        raise InvalidInputError(
            "`sample` must be called step by step for a policy that is drawn once per episode."
        )

    @override
    def log_prob(self, actions: ArrayLike) -> FloatArray:
        """Log-probability of every action given the earlier ones of its episode."""
        log_probs = component_log_probs(self.components, actions)
        return episode_log_probs(log_probs, self._prior, self._lengths)


def component_log_probs(components: Sequence[ActionDistribution], actions: ArrayLike) -> FloatArray:
    """Log-probability of every action under every component, (n, K)."""
    return np.stack([component.log_prob(actions) for component in components], axis=1)


def episode_log_probs(
    log_probs: FloatArray, log_weights: FloatArray, lengths: IntArray
) -> FloatArray:
    """Conditional log-probabilities of the mixture, (n_steps,), from those of the components.

    Parameters
    ----------
    log_probs : ndarray, (n_steps, K)
        Of every step under every component.
    log_weights : ndarray, (K,)
    lengths : ndarray of int64, (n,)
    """
    totals = logsumexp(running_sums(log_probs, lengths) + log_weights, axis=1)
    starts = np.cumsum(lengths) - lengths
    before = np.concatenate([[0.0], totals[:-1]])
    before[starts] = logsumexp(log_weights)
    return np.asarray(totals - before)


def component_log_ratios(
    log_probs: FloatArray, log_weights: FloatArray, lengths: IntArray, component: int
) -> FloatArray:
    """Log-ratios of one component to the mixture, (n_steps,), from one evaluation of both.

    Their partial sums are ``l_i - log sum_k alpha_k exp(l_k) <= -log(alpha_i)``.
    """
    likelihoods = running_sums(log_probs, lengths)
    own, mixed = likelihoods[:, component], logsumexp(likelihoods + log_weights, axis=1)
    with np.errstate(invalid="ignore"):
        sums = np.minimum(np.where(own == -np.inf, -np.inf, own - mixed), -log_weights[component])
        starts = np.cumsum(lengths) - lengths
        before = np.concatenate([[0.0], sums[:-1]])
        before[starts] = 0.0
        # After an action that the component never takes, its weight stays 0.
        return np.where(sums == -np.inf, np.where(before == -np.inf, 0.0, -np.inf), sums - before)
