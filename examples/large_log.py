"""A log on disk, evaluated in pieces by two processes; its steps are never all in memory.

The result is bit for bit the same as that of one process from memory.
"""

from __future__ import annotations

import tempfile

import gymnasium as gym
from stable_baselines3 import PPO

import ove_sb3 as ove


def main() -> None:
    """Write a log, open it, evaluate it twice."""
    env = gym.make("CartPole-v1")
    candidate = PPO("MlpPolicy", env, seed=1, device="cpu")
    uniform = ove.UniformPolicy(env.action_space)
    behavior = ove.MixturePolicy([candidate, uniform], [0.9, 0.1])
    with tempfile.TemporaryDirectory() as folder:
        data = ove.collect(behavior, "CartPole-v1", 1_000, seed=0, reward_range=(0, 1))
        data.save(folder)
        log = ove.open_log(folder, chunk_steps=2_000)
        print(f"{len(log)} episodes in {sum(1 for _ in log.chunks())} chunks")
        options = {"gamma": 0.95, "max_ratio": 1 / 0.9}
        result = ove.evaluate(log, candidate, **options, n_jobs=2)  # type: ignore[arg-type]
        print(result)
        in_memory = ove.evaluate(data, candidate, **options)  # type: ignore[arg-type]
        print(f"the same as in memory: {result.to_dict() == in_memory.to_dict()}")

    # For comparison: run the candidate itself.
    returns = ove.collect(candidate, "CartPole-v1", 1_000, seed=1).returns(0.95)
    print(f"on-policy: mean {returns.mean():.4g}, variance {returns.var():.4g}")


if __name__ == "__main__":
    main()
