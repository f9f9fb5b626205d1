"""Base class of the bundled environments."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.core import ActType, ObsType
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from .checks import check_render_mode
from .streams import key_from_options


class BundledEnv(gym.Env[ObsType, ActType]):
    """Gymnasium environment with episode keys, checks of the call order, and rendering.

    A subclass implements `_begin`, `_advance`, `_render_text` and `_render_image`.

    Parameters
    ----------
    render_mode
        ``"ansi"``, ``"rgb_array"`` or None.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 1}  # noqa: RUF012 (as in Env)

    def __init__(self, render_mode: str | None) -> None:
        self.render_mode = check_render_mode(self, render_mode)
        self._key = np.uint64(0)
        self._done = True

    @abstractmethod
    def _begin(self) -> ObsType:
        """Start the episode `_key` and return its first observation."""

    @abstractmethod
    def _advance(self, action: ActType) -> tuple[ObsType, float, bool, bool, dict[str, Any]]:
        """Take one step of a running episode; returns the same values as `step`."""

    @abstractmethod
    def _render_text(self) -> str:
        """Current state as text."""

    @abstractmethod
    def _render_image(self) -> NDArray[np.uint8]:
        """Current state as an image, (height, width, 3)."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsType, dict[str, Any]]:
        """Start a new episode.

        Parameters
        ----------
        seed
            Seed of the environment's generator; None continues with the current one.
        options
            ``{"key": key}`` replays the episode whose ``reset`` returned this key.

        Returns
        -------
        observation
            First observation.
        info
            ``{"key": key}``: the 64-bit key of the episode.
        """
        super().reset(seed=seed)
        self._key = key_from_options(options, self.np_random)
        self._done = False
        return self._begin(), {"key": int(self._key)}

    def step(self, action: ActType) -> tuple[ObsType, float, bool, bool, dict[str, Any]]:
        """Take one step.

        Raises
        ------
        gymnasium.error.ResetNeeded
            If the episode has ended or has not started.
        gymnasium.error.InvalidAction
            If the action is not in the action space; the episode continues.
        """
        if self._done:
            raise ResetNeeded("The episode has ended or has not started: call `reset` first.")
        observation, reward, terminated, truncated, info = self._advance(action)
        self._done = terminated or truncated
        return observation, reward, terminated, truncated, info

    def render(self) -> str | NDArray[np.uint8] | None:
        """Current state as text (``"ansi"``) or as an image (``"rgb_array"``)."""
        if self.render_mode == "ansi":
            return self._render_text()
        if self.render_mode == "rgb_array":
            return self._render_image()
        gym.logger.warn("`render` was called on an environment without a `render_mode`.")
        return None
