"""Cost of the callback: CPU time of `learn` with and without it.

Two runs of half a minute differ by about as much as the callback costs. The promise is therefore
about one run: its whole CPU time over what is left without the time inside the callback.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from stable_baselines3 import PPO

import ove_sb3 as ove

from .promises import record
from .tables import print_table


class TimedCallback(ove.OffPolicyVarianceCallback):
    """Callback that adds up the CPU time of its beginning and of its evaluations, in seconds.

    Other steps, which only count, are not timed: that would take longer than they do.
    """

    beginning = in_evaluations = 0.0

    def _init_callback(self) -> None:
        start = time.process_time()
        super()._init_callback()
        self.beginning += time.process_time() - start

    def _on_training_start(self) -> None:
        start = time.process_time()
        super()._on_training_start()
        self.beginning += time.process_time() - start

    def _evaluate(self) -> bool:
        start = time.process_time()
        try:
            return super()._evaluate()
        finally:
            self.in_evaluations += time.process_time() - start


def learn(n_steps: int, callback: ove.OffPolicyVarianceCallback | None) -> float:
    """CPU seconds of one training run."""
    model = PPO("MlpPolicy", "CartPole-v1", seed=1, device="cpu")
    start = time.process_time()
    model.learn(n_steps, callback=callback)
    return time.process_time() - start


def main(n_steps: int = 50_000, n_episodes: int = 2_000, repeats: int = 3) -> None:
    torch.set_num_threads(1)
    behavior = PPO("MlpPolicy", "CartPole-v1", n_steps=256, seed=0, device="cpu").learn(2_048)
    data = ove.collect(behavior, "CartPole-v1", n_episodes, n_envs=16, seed=0)

    def callback() -> TimedCallback:
        return TimedCallback(data, reward_range=(0, 1), eval_freq=10_000, verbose=0)

    learn(2_048, callback())  # compiles
    rows = []
    for _ in range(repeats):
        timed = callback()
        spent = learn(n_steps, timed)
        without = learn(n_steps, None)
        own = spent / (spent - timed.beginning - timed.in_evaluations)
        rows.append(
            [without, spent, spent / without, own, timed.in_evaluations / timed.n_evaluations]
        )
    medians = np.median(rows, axis=0)
    record("callback", medians[3])
    print_table(
        f"PPO.learn({n_steps:,}) on CartPole, evaluated every 10,000 steps and at the end from "
        f"{n_episodes:,} episodes ({data.n_steps:,} steps), CPU seconds",
        ["", "without", "with callback", "ratio", "ratio within one run", "one evaluation"],
        [
            [
                f"medians of {repeats}",
                *(f"{seconds:.2f}" for seconds in medians[:2]),
                *(f"{value:.3f}" for value in medians[2:]),
            ]
        ],
        name="callback",
    )


if __name__ == "__main__":
    main()
