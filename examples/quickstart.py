"""May this candidate replace the policy that is running? Answered from the running one's log.

A PPO that was trained for a while is in charge of CartPole. A copy of it that went on learning is
the candidate. The log of the first tells mean and variance of the second's return before it is
ever used.
"""

from __future__ import annotations

from stable_baselines3 import PPO

import ove_sb3 as ove


def main() -> None:
    """Train, log, judge."""
    behavior = PPO("MlpPolicy", "CartPole-v1", n_steps=256, seed=0, device="cpu").learn(1_024)
    data = ove.collect(behavior, "CartPole-v1", n_episodes=1_000, n_envs=8, seed=1)
    print(data)

    candidate = PPO("MlpPolicy", "CartPole-v1", n_steps=256, seed=0, device="cpu").learn(1_536)

    log_ratios = ove.log_prob(candidate, data) - data.log_probs
    stats = ove.trajectory_statistics(
        log_ratios, data.rewards, data.lengths, gamma=0.95, horizon=data.metadata.horizon
    )
    mean = ove.mean_interval(stats, reward_range=(0, 1), delta=0.025)
    variance = ove.variance_interval(stats, reward_range=(0, 1), delta=0.025)
    estimate = ove.estimate_mean(stats, estimator="crossfit")
    print(f"candidate: mean {estimate:.3g}, ", end="")
    print(f"variance {ove.estimate_variance(stats):.3g}")
    print(mean)
    print(variance)
    print(ove.diagnose(stats, mean, variance))

    # What the candidate does in truth, which one would not know.
    returns = ove.collect(candidate, "CartPole-v1", 1_000, n_envs=8, seed=2).returns(0.95)
    print(f"in truth: mean {returns.mean():.3g}, variance {returns.var():.3g}")


if __name__ == "__main__":
    main()
