"""Ready policies that stand by themselves: uniform, tables, softmax."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike
from typing_extensions import override

from ove_sb3._validation import FloatArray, check_real
from ove_sb3.errors import InvalidInputError, UnsupportedPolicyError

from .dispatch import greedy_law_of
from .distributions import ActionDistribution, Categorical, log_softmax
from .identity import Part, of_space, of_value
from .laws import NOTHING, Given, GreedyLaw
from .networks import Observation
from .ready_policy import ReadyPolicy
from .uniform import uniform_on


class UniformPolicy(ReadyPolicy):
    """Every action with the same probability, or density on a bounded Box.

    Parameters
    ----------
    action_space : gymnasium.Space
        Discrete, MultiDiscrete, MultiBinary or a bounded Box.
    observation_space : gymnasium.Space, optional
        Only needed to `predict` for a single observation.
    rng : int, Generator or None
        Of the actions drawn by `predict`.
    """

    def __init__(
        self,
        action_space: spaces.Space[Any],
        observation_space: spaces.Space[Any] | None = None,
        *,
        rng: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, rng)
        uniform_on(action_space, 1)  # refuses spaces without a uniform law

    @override
    def distribution(self, observations: Observation, given: Given = NOTHING) -> ActionDistribution:
        rows = next(iter(observations.values())) if isinstance(observations, dict) else observations
        return uniform_on(self.action_space, len(rows))

    @override
    def identity(self) -> Iterator[Part]:
        yield from of_space(self.action_space)


class TabularPolicy(ReadyPolicy):
    """A table of action probabilities for every state.

    Parameters
    ----------
    probabilities : array_like, (n_states, n_actions)
        Rows add up to 1.
    rng : int, Generator or None
        Of the actions drawn by `predict`.
    """

    def __init__(
        self, probabilities: ArrayLike, *, rng: int | np.random.Generator | None = None
    ) -> None:
        table = np.asarray(probabilities, dtype=np.float64)
        if table.ndim != 2:
            raise InvalidInputError(
                f"`probabilities` must be a table (n_states, n_actions), got shape {table.shape}."
            )
        bad = ~((table >= 0).all(axis=1) & (np.abs(table.sum(axis=1) - 1.0) < 1e-9))
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise InvalidInputError(
                "`probabilities` must be at least 0 and add up to 1 in every row, got "
                f"{table[row].tolist()} in row {row} ({int(bad.sum())} of {len(table)} rows)."
            )
        super().__init__(spaces.Discrete(len(table)), spaces.Discrete(table.shape[1]), rng)
        with np.errstate(divide="ignore"):
            self.log_p = np.log(table / table.sum(axis=1, keepdims=True))

    @override
    def distribution(self, observations: Observation, given: Given = NOTHING) -> ActionDistribution:
        states = np.asarray(observations).reshape(len(observations))
        if ((states < 0) | (states >= len(self.log_p))).any():
            raise InvalidInputError(
                f"`observations` must be states from 0 to {len(self.log_p) - 1}, got "
                f"{states.min()} to {states.max()}."
            )
        return Categorical(self.log_p[states.astype(np.int64)], self.action_space)  # type: ignore[arg-type]

    @override
    def identity(self) -> Iterator[Part]:
        yield from of_value(self.log_p)


class SoftmaxPolicy(ReadyPolicy):
    """Probabilities proportional to exp(preference / temperature).

    Parameters
    ----------
    preferences : array_like, (n_states, n_actions), or DQN or QRDQN model
        A table for a Discrete observation space, or a model whose action values are used.
    temperature : float
        Positive; small values are greedy.
    rng : int, Generator or None
        Of the actions drawn by `predict`.
    """

    def __init__(
        self,
        preferences: Any,
        temperature: float = 1.0,
        *,
        rng: int | np.random.Generator | None = None,
    ) -> None:
        self.temperature = check_real(temperature, "temperature", 0.0, np.inf, closed=False)
        self.values: GreedyLaw | FloatArray
        if hasattr(preferences, "policy") or hasattr(preferences, "q_net"):
            law = greedy_law_of(preferences)
            if not isinstance(law, GreedyLaw):
                raise UnsupportedPolicyError(
                    "`preferences` must be a table or a model with action values (DQN, QRDQN), "
                    f"got {type(preferences).__name__}."
                )
            self.values = law
            super().__init__(law.observation_space, law.action_space, rng)
            return
        table = np.asarray(preferences, dtype=np.float64)
        if table.ndim != 2 or not np.isfinite(table).all():
            raise InvalidInputError(
                "`preferences` must be a table (n_states, n_actions) of finite numbers, got shape "
                f"{table.shape}."
            )
        self.values = table
        super().__init__(spaces.Discrete(len(table)), spaces.Discrete(table.shape[1]), rng)

    @override
    def distribution(self, observations: Observation, given: Given = NOTHING) -> ActionDistribution:
        if isinstance(self.values, GreedyLaw):
            values = self.values.values(observations).astype(np.float64)
        else:
            values = self.values[np.asarray(observations).reshape(len(observations))]
        log_p = log_softmax(values / self.temperature)
        return Categorical(log_p, self.action_space)  # type: ignore[arg-type]

    @override
    def identity(self) -> Iterator[Part]:
        yield from of_value(self.temperature)
        if isinstance(self.values, GreedyLaw):
            yield from self.values.identity()
        else:
            yield from of_value(self.values)
