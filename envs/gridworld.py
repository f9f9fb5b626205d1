"""A gridworld with slippery moves whose returns have a known mean and variance."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.wrappers import TimeLimit
from numpy.typing import ArrayLike, NDArray

from . import gridworld_batch, gridworld_moments, gridworld_render
from .checks import (
    check_count,
    check_discrete_action,
    check_number,
    check_render_mode,
)
from .episodes import Episodes, Moments, Policy
from .gridworld_kernel import N_ACTIONS, Grid, first_state, next_state
from .streams import IntArray, Rng, key_from_options

#: Change of row and column of each action: up, down, left, right and the four diagonals.
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


class GridworldEnv(gym.Env[np.int64, np.int64]):
    """A rectangular grid to be crossed from a start to a goal in a limited number of moves.

    ## Description
    The agent moves to one of the eight neighbouring cells. With probability `slip` the move is
    replaced by one drawn uniformly from all eight. A move off the grid leaves the agent where it
    is. The 4 x 4 grid with its eight actions follows the gridworld of the paper on high-confidence
    off-policy variance estimation (Chandak et al., 2021), which leaves rewards, slip and horizon
    open.

    ## Observation space
    ``Discrete(rows * columns)``: the number of the cell, row by row from the top left. The time is
    not observed.

    ## Action space
    ``Discrete(8)``: 0 up, 1 down, 2 left, 3 right, 4 up-left, 5 up-right, 6 down-left, 7
    down-right.

    ## Rewards
    `goal_reward` for the move that reaches the goal, `step_reward` for every other move. Declared
    as `reward_range`.

    ## Starting state
    `start`, or any cell but the goal, equally likely, if `start` is None.

    ## Episode end
    Terminated at the goal; truncated after `horizon` moves.

    ## Info
    ``key``: the 64-bit key of the episode; ``reset(options={"key": key})`` replays its randomness.

    ## Arguments

    Parameters
    ----------
    shape
        Rows and columns, at least two cells together.
    slip
        Probability that the move is drawn at random, in [0, 1].
    step_reward, goal_reward
        Rewards of a move that does not, and does, reach the goal.
    start
        Row and column of the first cell, or None for a random one.
    goal
        Row and column of the goal; None is the bottom right cell.
    horizon
        Largest number of moves; ``gymnasium.make`` puts it into ``env.spec.max_episode_steps``.
    render_mode
        ``"ansi"`` or ``"rgb_array"``.

    ## Version history
    v0: first version.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012 (as in Env)

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
        self.render_mode = check_render_mode(self, render_mode)
        self.shape = _check_shape(shape)
        self.horizon = check_count("horizon", horizon)
        corner = (self.shape[0] - 1, self.shape[1] - 1)
        goal_cell = self._cell("goal", corner if goal is None else goal)
        slip = check_number("slip", slip, 0.0, 1.0)
        self.grid = Grid(
            destinations=_destinations(*self.shape),
            starts=self._starts(start, goal_cell),
            goal=goal_cell,
            slip=slip,
            moves_per_slip=N_ACTIONS / slip if slip else 0.0,
            step_reward=check_number("step_reward", step_reward),
            goal_reward=check_number("goal_reward", goal_reward),
            horizon=self.horizon,
        )
        rewards = (self.grid.step_reward, self.grid.goal_reward)
        self.reward_range = (min(rewards), max(rewards))
        self.observation_space = spaces.Discrete(self.shape[0] * self.shape[1])
        self.action_space = spaces.Discrete(N_ACTIONS)
        self._key = np.uint64(0)
        self._state = -1
        self._time = 0
        self._done = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Begin an episode; see the class for ``options`` and the info."""
        super().reset(seed=seed)
        self._key = key_from_options(options, self.np_random)
        self._state = first_state(self.grid, self._key)
        self._time = 0
        self._done = False
        return np.int64(self._state), {"key": int(self._key)}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Try to move.

        Raises
        ------
        gymnasium.error.ResetNeeded
            If the episode has ended or not begun.
        gymnasium.error.InvalidAction
            If the action is not an integer from 0 to 7.
        """
        if self._done:
            raise ResetNeeded("The episode is over (or never began): call `reset` before `step`.")
        move = check_discrete_action(action, N_ACTIONS)
        self._state = next_state(self.grid, self._key, self._time, self._state, move)
        self._time += 1
        terminated = self._state == self.grid.goal
        truncated = self._time >= self.horizon and not terminated
        self._done = terminated or truncated
        reward = self.grid.goal_reward if terminated else self.grid.step_reward
        return np.int64(self._state), reward, terminated, truncated, {}

    def render(self) -> str | NDArray[np.uint8] | None:
        """The grid with agent and goal, as text or as an image (rows, columns, 3)."""
        if self.render_mode == "ansi":
            return gridworld_render.text(self.shape, self._state, self.grid.goal, self._time)
        if self.render_mode == "rgb_array":
            return gridworld_render.image(self.shape, self._state, self.grid.goal)
        gym.logger.warn("render() was called, but no `render_mode` was given to the environment.")
        return None

    def exact_moments(self, policy: ArrayLike, gamma: float = 1.0) -> Moments:
        """Mean and variance of the return under a table of probabilities, by dynamic programming.

        Parameters
        ----------
        policy
            Action probabilities, (n_states, 8), or (horizon, n_states, 8) if they depend on the
            time.
        gamma
            Discount, in [0, 1].
        """
        return gridworld_moments.exact_moments(self.grid, policy, gamma)

    def simulate(self, policy: ArrayLike | Policy, n: int, rng: Rng = None) -> Episodes:
        """Run `n` episodes at once.

        Parameters
        ----------
        policy
            Action probabilities as for `exact_moments`; or a function of observations and generator
            that returns actions and their log-probabilities; or integer actions given in
            advance, (n, horizon).
        n
            Number of episodes.
        rng
            Seed or generator. Episode i is the i-th one of this environment after
            ``reset(seed=rng)`` under the same actions.
        """
        return gridworld_batch.simulate(self.grid, policy, n, rng)

    def _starts(self, start: tuple[int, int] | None, goal: int) -> IntArray:
        if start is None:
            cells = np.arange(self.shape[0] * self.shape[1])
            return np.asarray(cells[cells != goal], dtype=np.int64)
        cell = self._cell("start", start)
        if cell == goal:
            raise ValueError(f"`start` must differ from `goal`, got {start!r} for both.")
        return np.array([cell], dtype=np.int64)

    def _cell(self, name: str, place: tuple[int, int]) -> int:
        rows, columns = self.shape
        cells = np.asarray(place)
        if (
            cells.shape != (2,)
            or cells.dtype.kind not in "iu"
            or not (0 <= cells[0] < rows and 0 <= cells[1] < columns)
        ):
            raise ValueError(
                f"`{name}` must be a (row, column) inside the {rows} x {columns} grid, counted "
                f"from 0, got {place!r}."
            )
        return int(cells[0]) * columns + int(cells[1])


def make_gridworld(**options: Any) -> gym.Env[np.int64, np.int64]:
    """The registered entry point: with a time limit of the horizon, so that the spec tells it."""
    env = GridworldEnv(**options)
    return TimeLimit(env, env.horizon)


def _check_shape(shape: tuple[int, int]) -> tuple[int, int]:
    try:
        rows, columns = shape
    except (TypeError, ValueError):
        raise ValueError(f"`shape` must be (rows, columns), got {shape!r}.") from None
    rows, columns = check_count("shape[0]", rows), check_count("shape[1]", columns)
    if rows * columns < 2:
        raise ValueError(f"`shape` must have room for a start and a goal, got {shape!r}.")
    return rows, columns


def _destinations(rows: int, columns: int) -> IntArray:
    """Cell reached by each move, (rows * columns, 8)."""
    row, column = np.divmod(np.arange(rows * columns), columns)
    to_row = row[:, np.newaxis] + np.array([move[0] for move in MOVES])
    to_column = column[:, np.newaxis] + np.array([move[1] for move in MOVES])
    inside = (to_row >= 0) & (to_row < rows) & (to_column >= 0) & (to_column < columns)
    stay = np.arange(rows * columns)[:, np.newaxis]
    return np.asarray(np.where(inside, to_row * columns + to_column, stay), dtype=np.int64)
