"""A model that is deployed with ``deterministic=True``, evaluated on a Box action space.

The probability of exactly its action is 0 under any policy with a density. So it acts in half of
the logged episodes, as a component of a mixture.
"""

from __future__ import annotations

import gymnasium as gym
from stable_baselines3 import PPO

import ove_sb3 as ove


def main() -> None:
    """Log a mixture of the model with and without its noise, evaluate it without."""
    env = gym.make("Pendulum-v1", max_episode_steps=20)
    model = PPO("MlpPolicy", env, n_steps=256, seed=0, device="cpu").learn(512)
    deployed = ove.Deterministic(model)
    mixture = ove.MixturePolicy([model, deployed], [0.5, 0.5], per="episode")
    data = ove.collect(mixture, env, 600, seed=0, reward_range=(-16.3, 0))
    result = ove.evaluate(data, deployed, gamma=0.9, return_range=(-145, 0))
    print(result)
    print(result["variance"].interval.assumptions[-1])

    # For comparison: run the candidate itself.
    returns = ove.collect(deployed, env, 600, seed=1).returns(0.9)
    print(f"on-policy: mean {returns.mean():.4g}, variance {returns.var():.4g}")


if __name__ == "__main__":
    main()
