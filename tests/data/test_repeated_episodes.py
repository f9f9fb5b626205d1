"""Episodes that are in a log more than once: noticed in any order, and only then."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.data.metadata import Metadata

N = 300
Parts = list[ove.Trajectories]


def bandit(n: int = N, *, seed: int = 0, few_outcomes: bool = True) -> ove.Trajectories:
    """One step per episode. With few outcomes, many different episodes are equal."""
    rng = np.random.default_rng(seed)
    rewards = rng.integers(0, 2, n).astype(float) if few_outcomes else rng.random(n)
    return ove.Trajectories.from_arrays(
        observations=np.zeros((n, 1)),
        actions=rng.integers(0, 2, n),
        log_probs=np.full(n, np.log(0.5)),
        rewards=rewards,
        lengths=np.ones(n, int),
        metadata={"reward_range": (0.0, 1.0), "horizon": 1},
    )


def cart_pole(n: int = 40, seed: int = 0) -> ove.Trajectories:
    policy = ove.UniformPolicy(gym.make("CartPole-v1").action_space)
    return ove.collect(policy, "CartPole-v1", n, seed=seed, reward_range=(0, 1), progress=False)


def guaranteed(data: ove.Trajectories) -> bool:
    result = ove.evaluate(data, data.log_probs, gamma=0.9, quantities=["mean"], approximate=None)
    return result["mean"].interval.guaranteed


def repeated(parts: Parts) -> bool:
    """Whether the log of these parts has repeated episodes; its label must agree."""
    joined = ove.Trajectories.concat(parts)
    assert guaranteed(joined) != joined.metadata.repeated_episodes
    return joined.metadata.repeated_episodes


@pytest.mark.parametrize("few_outcomes", [True, False])
def test_parts_of_several_splits(few_outcomes: bool) -> None:
    data = bandit(few_outcomes=few_outcomes)
    assert repeated([data.split(0.5, rng=k)[0] for k in range(20)])
    assert repeated([data.split(0.5, rng=0)[0], data.split(0.5, rng=1)[1]])


@pytest.mark.parametrize("few_outcomes", [True, False])
def test_a_bootstrap_sample_has_estimates_but_no_guarantee(few_outcomes: bool) -> None:
    data = bandit(few_outcomes=few_outcomes)
    sample = data[np.random.default_rng(0).integers(0, N, 10 * N)]
    assert sample.metadata.repeated_episodes
    assert not guaranteed(sample)
    assert len(sample) == 10 * N


OVERLAPPING: dict[str, Callable[[ove.Trajectories], Parts]] = {
    "whole": lambda d: [d, d],
    "slices": lambda d: [d[:20], d[19:]],
    "steps": lambda d: [d[::2], d[::3]],
    "backward": lambda d: [d[:20], d[::-1][-5:]],
    "split and slice": lambda d: [d[:30], d.split(0.5, rng=0)[0]],
    "join and slice": lambda d: [ove.Trajectories.concat([d[:10], d[10:20]]), d[19:]],
    "one by one": lambda d: [*d, d[0]],
    "copy": lambda d: [d[:20], copy.deepcopy(d)[19:]],
    "other process": lambda d: [d[:20], pickle.loads(pickle.dumps(d))[19:]],
}
DISJOINT: dict[str, Callable[[ove.Trajectories], Parts]] = {
    "slices": lambda d: [d[:20], d[20:]],
    "other order": lambda d: [d[20:], d[:20]],
    "steps": lambda d: [d[::2], d[1::2]],
    "split": lambda d: list(d.split(0.5, rng=0)),
    "split of a slice": lambda d: [d[:20], d[20:].split(0.5, rng=0)[1]],
    "slices of a split": lambda d: [d.split(0.5)[0][:9], d.split(0.5)[0][9:]],
    "joins": lambda d: [ove.Trajectories.concat([d[:5], d[8:]]), d[5:8]],
    "one by one": list,
    "other process": lambda d: [d[:20], pickle.loads(pickle.dumps(d[20:]))],
}


@pytest.mark.parametrize("make", [bandit, cart_pole])
@pytest.mark.parametrize("kind", OVERLAPPING)
def test_an_episode_that_is_joined_twice(make: Callable[..., ove.Trajectories], kind: str) -> None:
    assert repeated(OVERLAPPING[kind](make(40)))


@pytest.mark.parametrize("make", [bandit, cart_pole])
@pytest.mark.parametrize("kind", DISJOINT)
def test_parts_without_a_common_episode(make: Callable[..., ove.Trajectories], kind: str) -> None:
    assert not repeated(DISJOINT[kind](make(40)))


def test_logs_that_were_made_apart() -> None:
    assert not repeated([bandit(40, seed=k) for k in range(5)])
    assert not repeated([cart_pole(seed=1), cart_pole(seed=2)])
    assert not repeated([bandit(1, seed=k) for k in range(60)])  # many are equal
    assert not repeated([bandit(2, seed=k) for k in range(60)])


def test_a_log_that_is_loaded_twice(tmp_path: Path) -> None:
    cart_pole().save(tmp_path)
    first, second = ove.Trajectories.load(tmp_path), ove.Trajectories.load(tmp_path)
    assert repeated([first.split(0.5, rng=0)[0], second.split(0.5, rng=1)[0]])
    assert repeated([first[::2], second[::3]])
    assert not repeated([first[:20], second[20:]])
    assert not repeated([first.split(0.5, rng=0)[0], second.split(0.5, rng=0)[1]])
    table = ove.Trajectories.from_table(
        first.to_table(),
        action="action",
        observations=[f"observation_{i}" for i in range(4)],
    )
    assert repeated([first[::2], table[::3]])


def test_the_log_of_a_wrapper_is_told_by_its_numbers() -> None:
    env = gym.make("CartPole-v1")
    policy = ove.UniformPolicy(env.action_space, rng=0)
    log = ove.LogActionProbability(env, policy, reward_range=(0, 1), total_timesteps=2000)
    observation, _ = log.reset(seed=0)
    half = None
    for step in range(2000):
        observation, _, terminated, truncated, _ = log.step(policy.predict(observation)[0])
        if terminated or truncated:
            observation, _ = log.reset()
        if step == 1000:
            half = log.trajectories()
    data = log.trajectories()
    assert half is not None
    assert not data.metadata.repeated_episodes
    assert ove.Trajectories.concat([half, data]).metadata.repeated_episodes
    later = ove.Trajectories.concat([half, data[len(half) :]])
    assert not later.metadata.repeated_episodes
    assert guaranteed(later)


def test_a_writer_that_gets_an_episode_twice(tmp_path: Path) -> None:
    data = bandit(few_outcomes=False)
    parts = {
        "once": [data[:100], *data[100:110], data[110:]],
        "twice": [data[:100], data[200:], data[90:95]],
        "splits": [data.split(0.5, rng=k)[0] for k in range(3)],
    }
    for name, added in parts.items():
        with ove.EpisodeWriter(tmp_path / name, Metadata(), flush_every=7) as writer:
            for part in added:
                writer.add(part)
        written = ove.Trajectories.load(tmp_path / name)
        assert written.metadata.repeated_episodes == (name != "once")
        assert guaranteed(written) == (name == "once")


def test_a_writer_does_not_mind_equal_episodes(tmp_path: Path) -> None:
    with ove.EpisodeWriter(tmp_path, bandit().metadata, flush_every=5) as writer:
        for k in range(30):
            part = bandit(1 + k % 3, seed=k)
            writer.add(
                ove.Trajectories.from_arrays(
                    observations=part.observations,
                    actions=part.actions,
                    log_probs=part.log_probs,
                    rewards=part.rewards,
                    lengths=part.lengths,
                    metadata=writer.metadata,
                )
            )
    assert not ove.Trajectories.load(tmp_path).metadata.repeated_episodes
