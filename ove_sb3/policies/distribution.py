"""Action distributions: one distribution per observation, and mixtures of them.

All families give `log_prob` with respect to one common base measure, so that the ratio of any two
is an importance ratio: counting measure for Discrete, MultiDiscrete and MultiBinary; see `box` for
Box.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from typing_extensions import override

from ove_sb3._validation import FloatArray, IntArray, as_generator
from ove_sb3.errors import InvalidInputError

Rng = int | np.random.Generator | None


class ActionDistribution(ABC):
    """Distributions of the executed actions for n observations, independent of each other.

    Attributes
    ----------
    action_space : gymnasium.Space
    state : object
        Recurrent state or noise state to pass with the next observations; None for policies
        without memory. The state of Ornstein-Uhlenbeck noise is known after `sample`.
    columns : dict of str to ndarray, (n, ...)
        Values to log beside the log-probability, known after `log_prob`.
    """

    action_space: spaces.Space[Any]
    state: Any = None
    columns: Mapping[str, NDArray[Any]] = MappingProxyType({})

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def sample(self, rng: Rng = None) -> NDArray[Any]:
        """Draw one action per observation, (n, *action_shape), as the environment takes it."""

    @abstractmethod
    def log_prob(self, actions: ArrayLike) -> FloatArray:
        """Log-probability of `actions`, or log-density inside a Box, (n,) float64."""

    def log_probs(
        self, actions: Sequence[ArrayLike], other: ActionDistribution
    ) -> tuple[FloatArray, FloatArray]:
        """`log_prob` of several actions per observation, J of (n, ...), here and under `other`.

        Returns
        -------
        ndarray, (J, n)
        ndarray, (J, n)
        """
        own, others = ([one.log_prob(part) for part in actions] for one in (self, other))
        return np.stack(own), np.stack(others)

    def deterministic(self) -> ActionDistribution:
        """Point mass on the most probable action, which a deterministic policy takes."""
        raise InvalidInputError(
            f"`deterministic` must be False for a {type(self.action_space).__name__} action space:"
            " a single action has no density, so no importance ratio exists. Use the stochastic "
            "policy, or give the model action noise."
        )

    def point_mass(self) -> ActionDistribution:
        """Point mass on the most probable action, in a Box too, for a component of a mixture."""
        return self.deterministic()

    def mode_probability(self, actions: ArrayLike) -> tuple[NDArray[np.bool_], FloatArray] | None:
        """Whether each action is the one that ``deterministic=True`` takes, and how likely that is.

        Flags and log-probabilities of this event, both (n,). The latter are never too small. None
        if the distribution is never used deterministically.
        """
        del actions
        return None

    @abstractmethod
    def cells(self, actions: ArrayLike) -> tuple[FloatArray, IntArray]:
        """Mean probability of every cell, and the number of `actions` in it.

        Cells are the choices of discrete actions and the bounds of a Box. If the behavior has
        probability 0 in a cell and the candidate does not, no ratio of logged actions shows it.
        """

    def choices(self, actions: ArrayLike) -> tuple[FloatArray, IntArray] | None:
        """Log-probabilities of all actions, (n, k), and which of them each of `actions` is, (n,).

        None if there are too many actions, as in a Box.
        """
        del actions
        return None

    def _rows(self, actions: ArrayLike) -> NDArray[Any]:
        """`actions` as (n, *action_shape), so that (n, 1) and (n,) are never broadcast."""
        array = np.asarray(actions)
        shape = (len(self), *(self.action_space.shape or ()))
        if array.shape == shape:
            return array
        if array.size != np.prod(shape, dtype=int) or array.shape[:1] != shape[:1]:
            raise InvalidInputError(
                f"`actions` must have shape {shape}, one action of {self.action_space} per "
                f"observation, got {array.shape}."
            )
        return array.reshape(shape)


class Mixture(ActionDistribution):
    """Component k with probability ``weights[k]``, drawn independently for every observation.

    Parameters
    ----------
    components : sequence of ActionDistribution
        Distributions for the same n observations on the same action space.
    log_weights : ndarray, (K,) or (n, K)
    """

    def __init__(self, components: Sequence[ActionDistribution], log_weights: FloatArray) -> None:
        self.components = tuple(components)
        self.action_space = components[0].action_space
        self.log_weights = np.broadcast_to(log_weights, (len(components[0]), len(components)))

    def __len__(self) -> int:
        return len(self.components[0])

    @override
    def sample(self, rng: Rng = None) -> NDArray[Any]:
        rng = as_generator(rng)
        chosen = draw_choices(self.log_weights, rng)
        draws = np.stack([component.sample(rng) for component in self.components])
        return np.asarray(draws[chosen, np.arange(len(self))])

    @override
    def log_prob(self, actions: ArrayLike) -> FloatArray:
        log_probs = np.stack([component.log_prob(actions) for component in self.components], axis=1)
        return np.asarray(logsumexp(log_probs + self.log_weights, axis=1))

    @override
    def cells(self, actions: ArrayLike) -> tuple[FloatArray, IntArray]:
        cells = [component.cells(actions) for component in self.components]
        weights = np.exp(self.log_weights).mean(axis=0)
        return weights @ np.stack([mass for mass, _ in cells]), cells[0][1]

    @override
    def choices(self, actions: ArrayLike) -> tuple[FloatArray, IntArray] | None:
        parts = [component.choices(actions) for component in self.components]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        log_p = np.stack([table for table, _ in known], axis=2) + self.log_weights[:, None, :]
        return np.asarray(logsumexp(log_p, axis=2)), known[0][1]


def draw_choices(log_p: FloatArray, rng: np.random.Generator) -> IntArray:
    """Draw one choice per row of log-probabilities, (n, k) -> (n,).

    By the Gumbel trick, which never takes a choice of probability 0.
    """
    return np.asarray((log_p + rng.gumbel(size=log_p.shape)).argmax(axis=1))
