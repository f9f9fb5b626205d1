"""Continuous actions: a SAC on Pendulum, judged by a log in which it took part.

Over many steps of continuous control importance weights explode, unless the log was made with the
evaluation in mind. Here every episode is played by the candidate with probability one half, and by
a uniform policy otherwise. The behavior is that mixture, whoever played: no weight can exceed 2,
and the guaranteed bounds become narrow.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3 import SAC

import ove_sb3 as ove

HORIZON = 25  # steps of an episode
ALPHA = 0.5  # share of the episodes played by the candidate
WORST = np.pi**2 + 0.1 * 8.0**2 + 0.001 * 2.0**2  # largest cost of a step


def make_env() -> gym.Env[Any, Any]:
    """A short Pendulum with rewards scaled to [0, 1]."""
    env: gym.Env[Any, Any] = gym.make("Pendulum-v1", max_episode_steps=HORIZON)
    return gym.wrappers.TransformReward(env, lambda reward: 1.0 + float(reward) / WORST)


def mixture_log_probs(
    data: ove.Trajectories, candidate: np.ndarray, other: np.ndarray
) -> np.ndarray:
    """Log-probabilities of the mixture by episode, given those of its two parts, (n_steps,).

    The probability of an episode so far is ``alpha * candidate + (1 - alpha) * other``; that of a
    step is its quotient to the step before.
    """
    so_far = np.zeros((2, data.n_steps))
    for start, length in zip(data.starts, data.lengths, strict=True):
        steps = slice(start, start + length)
        so_far[:, steps] = np.cumsum([candidate[steps], other[steps]], axis=1)
    mixture = np.logaddexp(np.log(ALPHA) + so_far[0], np.log(1 - ALPHA) + so_far[1])
    before = np.concatenate([[0.0], mixture[:-1]])
    before[data.starts] = 0.0
    return np.asarray(mixture - before)


def main() -> None:
    """Train a candidate, log the mixture, judge the candidate."""
    candidate = SAC("MlpPolicy", make_env(), learning_starts=200, seed=0, device="cpu")
    candidate.learn(500)
    uniform = ove.UniformPolicy(candidate.action_space)

    n = 400
    n_candidate = int(np.random.default_rng(0).binomial(n, ALPHA))
    data = ove.Trajectories.concat(
        [
            ove.collect(candidate, make_env(), n_candidate, seed=1),
            ove.collect(uniform, make_env(), n - n_candidate, seed=2),
        ]
    )
    print(data)
    log_probs = ove.log_prob(candidate, data)
    behavior = mixture_log_probs(data, log_probs, ove.log_prob(uniform, data))
    stats = ove.trajectory_statistics(
        log_probs - behavior, data.rewards, data.lengths, gamma=1.0, horizon=HORIZON
    )
    print(f"largest weight {stats.weights.max():.3f}, by construction at most {1 / ALPHA:g}")
    estimate = ove.estimate_mean(stats, estimator="crossfit")
    print(f"mean {estimate:.3g}, variance {ove.estimate_variance(stats):.3g}")
    print(ove.variance_interval(stats, reward_range=(0, 1)))
    print(ove.variance_interval(stats, reward_range=(0, 1), max_weight=1 / ALPHA))

    # What the candidate does in truth, which one would not know.
    returns = ove.collect(candidate, make_env(), 400, seed=3).returns()
    print(f"in truth: mean {returns.mean():.3g}, variance {returns.var():.3g}")


if __name__ == "__main__":
    main()
