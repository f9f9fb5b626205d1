"""Gridworld with slippery moves and known mean and variance of the return."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from numpy.typing import ArrayLike, NDArray

from ..common.checks import check_discrete_action
from ..common.env import BundledEnv
from ..common.episodes import Episodes, Moments
from ..common.policies import Policy
from ..common.types import Rng
from . import moments, render, simulation
from .kernel import first_state, step
from .model import N_ACTIONS, build_grid, check_shape


class GridworldEnv(BundledEnv[np.int64, np.int64]):
    """Rectangular grid to cross from a start cell to a goal cell in a limited number of moves.

    ## Description
    The agent moves to one of the eight neighboring cells. With probability `slip` the action is
    replaced by one drawn uniformly from all eight. A move off the grid leaves the agent where it
    is. The 4 x 4 grid with eight actions follows Chandak et al. (2021), who do not state rewards,
    slip and horizon.

    ## Action Space
    ``Discrete(8)``:

    - 0: up
    - 1: down
    - 2: left
    - 3: right
    - 4: up and left
    - 5: up and right
    - 6: down and left
    - 7: down and right

    ## Observation Space
    ``Discrete(rows * columns)``: the cell, ``row * columns + column``, counted from the top left.
    The time is not observed.

    ## Rewards
    `goal_reward` for the move that reaches the goal, `step_reward` for every other move. The
    attribute ``reward_range`` holds both as (lower, upper).

    ## Starting State
    The cell `start`. If `start` is None, any cell except the goal, with equal probability.

    ## Episode End
    - Termination: the agent reaches the goal.
    - Truncation: the episode has lasted `horizon` moves.

    ## Information
    ``reset`` returns ``key``, the 64-bit key of the episode. ``reset(options={"key": key})``
    replays its random numbers.

    ## Arguments

    Parameters
    ----------
    shape
        Rows and columns; at least two cells.
    slip
        Probability that the action is replaced by a random move, in [0, 1].
    step_reward, goal_reward
        Reward of a move that does not reach the goal, and of the one that does.
    start
        Row and column of the first cell; None draws it at random.
    goal
        Row and column of the goal; None is the bottom right cell.
    horizon
        Maximum number of moves. ``gymnasium.make`` also sets ``env.spec.max_episode_steps`` to it.
    render_mode
        ``"ansi"`` or ``"rgb_array"``.

    ## References
    Y. Chandak, S. Shankar and P. S. Thomas, "High-Confidence Off-Policy (or Counterfactual)
    Variance Estimation", AAAI 2021.

    ## Version History
    - v0: Initial version.
    """

    metadata = {**BundledEnv.metadata, "render_fps": 4}  # noqa: RUF012 (as in Env)

    def __init__(
        self,
        *,
        shape: tuple[int, int] = (4, 4),
        slip: float = 0.2,
        step_reward: float = -0.1,
        goal_reward: float = 1.0,
        start: tuple[int, int] | None = (0, 0),
        goal: tuple[int, int] | None = None,
        horizon: int = 25,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        self.shape = check_shape(shape)
        self.grid = build_grid(self.shape, slip, step_reward, goal_reward, start, goal, horizon)
        self.horizon = self.grid.horizon
        rewards = (self.grid.step_reward, self.grid.goal_reward)
        self.reward_range = (min(rewards), max(rewards))
        self.observation_space = spaces.Discrete(self.shape[0] * self.shape[1])
        self.action_space = spaces.Discrete(N_ACTIONS)
        self._state = -1
        self._time = 0

    def _begin(self) -> np.int64:
        self._state = first_state(self.grid, self._key)
        self._time = 0
        return np.int64(self._state)

    def _advance(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        move = check_discrete_action(action, N_ACTIONS)
        self._state, reward, terminated, truncated = step(
            self.grid, self._key, self._time, self._state, move
        )
        self._time += 1
        return np.int64(self._state), reward, terminated, truncated, {}

    def _render_text(self) -> str:
        return render.text(self.shape, self._state, self.grid.goal, self._time)

    def _render_image(self) -> NDArray[np.uint8]:
        return render.image(self.shape, self._state, self.grid.goal)

    def exact_moments(self, policy: ArrayLike, gamma: float = 1.0) -> Moments:
        """Mean and variance of the return of a tabular policy, by dynamic programming.

        Parameters
        ----------
        policy
            Action probabilities, (n_states, 8), or (horizon, n_states, 8) for a time-dependent
            policy.
        gamma
            Discount factor, in [0, 1].
        """
        return moments.exact_moments(self.grid, policy, gamma)

    def simulate(self, policy: ArrayLike | Policy, n: int, rng: Rng = None) -> Episodes:
        """Run a batch of `n` episodes.

        Parameters
        ----------
        policy
            Action probabilities as in `exact_moments`; or a function of observations and generator
            that returns actions and their log-probabilities; or integer actions fixed in advance,
            (n, horizon).
        n
            Number of episodes.
        rng
            Seed or generator. Episode i equals the i-th episode of this environment after
            ``reset(seed=rng)`` with the same actions.
        """
        return simulation.simulate(self.grid, policy, n, rng)


def make_gridworld(**options: Any) -> gym.Env[np.int64, np.int64]:
    """Gridworld with a time limit equal to its horizon; the registered entry point.

    The wrapper puts the horizon into ``env.spec.max_episode_steps``.
    """
    env = GridworldEnv(**options)
    return TimeLimit(env, env.horizon)
