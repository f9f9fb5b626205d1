"""Draw the pictures of environments.md: ``python docs/draw_environments.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from matplotlib.image import imsave

import ove_sb3.envs as envs

IMAGES = Path(__file__).parent / "images"


def draw(env_id: str, actions: list[Any], seed: int) -> None:
    """Save what the environment shows after these actions."""
    env = gym.make(env_id, render_mode="rgb_array")
    env.reset(seed=seed)
    for action in actions:
        env.step(action)
    name = env_id.split("/")[1].split("-")[0].lower()
    imsave(IMAGES / f"{name}.png", np.asarray(env.render()))


def main() -> None:
    """Draw all of them."""
    IMAGES.mkdir(exist_ok=True)
    draw("ove_sb3/Gridworld-v0", [7], seed=0)
    draw("ove_sb3/Recommender-v0", [1], seed=0)
    draw("ove_sb3/Diabetes-v0", [envs.DiabetesEnv().dosing.action(18.0, 35.0)], seed=3)


if __name__ == "__main__":
    main()
