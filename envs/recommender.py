"""A one-step recommender: which item to show to a user whose interest is noisy."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from numpy.typing import ArrayLike, NDArray

from . import recommender_batch, recommender_render
from .checks import (
    check_count,
    check_discrete_action,
    check_finite_array,
    check_probabilities,
    check_range,
    check_render_mode,
)
from .episodes import Episodes, Moments, Policy
from .recommender_batch import Market, first_contexts, rewards_of
from .recommender_moments import exact_moments
from .streams import FloatArray, Rng, key_from_options


class RecommenderEnv(gym.Env[np.int64, np.int64]):
    """A user arrives, one item is recommended, and the user's noisy interest in it is the reward.

    ## Description
    An episode is one recommendation. The interest of a user of context c in item a is
    ``N(mean_rewards[c, a], noise_sd[c, a]^2)``, clipped to `reward_range`. The default is the
    setting of the public code of Chandak et al.: five items, one context, mean interests ``10 *
    rand(5)`` drawn from numpy's ``RandomState(1)``, noise ``0.1 * rand(5)`` from
    ``RandomState(0)``, clipped to [0, 10].

    ## Observation space
    ``Discrete(n_contexts)``: the context of the user.

    ## Action space
    ``Discrete(n_items)``: the item to recommend.

    ## Rewards
    The clipped interest, within `reward_range`.

    ## Starting state
    A context drawn with `context_probabilities`.

    ## Episode end
    Terminated after one step (``horizon`` is 1).

    ## Info
    ``key``: the 64-bit key of the episode; ``reset(options={"key": key})`` replays its randomness.

    ## Arguments

    Parameters
    ----------
    n_items, n_contexts
        Numbers of items and contexts.
    mean_rewards
        Mean interest before clipping, (n_contexts, n_items) or broadcast to it; None draws them as
        described above, scaled to `reward_range`.
    noise_sd
        Standard deviation of the interest, likewise; a hundredth of the range times ``rand`` if
        None.
    context_probabilities
        (n_contexts,); None is uniform.
    reward_range
        Smallest and largest reward.
    render_mode
        ``"ansi"`` or ``"rgb_array"`` (which needs matplotlib).

    ## Version history
    v0: first version.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 1}  # noqa: RUF012 (as in Env)
    horizon = 1

    def __init__(
        self,
        *,
        n_items: int = 5,
        n_contexts: int = 1,
        mean_rewards: ArrayLike | None = None,
        noise_sd: ArrayLike | None = None,
        context_probabilities: ArrayLike | None = None,
        reward_range: tuple[float, float] = (0.0, 10.0),
        render_mode: str | None = None,
    ) -> None:
        self.render_mode = check_render_mode(self, render_mode)
        shape = check_count("n_contexts", n_contexts), check_count("n_items", n_items)
        self.reward_range = low, high = check_range("reward_range", reward_range)
        if mean_rewards is None:
            mean_rewards = low + (high - low) * _legacy_uniforms(1, shape)
        if noise_sd is None:
            noise_sd = 0.01 * (high - low) * _legacy_uniforms(0, shape)
        if context_probabilities is None:
            context_probabilities = np.full(shape[0], 1.0 / shape[0])
        self.market = Market(
            means=check_finite_array("mean_rewards", mean_rewards, shape),
            sds=check_finite_array("noise_sd", noise_sd, shape),
            contexts=check_probabilities("context_probabilities", context_probabilities, shape[:1]),
            low=low,
            high=high,
        )
        if (self.market.sds < 0).any():
            raise ValueError(f"`noise_sd` must be >= 0, got {self.market.sds.min():g}.")
        self.observation_space = spaces.Discrete(shape[0])
        self.action_space = spaces.Discrete(shape[1])
        self._key = np.zeros(1, dtype=np.uint64)
        self._context = -1
        self._done = True
        self._last: tuple[int, float] | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """A new user; see the class for ``options`` and the info."""
        super().reset(seed=seed)
        self._key[0] = key_from_options(options, self.np_random)
        self._context = int(first_contexts(self.market, self._key)[0])
        self._done = False
        self._last = None
        return np.int64(self._context), {"key": int(self._key[0])}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Recommend an item.

        Raises
        ------
        gymnasium.error.ResetNeeded
            If the episode has ended or not begun.
        gymnasium.error.InvalidAction
            If there is no such item.
        """
        if self._done:
            raise ResetNeeded("The episode is over (or never began): call `reset` before `step`.")
        item = check_discrete_action(action, self.market.means.shape[1])
        reward = float(rewards_of(self.market, self._key, self._context, item)[0])
        self._done = True
        self._last = item, reward
        return np.int64(self._context), reward, True, False, {}

    def render(self) -> str | NDArray[np.uint8] | None:
        """The items with their mean interest, and the recommended one with its reward."""
        if self.render_mode == "ansi":
            return recommender_render.text(self.market, self._context, self._last)
        if self.render_mode == "rgb_array":
            return recommender_render.image(self.market, self._context, self._last)
        gym.logger.warn("render() was called, but no `render_mode` was given to the environment.")
        return None

    def exact_moments(self, policy: ArrayLike) -> Moments:
        """Mean and variance of the reward under a table of probabilities, in closed form.

        Parameters
        ----------
        policy
            Item probabilities, (n_contexts, n_items), or (n_items,) for all contexts alike.
        """
        return exact_moments(self.market, policy)

    def simulate(self, policy: ArrayLike | Policy, n: int, rng: Rng = None) -> Episodes:
        """Run `n` episodes at once.

        Parameters
        ----------
        policy
            Item probabilities as for `exact_moments`; or a function of observations and generator
            that returns actions and their log-probabilities; or integer actions given in
            advance, (n,).
        n
            Number of episodes.
        rng
            Seed or generator. Episode i is the i-th one of this environment after
            ``reset(seed=rng)`` under the same action.
        """
        return recommender_batch.simulate(self.market, policy, n, rng)


def _legacy_uniforms(seed: int, shape: tuple[int, int]) -> FloatArray:
    """The uniform numbers of the published setting, which numpy's legacy generator defines."""
    return np.random.RandomState(seed).rand(*shape)
