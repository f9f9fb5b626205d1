"""Evaluate a new policy from the log of the one in use.

A PPO model that was trained for a while controls CartPole; one that was trained longer is the
candidate. The mean and the variance of the candidate's return are estimated from the log of the
first model, before the candidate is deployed.
"""

from __future__ import annotations

from stable_baselines3 import PPO

import ove_sb3 as ove


def main() -> None:
    """Train, log, evaluate."""
    behavior = PPO("MlpPolicy", "CartPole-v1", n_steps=256, seed=0, device="cpu").learn(1_024)
    data = ove.collect(
        behavior, "CartPole-v1", n_episodes=1_000, n_envs=8, seed=1, reward_range=(0, 1)
    )
    print(data)

    candidate = PPO("MlpPolicy", "CartPole-v1", n_steps=256, seed=0, device="cpu").learn(1_536)
    result = ove.evaluate(data, candidate, gamma=0.95, simultaneous=True)
    print(result)
    for verdict in result.check_all("mean >= 17", "variance <= 6"):
        print(verdict)

    # For comparison: run the candidate itself.
    returns = ove.collect(candidate, "CartPole-v1", 1_000, n_envs=8, seed=2).returns(0.95)
    print(f"on-policy: mean {returns.mean():.3g}, variance {returns.var():.3g}")


if __name__ == "__main__":
    main()
