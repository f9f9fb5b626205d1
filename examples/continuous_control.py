"""Continuous actions: a SAC on Pendulum, evaluated from a log of a mixture that contains it.

Importance weights explode over many steps of continuous control, unless the behavior is chosen with
the evaluation in mind. Here the candidate plays every episode with probability one half, and a
uniform policy plays the others. The behavior is this mixture, whichever of the two played, so no
weight exceeds 2 and the guaranteed intervals are narrow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3 import SAC

import ove_sb3 as ove

HORIZON = 25  # steps of an episode
ALPHA = 0.5  # probability that the candidate plays an episode
WORST = np.pi**2 + 0.1 * 8.0**2 + 0.001 * 2.0**2  # largest cost of a step


def make_env() -> gym.Env[Any, Any]:
    """A short Pendulum with rewards scaled to [0, 1]."""
    env: gym.Env[Any, Any] = gym.make("Pendulum-v1", max_episode_steps=HORIZON)
    return gym.wrappers.TransformReward(env, lambda reward: 1.0 + float(reward) / WORST)


def mixture_log_probs(
    data: ove.Trajectories, candidate: np.ndarray, other: np.ndarray
) -> np.ndarray:
    """Log-probabilities of a mixture of whole episodes, from those of its two parts, (n_steps,).

    The actions of an episode up to a step have probability ``alpha * candidate + (1 - alpha) *
    other``. Dividing by that up to the step before gives the probability of the step.
    """
    up_to_step = np.zeros((2, data.n_steps))
    for start, length in zip(data.starts, data.lengths, strict=True):
        steps = slice(start, start + length)
        up_to_step[:, steps] = np.cumsum([candidate[steps], other[steps]], axis=1)
    mixture = np.logaddexp(np.log(ALPHA) + up_to_step[0], np.log(1 - ALPHA) + up_to_step[1])
    before = np.concatenate([[0.0], mixture[:-1]])
    before[data.starts] = 0.0
    return np.asarray(mixture - before)


def main() -> None:
    """Train a candidate, log the mixture, evaluate the candidate."""
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
    data = replace(data, log_probs=behavior)
    result = ove.evaluate(
        data, log_probs, gamma=1.0, reward_range=(0, 1), horizon=HORIZON, max_weight=1 / ALPHA
    )
    assert result.stats is not None
    print(f"largest weight {result.stats.weights.max():.3f}, by construction at most {1 / ALPHA:g}")
    print(result)
    print("without the bound on the weight:")
    print(ove.variance_interval(result.stats, reward_range=(0, 1)))

    # For comparison: run the candidate itself.
    returns = ove.collect(candidate, make_env(), 400, seed=3).returns()
    print(f"on-policy: mean {returns.mean():.3g}, variance {returns.var():.3g}")


if __name__ == "__main__":
    main()
