"""Pages to look at: a policy of CartPole evaluated from the log of another."""

from __future__ import annotations

import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray

import ove_sb3 as ove


class Leaning:
    """Pushes toward the side the pole leans to, with a probability set by `sharpness`."""

    def __init__(self, sharpness: float) -> None:
        self.sharpness = sharpness

    def log_probs(self, data: ove.Trajectories) -> NDArray[np.float64]:
        """Log-probabilities of the logged actions, (n_steps,)."""
        observations = np.asarray(data.observations, dtype=np.float64)
        lean = self.sharpness * (observations[:, 2] + 0.3 * observations[:, 3])
        side = np.where(data.actions == 1, lean, -lean)
        return np.asarray(-np.logaddexp(0.0, -side))


def collect(policy: Leaning, n_episodes: int, horizon: int, seed: int) -> ove.Trajectories:
    """Episodes of CartPole, cut at `horizon` steps."""
    rng = np.random.default_rng(seed)
    env = TimeLimit(gym.make("CartPole-v1").unwrapped, horizon)
    columns: list[list[object]] = [[], [], []]
    lengths, terminated = [], []
    for _ in range(n_episodes):
        observation, _ = env.reset(seed=int(rng.integers(2**31)))
        ended, length = False, 0
        while not ended:
            lean = policy.sharpness * float(observation[2] + 0.3 * observation[3])
            action = int(rng.random() < 1.0 / (1.0 + np.exp(-lean)))
            columns[0].append(observation)
            columns[1].append(action)
            observation, reward, done, cut, _ = env.step(action)
            columns[2].append(reward)
            ended, length = done or cut, length + 1
        lengths.append(length)
        terminated.append(done)
    bare = ove.Trajectories.from_arrays(
        observations=np.array(columns[0]),
        actions=np.array(columns[1]),
        log_probs=np.zeros(len(columns[0])),
        rewards=np.array(columns[2], dtype=np.float64),
        lengths=lengths,
        terminated=terminated,
    )
    return ove.Trajectories.from_arrays(
        observations=bare.observations,
        actions=bare.actions,
        log_probs=policy.log_probs(bare),
        rewards=bare.rewards,
        lengths=lengths,
        terminated=terminated,
        metadata={
            "env_id": "CartPole-v1",
            "horizon": horizon,
            "reward_range": (0.0, 1.0),
            "behavior": "Leaning",
        },
    )


def write_pages(folder: Path) -> tuple[ove.Evaluation, ove.Comparison]:
    """``report.html`` and ``comparison.html``, and the results they show.

    ``nothing.html`` is the report of a log that says nothing about the candidate.
    """
    data = collect(Leaning(3.0), 3000, horizon=40, seed=0)
    candidate = Leaning(3.6).log_probs(data)
    result = ove.evaluate(data, candidate, gamma=1.0)
    result.save_html(
        folder / "report.html",
        "variance <= 80",
        "mean >= 35",
        author="Release team",
        purpose="Canary release 42",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ove.SupportWarning)
        nothing = ove.evaluate(data[:50], np.full(data[:50].n_steps, -np.inf), gamma=1.0)
    nothing.save_html(folder / "nothing.html")
    names = {f"sharpness {s:g}": Leaning(s).log_probs(data) for s in (2.5, 3.6, 6.0)}
    comparison = ove.compare(data, names, gamma=1.0)
    comparison.save_html(folder / "comparison.html", "variance <= 80")
    return result, comparison
