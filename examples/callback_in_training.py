"""Watching a training run: stop as soon as a better model is guaranteed, and keep that one.

The log is that of a policy that acts at random. While a PPO learns, every few hundred steps the
callback bounds mean and variance of its return by that log alone. All bounds of the run hold
together with probability 0.95.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from gymnasium import spaces
from stable_baselines3 import PPO

import ove_sb3 as ove

GAMMA = 0.9


def main() -> None:
    """Log, train, and see what was kept."""
    data = ove.collect(
        ove.UniformPolicy(spaces.Discrete(2)), "CartPole-v1", 2_000, n_envs=16, seed=0
    )
    print(
        f"logged: mean {data.returns(GAMMA).mean():.3g}, variance {data.returns(GAMMA).var():.3g}"
    )
    with tempfile.TemporaryDirectory() as folder:
        callback = ove.OffPolicyVarianceCallback(
            data,
            reward_range=(0, 1),
            gamma=GAMMA,
            eval_freq=256,
            log_path=folder,
            best_model_save_path=folder,
            min_mean=8.7,
            max_variance=4.5,
            callback_after_eval=ove.StopTrainingOnSafeVariance(verbose=1),
        )
        model = PPO("MlpPolicy", "CartPole-v1", n_steps=256, seed=0, device="cpu")
        model.learn(2_560, callback=callback)
        with np.load(Path(folder) / "evaluations.npz") as looks:
            for steps, lower, upper in zip(
                looks["timesteps"], looks["mean_lower"], looks["variance_upper"], strict=True
            ):
                print(f"{steps:5d} steps: mean >= {lower:.3g}, variance <= {upper:.3g}")
        best = PPO.load(Path(folder) / "best_model", device="cpu")
    returns = ove.collect(best, "CartPole-v1", 500, n_envs=8, seed=1).returns(GAMMA)
    print(f"the model kept, in truth: mean {returns.mean():.3g}, variance {returns.var():.3g}")


if __name__ == "__main__":
    main()
