"""Cost of the callback: CPU time of `learn` with and without it."""

from __future__ import annotations

import time

import torch
from stable_baselines3 import PPO

import ove_sb3 as ove

from .promises import record
from .tables import print_table


class TimedCallback(ove.OffPolicyVarianceCallback):
    """Callback that adds up the CPU time of its evaluations."""

    seconds = 0.0

    def _evaluate(self) -> bool:
        start = time.process_time()
        try:
            return super()._evaluate()
        finally:
            self.seconds += time.process_time() - start


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
    with_callback, without, evaluations = [], [], []
    for _ in range(repeats):
        timed = callback()
        with_callback.append(learn(n_steps, timed))
        without.append(learn(n_steps, None))
        evaluations.append(timed.seconds / timed.n_evaluations)
    record("callback", min(with_callback) / min(without))
    print_table(
        f"PPO.learn({n_steps:,}) on CartPole, evaluated every 10,000 steps and at the end from "
        f"{n_episodes:,} episodes ({data.n_steps:,} steps), CPU seconds",
        ["", "without", "with callback", "ratio", "one evaluation"],
        [
            [
                "least of " + str(repeats),
                f"{min(without):.2f}",
                f"{min(with_callback):.2f}",
                f"{min(with_callback) / min(without):.3f}",
                f"{min(evaluations):.3f}",
            ]
        ],
        name="callback",
    )


if __name__ == "__main__":
    main()
