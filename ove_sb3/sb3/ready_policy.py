"""What ready policies share: they act through ``predict``, like a model of stable-baselines3.

`evaluate_policy` takes them too, and their laws are known to `collect`, `log_prob` and the
wrappers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ove_sb3._validation import as_generator

from .laws import Given, Law
from .networks import check_observations


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
        law = self.distribution(batch, Given(action_masks, state, episode_start))
        state_after = law.state
        if deterministic:
            law = law.deterministic()
        actions = law.sample(self._rng)
        shown = next(iter(observation.values())) if isinstance(observation, dict) else observation
        rows: Any = next(iter(batch.values())) if isinstance(batch, dict) else batch
        single = n == 1 and np.ndim(shown) < np.ndim(rows)
        return (actions[0] if single else actions), (
            law.state if state_after is None else state_after
        )
