"""A canary release: the new policy acts in a share of the episodes, and is evaluated from all.

Episodes have up to 500 steps. The log of the old policy alone would say next to nothing about the
new one; in a canary log no importance weight exceeds 1 / share.
"""

from __future__ import annotations

from stable_baselines3 import PPO

import ove_sb3 as ove

SHARE = 0.3


def train(steps: int) -> PPO:
    """PPO model on CartPole."""
    return PPO("MlpPolicy", "CartPole-v1", n_steps=256, seed=0, device="cpu").learn(steps)


def main() -> None:
    """Train two policies, log their mixture, evaluate the new one."""
    old, new = train(512), train(2_048)
    canary = ove.MixturePolicy([old, new], [1 - SHARE, SHARE], per="episode")
    data = ove.collect(canary, "CartPole-v1", 600, seed=1, reward_range=(0, 1))
    result = ove.evaluate(data, new, gamma=0.95)
    print(result)
    for requirement in ("mean >= behavior:0", "quantile:0.05 >= 9"):
        print(result.check(requirement))

    # For comparison: run the candidate itself.
    returns = ove.collect(new, "CartPole-v1", 600, seed=2).returns(0.95)
    print(f"on-policy: mean {returns.mean():.3g}, variance {returns.var():.3g}")


if __name__ == "__main__":
    main()
