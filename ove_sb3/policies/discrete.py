"""Action distributions on Discrete, MultiDiscrete and MultiBinary, in double precision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_expit
from typing_extensions import override

from ove_sb3._validation import FloatArray, IntArray, as_generator
from ove_sb3.errors import PLACE, InvalidInputError

from .distribution import ActionDistribution, Rng, draw_choices

_MOST_CHOICES = 256  # largest number of actions that is enumerated


class Categorical(ActionDistribution):
    """Distribution on Discrete(k).

    Parameters
    ----------
    log_p : ndarray, (n, k)
        Normalized log-probabilities; ``-inf`` for choices that are never taken.
    action_space : gymnasium.spaces.Discrete
    """

    def __init__(self, log_p: FloatArray, action_space: spaces.Discrete) -> None:
        self.log_p = log_p
        self.action_space = action_space

    def __len__(self) -> int:
        return len(self.log_p)

    @override
    def sample(self, rng: Rng = None) -> NDArray[Any]:
        choice = draw_choices(self.log_p, as_generator(rng))
        return choice + self.action_space.start  # type: ignore[attr-defined, no-any-return]

    @override
    def log_prob(self, actions: ArrayLike) -> FloatArray:
        start = int(self.action_space.start)  # type: ignore[attr-defined]
        rows = self._rows(actions)
        index = _choice_index(rows - start if start else rows, self.log_p.shape[1], start)
        return pick(self.log_p, index)

    @override
    def cells(self, actions: ArrayLike) -> tuple[FloatArray, IntArray]:
        index = self._rows(actions).astype(np.int64) - int(self.action_space.start)  # type: ignore[attr-defined]
        return np.exp(self.log_p).mean(axis=0), np.bincount(index, minlength=self.log_p.shape[1])

    @override
    def choices(self, actions: ArrayLike) -> tuple[FloatArray, IntArray] | None:
        if self.log_p.shape[1] > _MOST_CHOICES:
            return None
        start = int(self.action_space.start)  # type: ignore[attr-defined]
        rows = self._rows(actions)
        rows = rows - start if start else rows
        return self.log_p, _choice_index(rows, self.log_p.shape[1], start)

    @override
    def mode_probability(self, actions: ArrayLike) -> tuple[NDArray[np.bool_], FloatArray]:
        chosen = self._rows(actions) - int(self.action_space.start)  # type: ignore[attr-defined]
        return chosen == self.log_p.argmax(axis=1), self.log_p.max(axis=1)

    @override
    def deterministic(self) -> Categorical:
        return Categorical(point_mass(self.log_p), self.action_space)  # type: ignore[arg-type]


class MultiCategorical(ActionDistribution):
    """Distribution on MultiDiscrete or MultiBinary with independent components.

    Parameters
    ----------
    log_p : ndarray, (n, sum of sizes)
        Normalized log-probabilities, the components side by side.
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
        choice = np.stack([draw_choices(part, rng) for part in self.parts], axis=1)
        return choice.astype(self.action_space.dtype)

    @override
    def log_prob(self, actions: ArrayLike) -> FloatArray:
        rows = self._rows(actions)
        total = np.zeros(len(self))
        for column, part in enumerate(self.parts):
            index = _choice_index(rows[:, column], part.shape[1], 0)
            total += pick(part, index)
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
    def choices(self, actions: ArrayLike) -> tuple[FloatArray, IntArray] | None:
        sizes = [part.shape[1] for part in self.parts]
        if math.prod(sizes) > _MOST_CHOICES:
            return None
        rows = self._rows(actions)
        table, index = np.zeros((len(self), 1)), np.zeros(len(self), np.int64)
        for column, (part, size) in enumerate(zip(self.parts, sizes, strict=True)):
            table = (table[:, :, None] + part[:, None, :]).reshape(len(self), -1)
            index = index * size + _choice_index(rows[:, column], size, 0)
        return table, index

    @override
    def mode_probability(self, actions: ArrayLike) -> tuple[NDArray[np.bool_], FloatArray]:
        modes = np.stack([part.argmax(axis=1) for part in self.parts], axis=1)
        log_p = sum(part.max(axis=1) for part in self.parts)
        return (self._rows(actions) == modes).all(axis=1), np.asarray(log_p)

    @override
    def deterministic(self) -> MultiCategorical:
        log_p = np.concatenate([point_mass(part) for part in self.parts], axis=1)
        return MultiCategorical(log_p, [part.shape[1] for part in self.parts], self.action_space)


def log_softmax(logits: NDArray[Any], mask: NDArray[np.bool_] | None = None) -> FloatArray:
    """Normalized log-probabilities in float64, (n, k); choices outside `mask` get ``-inf``."""
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
    """Log-probabilities (n, k): 1 on the first most probable choice."""
    return epsilon_greedy(log_p.argmax(axis=1), log_p.shape[1], 0.0)


def pick(table: FloatArray, index: IntArray) -> FloatArray:
    """Entry `index` of every row, (n, k) and (n,) -> (n,)."""
    # Flat indices into the array as `log_softmax` lays it out: half the time of pairs.
    flat = index * len(index)
    flat += np.arange(len(index))
    return table.T.ravel().take(flat)


def _choice_index(values: NDArray[Any], n_choices: int, start: int) -> IntArray:
    """`values`, counted from 0, as indices; the error counts from `start`."""
    index = values.astype(np.int64, copy=False)
    exact = values.dtype.kind in "iu"
    # Read without a sign, negative numbers are large: one pass for both ends.
    if exact and index.size and index.view(np.uint64).max() < n_choices:
        return index
    if (bad := (index != values) | (index < 0) | (index >= n_choices)).any():
        first = int(np.flatnonzero(bad)[0])
        raise InvalidInputError(
            f"`actions` must be integers from {start} to {start + n_choices - 1}, got "
            f"{values[first] + start} at {PLACE} ({int(bad.sum())} of {bad.size} entries).",
            row=first,
        )
    return index
