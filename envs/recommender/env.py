"""One-step recommender with noisy interest."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from ove_sb3._validation import check_integer
from ove_sb3.errors import InvalidInputError

from ..common.checks import (
    check_discrete_action,
    check_finite_array,
    check_limits,
    check_probabilities,
)
from ..common.env import BundledEnv
from ..common.episodes import Episodes, Moments
from ..common.policies import Policy
from ..common.types import FloatArray, Rng
from . import moments, render, simulation
from .model import Market, draw_contexts, draw_rewards


class RecommenderEnv(BundledEnv[np.int64, np.int64]):
    """A user arrives, one item is recommended, and the user's noisy interest is the reward.

    ## Description
    An episode is one recommendation. The interest of a user with context c in item a is drawn from
    ``N(mean_rewards[c, a], noise_sd[c, a]^2)`` and clipped to `reward_range`. The default follows
    the public code of Chandak et al. (2021): five items, one context, mean interests ``10 *
    rand(5)`` from numpy's ``RandomState(1)``, standard deviations ``0.1 * rand(5)`` from
    ``RandomState(0)``, clipped to [0, 10].

    ## Action Space
    ``Discrete(n_items)``: the item to recommend.

    ## Observation Space
    ``Discrete(n_contexts)``: the context of the user.

    ## Rewards
    The clipped interest, within `reward_range`.

    ## Starting State
    A context drawn with `context_probabilities`.

    ## Episode End
    - Termination: after one step (the attribute ``horizon`` is 1).

    ## Information
    ``reset`` returns ``key``, the 64-bit key of the episode. ``reset(options={"key": key})``
    replays its random numbers.

    ## Arguments

    Parameters
    ----------
    n_items, n_contexts
        Numbers of items and contexts.
    mean_rewards
        Mean interest before clipping, (n_contexts, n_items) or an array that broadcasts to it. None
        draws the means as described above, scaled to `reward_range`.
    noise_sd
        Standard deviation of the interest, of the same shape. None draws the standard deviations as
        described above, scaled to `reward_range`.
    context_probabilities
        Probability of each context, (n_contexts,); None for equal probabilities.
    reward_range
        Smallest and largest reward.
    render_mode
        ``"ansi"`` or ``"rgb_array"``.

    ## References
    Y. Chandak, S. Shankar and P. S. Thomas, "High-Confidence Off-Policy (or Counterfactual)
    Variance Estimation", AAAI 2021.

    ## Version History
    - v0: Initial version.
    """

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
        super().__init__(render_mode)
        shape = check_integer(n_contexts, "n_contexts", 1), check_integer(n_items, "n_items", 1)
        self.reward_range = low, high = check_limits(reward_range, "reward_range")
        if mean_rewards is None:
            mean_rewards = low + (high - low) * _published_uniforms(1, shape)
        if noise_sd is None:
            noise_sd = 0.01 * (high - low) * _published_uniforms(0, shape)
        if context_probabilities is None:
            context_probabilities = np.full(shape[0], 1.0 / shape[0])
        self.market = Market(
            means=check_finite_array(mean_rewards, "mean_rewards", shape),
            sds=check_finite_array(noise_sd, "noise_sd", shape),
            contexts=check_probabilities(context_probabilities, "context_probabilities", shape[:1]),
            low=low,
            high=high,
        )
        if (self.market.sds < 0).any():
            raise InvalidInputError(f"`noise_sd` must be >= 0, got {self.market.sds.min():g}.")
        self.observation_space = spaces.Discrete(shape[0])
        self.action_space = spaces.Discrete(shape[1])
        self._context = -1
        self._last: tuple[int, float] | None = None

    def _begin(self) -> np.int64:
        self._context = int(draw_contexts(self.market, np.array([self._key]))[0])
        self._last = None
        return np.int64(self._context)

    def _advance(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        item = check_discrete_action(action, self.market.means.shape[1])
        reward = float(draw_rewards(self.market, np.array([self._key]), self._context, item)[0])
        self._last = item, reward
        return np.int64(self._context), reward, True, False, {}

    def _render_text(self) -> str:
        return render.text(self.market, self._context, self._last)

    def _render_image(self) -> NDArray[np.uint8]:
        return render.image(self.market, self._context, self._last)

    def exact_moments(self, policy: ArrayLike) -> Moments:
        """Mean and variance of the reward of a tabular policy, in closed form.

        Parameters
        ----------
        policy
            Item probabilities, (n_contexts, n_items), or (n_items,) for every context.
        """
        return moments.exact_moments(self.market, policy)

    def simulate(self, policy: ArrayLike | Policy, n: int, rng: Rng = None) -> Episodes:
        """Run a batch of `n` episodes.

        Parameters
        ----------
        policy
            Item probabilities as in `exact_moments`; or a function of observations and generator
            that returns actions and their log-probabilities; or integer actions fixed in advance,
            (n,).
        n
            Number of episodes.
        rng
            Seed or generator. Episode i equals the i-th episode of this environment after
            ``reset(seed=rng)`` with the same action.
        """
        return simulation.simulate(self.market, policy, n, rng)


def _published_uniforms(seed: int, shape: tuple[int, int]) -> FloatArray:
    """Uniform numbers of the published setting, defined by numpy's legacy generator."""
    return np.random.RandomState(seed).rand(*shape)
