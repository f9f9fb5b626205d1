"""Built-in policies: uniform, tables of probabilities, softmax.

They act through ``predict``, like a model of stable-baselines3, and need neither it nor torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray
from typing_extensions import override

from ove_sb3._validation import FloatArray, IntArray, as_generator, check_real
from ove_sb3.errors import PLACE, InvalidInputError, UnsupportedPolicyError

from .discrete import Categorical, log_softmax
from .dispatch import as_policy
from .distribution import ActionDistribution
from .fingerprint import Part, space_parts, value_parts
from .observations import Observation, as_batch, guess_batch
from .policy import (
    NO_CONTEXT,
    HasActionValues,
    Policy,
    PolicyContext,
    fingerprint_parts_of,
    mutable_parts_of,
    origins_of,
)
from .uniform import n_actions, uniform_distribution


class BuiltInPolicy(Policy):
    """A policy of this package, with ``predict`` and a random generator of its own.

    Parameters
    ----------
    observation_space : gymnasium.Space or None
        None if the policy takes any observation.
    action_space : gymnasium.Space
    rng : int, Generator or None
        Random generator of `predict`.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any] | None,
        action_space: spaces.Space[Any],
        rng: int | np.random.Generator | None,
    ) -> None:
        self.observation_space = observation_space  # type: ignore[assignment]
        self.action_space = action_space
        self._rng = as_generator(rng)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = False,
        action_masks: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[Any], Any]:
        """Draw actions, as ``predict`` of stable-baselines3 models does.

        Parameters
        ----------
        observation : array_like or dict of such
            One observation, or a batch of them with a leading axis. The shape of the observation
            space decides which, as in stable-baselines3. Without an observation space, arrays of
            at most one dimension (or dicts of such) are one observation, all others a batch.
        state : object, optional
            State returned by the previous call, for policies with memory.
        episode_start : ndarray of bool, (n,), optional
            Where an episode begins and the memory is reset.
        deterministic : bool
            Take the most probable action; not for a Box.
        action_masks : ndarray of bool, (n, n_choices), optional
            Required for policies with action masks.

        Returns
        -------
        actions : ndarray
            One action, or a batch of them, (n, ...).
        state : object
            State to pass to the next call; None for policies without memory.
        """
        if self.observation_space is None:
            batch = guess_batch(observation)
        else:
            batch = as_batch(observation, self.observation_space)
        context = PolicyContext(action_masks, state, episode_start)
        distribution = self.distribution(batch.observations, context)
        next_state = distribution.state
        if deterministic:
            distribution = distribution.deterministic()
        actions = distribution.sample(self._rng)
        if next_state is None:  # known only after the draw
            next_state = distribution.state
        return (actions[0] if batch.single else actions), next_state

    @override
    def generators(self) -> Iterable[tuple[Any, Any]]:
        return ((self._rng, self._rng.bit_generator.state),)

    @override
    def mutable_parts(self) -> Iterator[Part]:
        yield from space_parts(self.action_space)
        yield from self.fingerprint_parts()


class UniformPolicy(BuiltInPolicy):
    """Every action with the same probability, or density on a bounded Box.

    Parameters
    ----------
    action_space : gymnasium.Space
        Discrete, MultiDiscrete, MultiBinary or a bounded Box.
    observation_space : gymnasium.Space, optional
        Needed by `predict` to tell one observation from a batch, unless one observation is a
        vector.
    rng : int, Generator or None
        Random generator of `predict`.

    Examples
    --------
    >>> import numpy as np
    >>> from gymnasium import spaces
    >>> from ove_sb3 import UniformPolicy
    >>> policy = UniformPolicy(spaces.Discrete(2), rng=0)
    >>> action, _ = policy.predict(np.zeros(4))
    >>> actions, _ = policy.predict(np.zeros((3, 4)))
    >>> action.shape, actions.shape
    ((), (3,))
    """

    def __init__(
        self,
        action_space: spaces.Space[Any],
        observation_space: spaces.Space[Any] | None = None,
        *,
        rng: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, rng)
        uniform_distribution(action_space, 1)  # refuses spaces without a uniform distribution

    @override
    def distribution(
        self, observations: Observation, context: PolicyContext = NO_CONTEXT
    ) -> ActionDistribution:
        rows = next(iter(observations.values())) if isinstance(observations, dict) else observations
        return uniform_distribution(self.action_space, len(rows))

    @property
    @override
    def min_probability(self) -> float:
        return 1.0 / n_actions(self.action_space)

    @property
    @override
    def max_probability(self) -> float:
        return self.min_probability or 1.0

    @override
    def fingerprint_parts(self) -> Iterator[Part]:
        yield from space_parts(self.action_space)


class TabularPolicy(BuiltInPolicy):
    """Table of action probabilities by state, for a Discrete observation space.

    Parameters
    ----------
    probabilities : array_like, (n_states, n_actions)
        Rows add up to 1.
    rng : int, Generator or None
        Random generator of `predict`.
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
                f"{table[row].tolist()} at {PLACE} ({int(bad.sum())} of {len(table)} rows).",
                row=row,
            )
        super().__init__(spaces.Discrete(len(table)), spaces.Discrete(table.shape[1]), rng)
        with np.errstate(divide="ignore"):
            self.log_p = np.log(table / table.sum(axis=1, keepdims=True))

    @override
    def distribution(
        self, observations: Observation, context: PolicyContext = NO_CONTEXT
    ) -> ActionDistribution:
        log_p = self.log_p[_states(observations, len(self.log_p))]
        return Categorical(log_p, self.action_space)  # type: ignore[arg-type]

    @property
    @override
    def min_probability(self) -> float:
        return float(np.exp(self.log_p.min()))

    @property
    @override
    def max_probability(self) -> float:
        return float(np.exp(self.log_p.max()))

    @override
    def fingerprint_parts(self) -> Iterator[Part]:
        yield from value_parts(self.log_p)


class SoftmaxPolicy(BuiltInPolicy):
    """Probabilities proportional to exp(preference / temperature).

    Parameters
    ----------
    preferences : array_like, (n_states, n_actions), or DQN or QRDQN model
        A table for a Discrete observation space, or a model whose action values are used.
    temperature : float
        Positive; small values are greedy.
    rng : int, Generator or None
        Random generator of `predict`.
    """

    def __init__(
        self,
        preferences: Any,
        temperature: float = 1.0,
        *,
        rng: int | np.random.Generator | None = None,
    ) -> None:
        self.temperature = check_real(temperature, "temperature", 0.0, np.inf, closed=False)
        self._model: Policy | None = None
        self._table: FloatArray | None = None
        if hasattr(preferences, "predict"):
            model = as_policy(preferences, exploration=False)
            if not isinstance(model, HasActionValues):
                raise UnsupportedPolicyError(
                    "`preferences` must be a table or a model with action values (DQN, QRDQN), "
                    f"got {type(preferences).__name__}."
                )
            self._model = model
            super().__init__(model.observation_space, model.action_space, rng)
            self.origins = origins_of(model)
            return
        table = np.asarray(preferences, dtype=np.float64)
        if table.ndim != 2 or not np.isfinite(table).all():
            raise InvalidInputError(
                "`preferences` must be a table (n_states, n_actions) of finite numbers, got shape "
                f"{table.shape}."
            )
        self._table = table
        super().__init__(spaces.Discrete(len(table)), spaces.Discrete(table.shape[1]), rng)

    @override
    def distribution(
        self, observations: Observation, context: PolicyContext = NO_CONTEXT
    ) -> ActionDistribution:
        if isinstance(self._model, HasActionValues):
            values = self._model.action_values(observations).astype(np.float64)
        else:
            assert self._table is not None
            values = self._table[_states(observations, len(self._table))]
        log_p = log_softmax(values / self.temperature)
        return Categorical(log_p, self.action_space)  # type: ignore[arg-type]

    @property
    def has_model(self) -> bool:
        """Whether the preferences are those of a model, not a table."""
        return self._model is not None

    @override
    def fingerprint_parts(self) -> Iterator[Part]:
        yield from value_parts(self.temperature)
        if self._model is not None:
            yield from fingerprint_parts_of(self._model)
        else:
            yield from value_parts(self._table)

    @override
    def mutable_parts(self) -> Iterator[Part]:
        yield from super().mutable_parts()
        if self._model is not None:
            yield from mutable_parts_of(self._model)


def _states(observations: Observation, n_states: int) -> IntArray:
    """Observations of a Discrete space as rows of a table, (n,)."""
    states = np.asarray(observations).reshape(len(observations))
    if ((states < 0) | (states >= n_states)).any():
        raise InvalidInputError(
            f"`observations` must be states from 0 to {n_states - 1}, got {states.min()} to "
            f"{states.max()}."
        )
    return states.astype(np.int64)
