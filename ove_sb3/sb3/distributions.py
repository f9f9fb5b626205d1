"""Laws of actions, one per observation, in double precision: the discrete families and mixtures.

Every family gives `log_prob` with respect to one common base measure, so that the ratio of any two
is an importance ratio: counting measure for Discrete, MultiDiscrete and MultiBinary; for Box see
`box_distributions`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_expit, logsumexp
from typing_extensions import override

from ove_sb3._validation import FloatArray, IntArray, as_generator
from ove_sb3.errors import InvalidInputError

Rng = int | np.random.Generator | None


class ActionDistribution(ABC):
    """Laws of the executed action for n observations, independent of each other.

    Attributes
    ----------
    action_space : gymnasium.Space
    state : object
        What a policy with memory must be given with the next observations; None without memory.
        For Ornstein-Uhlenbeck noise it is known after `sample`.
    """

    action_space: spaces.Space[Any]
    state: Any = None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def sample(self, rng: Rng = None) -> NDArray[Any]:
        """Draw one action per observation, (n, *action_shape), as the environment takes it."""

    @abstractmethod
    def log_prob(self, actions: ArrayLike) -> FloatArray:
        """Log-probability of `actions`, or log-density inside a Box, (n,) float64."""

    def deterministic(self) -> ActionDistribution:
        """The law of the most probable action, which a deterministic policy takes."""
        raise InvalidInputError(
            f"`deterministic` must be False for a {type(self.action_space).__name__} action space:"
            " a single action has no density, so no importance ratio exists. Use the stochastic "
            "policy, or give the model action noise."
        )

    @abstractmethod
    def cells(self, actions: ArrayLike) -> tuple[FloatArray, IntArray]:
        """Mean probability, and number of `actions`, of every cell that has positive probability.

        Cells are the choices of discrete actions and the bounds of a Box: where a behavior may
        have probability 0 and a candidate more, which no ratio of logged actions can show.
        """

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


class Categorical(ActionDistribution):
    """Law on Discrete(k).

    Parameters
    ----------
    log_p : ndarray, (n, k)
        Normalised log-probabilities; ``-inf`` for choices that are never taken.
    action_space : gymnasium.spaces.Discrete
    """

    def __init__(self, log_p: FloatArray, action_space: spaces.Discrete) -> None:
        self.log_p = log_p
        self.action_space = action_space

    def __len__(self) -> int:
        return len(self.log_p)

    @override
    def sample(self, rng: Rng = None) -> NDArray[Any]:
        choice = _choose(self.log_p, as_generator(rng))
        return choice + self.action_space.start  # type: ignore[attr-defined, no-any-return]

    @override
    def log_prob(self, actions: ArrayLike) -> FloatArray:
        start = int(self.action_space.start)  # type: ignore[attr-defined]
        rows = self._rows(actions)
        index = _integers(rows - start if start else rows, self.log_p.shape[1], start)
        # Flat indices into the array as `log_softmax` lays it out: half the time of pairs.
        flat = index * len(index)
        flat += np.arange(len(index))
        return self.log_p.T.ravel().take(flat)

    @override
    def cells(self, actions: ArrayLike) -> tuple[FloatArray, IntArray]:
        index = self._rows(actions).astype(np.int64) - int(self.action_space.start)  # type: ignore[attr-defined]
        return np.exp(self.log_p).mean(axis=0), np.bincount(index, minlength=self.log_p.shape[1])

    @override
    def deterministic(self) -> Categorical:
        return Categorical(point_mass(self.log_p), self.action_space)  # type: ignore[arg-type]


class MultiCategorical(ActionDistribution):
    """Law on MultiDiscrete or MultiBinary with independent components.

    Parameters
    ----------
    log_p : ndarray, (n, sum of sizes)
        Normalised log-probabilities of the components side by side.
    sizes : sequence of int
        Number of choices of every component.
    action_space : gymnasium.spaces.MultiDiscrete or MultiBinary
    """

    def __init__(
        self, log_p: FloatArray, sizes: Sequence[int], action_space: spaces.Space[Any]
    ) -> None:
        self.parts = np.split(log_p, np.cumsum(sizes)[:-1], axis=1)
        self.action_space = action_space

    def __len__(self) -> int:
        return len(self.parts[0])

    @override
    def sample(self, rng: Rng = None) -> NDArray[Any]:
        rng = as_generator(rng)
        choice = np.stack([_choose(part, rng) for part in self.parts], axis=1)
        return choice.astype(self.action_space.dtype)

    @override
    def log_prob(self, actions: ArrayLike) -> FloatArray:
        rows = self._rows(actions)
        total = np.zeros(len(self))
        for column, part in enumerate(self.parts):
            index = _integers(rows[:, column], part.shape[1], 0)
            total += part[np.arange(len(index)), index]
        return total

    @override
    def cells(self, actions: ArrayLike) -> tuple[FloatArray, IntArray]:
        rows = self._rows(actions).astype(np.int64)
        counts = [
            np.bincount(rows[:, column], minlength=part.shape[1])
            for column, part in enumerate(self.parts)
        ]
        mass = [np.exp(part).mean(axis=0) for part in self.parts]
        return np.concatenate(mass), np.concatenate(counts)

    @override
    def deterministic(self) -> MultiCategorical:
        log_p = np.concatenate([point_mass(part) for part in self.parts], axis=1)
        return MultiCategorical(log_p, [part.shape[1] for part in self.parts], self.action_space)


class Mixture(ActionDistribution):
    """Law that draws from component k with probability ``weights[k]``, anew for every observation.

    Parameters
    ----------
    components : sequence of ActionDistribution
        Laws of the same n observations on the same action space.
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
        chosen = _choose(self.log_weights, rng)
        draws = np.stack([component.sample(rng) for component in self.components])
        return np.asarray(draws[chosen, np.arange(len(self))])

    @override
    def log_prob(self, actions: ArrayLike) -> FloatArray:
        each = np.stack([component.log_prob(actions) for component in self.components], axis=1)
        return np.asarray(logsumexp(each + self.log_weights, axis=1))

    @override
    def cells(self, actions: ArrayLike) -> tuple[FloatArray, IntArray]:
        each = [component.cells(actions) for component in self.components]
        weights = np.exp(self.log_weights).mean(axis=0)
        return weights @ np.stack([mass for mass, _ in each]), each[0][1]


def log_softmax(logits: NDArray[Any], mask: NDArray[np.bool_] | None = None) -> FloatArray:
    """Normalised log-probabilities in float64; choices outside `mask` get ``-inf``."""
    # Choices along the first axis: reductions over a short last axis are several times slower.
    values = np.array(logits.T, dtype=np.float64, order="C")
    if mask is not None:
        values[~mask.T] = -np.inf
    values -= values.max(axis=0)
    total = np.exp(values).sum(axis=0)
    values -= np.log(total, out=total)
    return values.T


def log_bernoulli(logits: NDArray[Any]) -> FloatArray:
    """Log-probabilities of 0 and 1 side by side, (n, 2 k), from logits of 1, (n, k)."""
    values = logits.astype(np.float64)
    pairs = np.stack([log_expit(-values), log_expit(values)], axis=2)
    return pairs.reshape(len(values), -1)


def epsilon_greedy(greedy: IntArray, n_choices: int, epsilon: float) -> FloatArray:
    """Log-probabilities (n, k): uniform with probability epsilon, else the greedy choice."""
    p = np.full((len(greedy), n_choices), epsilon / n_choices)
    p[np.arange(len(greedy)), greedy] += 1.0 - epsilon
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p))


def point_mass(log_p: FloatArray) -> FloatArray:
    """Probability 1 on the first most probable choice."""
    return epsilon_greedy(log_p.argmax(axis=1), log_p.shape[1], 0.0)


def _choose(log_p: FloatArray, rng: np.random.Generator) -> IntArray:
    """One choice per row by the Gumbel trick, which never takes a choice of probability 0."""
    return np.asarray((log_p + rng.gumbel(size=log_p.shape)).argmax(axis=1))


def _integers(values: NDArray[Any], n_choices: int, start: int) -> IntArray:
    index = values.astype(np.int64, copy=False)
    exact = values.dtype.kind in "iu"
    # Read without a sign, negative numbers are large: one pass for both ends.
    if exact and index.size and index.view(np.uint64).max() < n_choices:
        return index
    if (bad := (index != values) | (index < 0) | (index >= n_choices)).any():
        first = int(np.flatnonzero(bad)[0])
        raise InvalidInputError(
            f"`actions` must be integers from {start} to {start + n_choices - 1}, got "
            f"{values[first] + start} at row {first} ({int(bad.sum())} of {bad.size} entries)."
        )
    return index
