"""Continuous actions: a SAC model on Pendulum, evaluated from a log of a mixture that contains it.

Importance weights explode over many steps of continuous control, unless the behavior is chosen with
the evaluation in mind. Here a coin decides for every episode whether the candidate or a uniform
policy acts. The behavior is this mixture, whichever of the two acted, so no weight
exceeds 2 and the guaranteed intervals are narrow.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3 import SAC
from stable_baselines3.common.env_util import make_vec_env

import ove_sb3 as ove

N_ENVS = 16  # environments side by side
HORIZON = 25  # steps of an episode
ALPHA = 0.5  # probability that the candidate acts in an episode
WORST = np.pi**2 + 0.1 * 8.0**2 + 0.001 * 2.0**2  # largest cost of a step


def make_env() -> gym.Env[Any, Any]:
    """Pendulum with short episodes and rewards scaled to [0, 1]."""
    env: gym.Env[Any, Any] = gym.make("Pendulum-v1", max_episode_steps=HORIZON)
    return gym.wrappers.TransformReward(env, lambda reward: 1.0 + float(reward) / WORST)


def main() -> None:
    """Train a candidate, log the mixture, evaluate the candidate."""
    candidate = SAC("MlpPolicy", make_env(), learning_starts=200, seed=0, device="cpu")
    candidate.learn(500)
    uniform = ove.UniformPolicy(candidate.action_space)

    behavior = ove.MixturePolicy([candidate, uniform], [ALPHA, 1 - ALPHA], per="episode")
    data = ove.collect(behavior, make_vec_env(make_env, N_ENVS), 400, seed=1, reward_range=(0, 1))
    print(data)
    result = ove.evaluate(data, candidate, gamma=1.0)
    assert result.stats is not None
    print(f"largest weight {result.stats.weights.max():.3f}, by construction at most {1 / ALPHA:g}")
    print(result)
    print("without the bound on the weight:")
    print(ove.variance_interval(result.stats, reward_range=(0, 1)))

    # For comparison: run the candidate itself.
    returns = ove.collect(candidate, make_vec_env(make_env, N_ENVS), 400, seed=3).returns()
    print(f"on-policy: mean {returns.mean():.3g}, variance {returns.var():.3g}")


if __name__ == "__main__":
    main()
