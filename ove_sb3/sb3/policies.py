"""Ready policies for the design of behaviors: uniform, mixtures, epsilon-greedy, tables, softmax.

They act through ``predict`` like a model of stable-baselines3, so that `evaluate_policy` takes them
too, and their laws are known to `collect`, `log_prob` and the wrappers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray
from typing_extensions import override

from ove_sb3.core.errors import InvalidInputError, UnsupportedPolicyError
from ove_sb3.core.validation import FloatArray, as_generator, check_real

from .dispatch import greedy_law_of, law_of
from .distributions import ActionDistribution, Categorical, Mixture, log_softmax
from .laws import GreedyLaw, Law, Masks
from .networks import Observation, check_observations
from .uniform import uniform_on


class ReadyPolicy(Law):
    """A law that also acts: SB3's ``predict`` protocol, with a random generator of its own.

    Parameters
    ----------
    observation_space : gymnasium.Space or None
        None: any observations, always with a batch dimension.
    action_space : gymnasium.Space
    rng : int, Generator or None
        Of the actions drawn by `predict`.
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
        """Draw actions for a batch of observations, or for one; return them and the next state."""
        batch, n = check_observations(observation, self.observation_space)
        law = self.distribution(
            batch, action_masks=action_masks, state=state, episode_start=episode_start
        )
        state_after = law.state
        if deterministic:
            law = law.deterministic()
        actions = law.sample(self._rng)
        given = next(iter(observation.values())) if isinstance(observation, dict) else observation
        rows: Any = next(iter(batch.values())) if isinstance(batch, dict) else batch
        single = n == 1 and np.ndim(given) < np.ndim(rows)
        return (actions[0] if single else actions), (
            law.state if state_after is None else state_after
        )


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
    def distribution(
        self,
        observations: Observation,
        *,
        action_masks: Masks | None = None,
        state: Any = None,
        episode_start: NDArray[np.bool_] | None = None,
    ) -> ActionDistribution:
        rows = next(iter(observations.values())) if isinstance(observations, dict) else observations
        return uniform_on(self.action_space, len(rows))

    @override
    def identity(self) -> Iterator[bytes]:
        yield repr(self.action_space).encode()


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
    def distribution(
        self,
        observations: Observation,
        *,
        action_masks: Masks | None = None,
        state: Any = None,
        episode_start: NDArray[np.bool_] | None = None,
    ) -> ActionDistribution:
        states = np.asarray(observations).reshape(len(observations))
        if ((states < 0) | (states >= len(self.log_p))).any():
            raise InvalidInputError(
                f"`observations` must be states from 0 to {len(self.log_p) - 1}, got "
                f"{states.min()} to {states.max()}."
            )
        return Categorical(self.log_p[states.astype(np.int64)], self.action_space)  # type: ignore[arg-type]

    @override
    def identity(self) -> Iterator[bytes]:
        yield self.log_p.tobytes()


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
    def distribution(
        self,
        observations: Observation,
        *,
        action_masks: Masks | None = None,
        state: Any = None,
        episode_start: NDArray[np.bool_] | None = None,
    ) -> ActionDistribution:
        if isinstance(self.values, GreedyLaw):
            values = self.values.values(observations).astype(np.float64)
        else:
            values = self.values[np.asarray(observations).reshape(len(observations))]
        log_p = log_softmax(values / self.temperature)
        return Categorical(log_p, self.action_space)  # type: ignore[arg-type]

    @override
    def identity(self) -> Iterator[bytes]:
        yield np.float64(self.temperature).tobytes()
        if isinstance(self.values, GreedyLaw):
            yield from self.values.identity()
        else:
            yield self.values.tobytes()


class MixturePolicy(ReadyPolicy):
    """At every step, acts as one of several policies, drawn anew with fixed weights.

    Parameters
    ----------
    policies : sequence
        Models or policies on the same spaces, see `action_distribution`.
    weights : array_like, (K,)
        Positive; they add up to 1.
    rng : int, Generator or None
        Of the actions drawn by `predict`.
    """

    def __init__(
        self,
        policies: Sequence[Any],
        weights: ArrayLike,
        *,
        rng: int | np.random.Generator | None = None,
    ) -> None:
        self.weights = np.asarray(weights, dtype=np.float64)
        self.policies = tuple(policies)
        self.laws = [law_of(policy) for policy in policies]
        if self.weights.shape != (len(self.laws),) or not self.laws:
            raise InvalidInputError(
                f"`weights` must have one entry per policy, {len(self.laws)}, got shape "
                f"{self.weights.shape}."
            )
        if not ((self.weights > 0).all() and abs(self.weights.sum() - 1.0) < 1e-9):
            raise InvalidInputError(
                f"`weights` must be positive and add up to 1, got {self.weights.tolist()}."
            )
        for law in self.laws:
            if law.action_space != self.laws[0].action_space:
                raise InvalidInputError(
                    "`policies` must share the action space, got "
                    f"{self.laws[0].action_space} and {law.action_space}."
                )
            if getattr(getattr(law, "noise", None), "has_state", False):
                raise UnsupportedPolicyError(
                    "`policies` must not have Ornstein-Uhlenbeck noise in a mixture: its state "
                    "would depend on which policy acted. Use NormalActionNoise."
                )
        known = [law.observation_space for law in self.laws if law.observation_space is not None]
        super().__init__(known[0] if known else None, self.laws[0].action_space, rng)
        self.masked = any(law.masked for law in self.laws)
        self.recurrent = any(law.recurrent for law in self.laws)

    def max_ratio(self, policy: Any) -> float:
        """Largest possible ratio of a step's probability under `policy` to that under the mixture.

        1 over its weight: pass it as ``max_ratio`` to `variance_interval` with `policy` as the
        candidate.
        """
        weight = sum(
            float(w) for own, w in zip(self.policies, self.weights, strict=True) if own is policy
        )
        if not weight:
            raise InvalidInputError(
                f"`policy` must be one of the {len(self.policies)} policies of the mixture, the "
                f"same object, got {type(policy).__name__}."
            )
        return 1.0 / weight

    @override
    def distribution(
        self,
        observations: Observation,
        *,
        action_masks: Masks | None = None,
        state: Any = None,
        episode_start: NDArray[np.bool_] | None = None,
    ) -> ActionDistribution:
        states = [None] * len(self.laws) if state is None else state
        parts = [
            law.distribution(
                observations, action_masks=action_masks, state=own, episode_start=episode_start
            )
            for law, own in zip(self.laws, states, strict=True)
        ]
        found = Mixture(parts, np.log(self.weights))
        if self.recurrent:
            found.state = tuple(part.state for part in parts)
        return found

    @override
    def roll(
        self, observations: Observation, lengths: NDArray[np.int64], action_masks: Masks | None
    ) -> ActionDistribution:
        parts = [law.roll(observations, lengths, action_masks) for law in self.laws]
        return Mixture(parts, np.log(self.weights))

    @override
    def identity(self) -> Iterable[bytes] | None:
        prints = [law.fingerprint() for law in self.laws]
        if any(each is None for each in prints):
            return None
        return [self.weights.tobytes(), *(str(each).encode() for each in prints)]


class EpsilonGreedy(ReadyPolicy):
    """Uniform with probability epsilon, else the most probable action of a policy.

    Parameters
    ----------
    policy : model or policy
        With discrete actions; DQN and QRDQN with their own exploration left out, also bare.
    epsilon : float
        In [0, 1]. Greater than 0 as a behavior, or actions are missing from the log.
    rng : int, Generator or None
        Of the actions drawn by `predict`.
    """

    def __init__(
        self, policy: Any, epsilon: float, *, rng: int | np.random.Generator | None = None
    ) -> None:
        self.law = greedy_law_of(policy)
        self.epsilon = check_real(epsilon, "epsilon", 0.0, 1.0)
        super().__init__(self.law.observation_space, self.law.action_space, rng)
        if isinstance(self.action_space, spaces.Box):
            raise UnsupportedPolicyError(
                f"`policy` must have discrete actions, got {self.action_space}: a greedy action in "
                "a Box has no density."
            )
        if self.law.masked:
            raise UnsupportedPolicyError(
                "`policy` must not be masked: a uniform choice would take invalid actions."
            )
        self.recurrent = self.law.recurrent

    @override
    def distribution(
        self,
        observations: Observation,
        *,
        action_masks: Masks | None = None,
        state: Any = None,
        episode_start: NDArray[np.bool_] | None = None,
    ) -> ActionDistribution:
        law = self.law.distribution(observations, state=state, episode_start=episode_start)
        found = self._mix(law)
        found.state = law.state
        return found

    @override
    def roll(
        self, observations: Observation, lengths: NDArray[np.int64], action_masks: Masks | None
    ) -> ActionDistribution:
        return self._mix(self.law.roll(observations, lengths, None))

    def _mix(self, law: ActionDistribution) -> ActionDistribution:
        uniform = uniform_on(self.action_space, len(law))
        with np.errstate(divide="ignore"):
            weights = np.log([self.epsilon, 1.0 - self.epsilon])
        return Mixture([uniform, law.deterministic()], weights)

    @override
    def identity(self) -> Iterable[bytes] | None:
        inner = self.law.fingerprint()
        return None if inner is None else [np.float64(self.epsilon).tobytes(), inner.encode()]
