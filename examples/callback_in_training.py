"""Evaluate a model during training, and stop once its requirements are proven.

The log is that of a policy that acts at random. From this log alone, the callback bounds the mean
and the variance of the return of a PPO model every few hundred steps of training. All bounds of the
run hold simultaneously with probability at least 0.95.
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
    """Log, train, and load the best model."""
    data = ove.collect(
        ove.UniformPolicy(spaces.Discrete(2)), "CartPole-v1", 2_000, n_envs=16, seed=0
    )
    returns = data.returns(GAMMA)
    print(f"behavior: mean {returns.mean():.3g}, variance {returns.var():.3g}")
    with tempfile.TemporaryDirectory() as folder:
        callback = ove.OffPolicyVarianceCallback(
            data,
            reward_range=(0, 1),
            gamma=GAMMA,
            eval_freq=256,
            log_path=folder,
            best_model_save_path=folder,
            requirements=["mean >= 8.7", "variance <= 4.5"],
            callback_after_eval=ove.StopTrainingOnRequirements(verbose=1),
        )
        model = PPO("MlpPolicy", "CartPole-v1", n_steps=256, seed=0, device="cpu")
        model.learn(2_560, callback=callback)
        with np.load(Path(folder) / "evaluations.npz") as rows:
            for steps, lower, upper in zip(
                rows["timesteps"], rows["mean_lower"], rows["variance_upper"], strict=True
            ):
                print(f"{steps:5d} steps: mean >= {lower:.3g}, variance <= {upper:.3g}")
        best = PPO.load(Path(folder) / "best_model", device="cpu")

    # For comparison: run the saved model itself.
    returns = ove.collect(best, "CartPole-v1", 500, n_envs=8, seed=1).returns(GAMMA)
    print(f"on-policy: mean {returns.mean():.3g}, variance {returns.var():.3g}")


if __name__ == "__main__":
    main()
