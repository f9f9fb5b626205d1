"""Episodes that were picked after logging, perhaps by their outcomes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import ove_sb3 as ove
from tests.data.test_repeated_episodes import cart_pole, guaranteed


@pytest.fixture(scope="module")
def data() -> ove.Trajectories:
    """CartPole under a uniform policy."""
    return cart_pole(100)


def good(data: ove.Trajectories) -> list[int]:
    """Numbers of the episodes with a high return."""
    return [int(i) for i in np.flatnonzero(data.returns() > 15)]


Pick = Callable[[ove.Trajectories], ove.Trajectories]

BY_OUTCOME: dict[str, Pick] = {
    "mask": lambda d: d[d.returns() > 15],
    "indices": lambda d: d[np.flatnonzero(d.returns() > 15)],
    "list": lambda d: d[[i for i in range(len(d)) if d.returns()[i] > 15]],
    "best first": lambda d: d[np.argsort(-d.returns())].split(0.5)[0],
    "loop": lambda d: ove.Trajectories.concat([one for one in d if one.returns()[0] > 15]),
    "integers": lambda d: ove.Trajectories.concat([d[i] for i in np.argsort(-d.returns())[:50]]),
    "slices": lambda d: ove.Trajectories.concat([d[i : i + 1] for i in good(d)]),
    "ranges": lambda d: ove.Trajectories.concat([d[range(i, i + 1)] for i in good(d)]),
    "slices of slices": lambda d: ove.Trajectories.concat([d[i : i + 2][:1] for i in good(d)]),
    "all of a slice": lambda d: ove.Trajectories.concat([d[i : i + 1][[0]] for i in good(d)]),
    "splits": lambda d: ove.Trajectories.concat([d[i : i + 2].split(0.5)[0] for i in good(d)[:-1]]),
}
IN_ADVANCE: dict[str, Pick] = {
    "slice": lambda d: d[10:60],
    "step": lambda d: d[::-2],
    "range": lambda d: d[range(0, 100, 3)],
    "all": lambda d: d[np.arange(len(d))],
    "true": lambda d: d[np.ones(len(d), bool)],
    "split": lambda d: d.split(0.5, rng=0)[0],
    "loop": lambda d: ove.Trajectories.concat(list(d)),
    "some in order": lambda d: ove.Trajectories.concat([d[i] for i in range(20, 70)]),
    "slices in order": lambda d: ove.Trajectories.concat([d[i : i + 1] for i in range(20, 70)]),
    "leave one out": lambda d: ove.Trajectories.concat([d[:1], d[2:]]),
}


@pytest.mark.parametrize("kind", BY_OUTCOME)
def test_episodes_picked_by_their_outcome(
    data: ove.Trajectories, kind: str, tmp_path: Path
) -> None:
    part = BY_OUTCOME[kind](data)
    assert part.metadata.selected_episodes
    assert not guaranteed(part)
    part.save(tmp_path)
    assert not guaranteed(ove.Trajectories.load(tmp_path))


@pytest.mark.parametrize("kind", IN_ADVANCE)
def test_episodes_chosen_in_advance(data: ove.Trajectories, kind: str) -> None:
    part = IN_ADVANCE[kind](data)
    assert not part.metadata.selected_episodes
    assert guaranteed(part)


def test_one_of_three_episodes_of_a_log_left_out() -> None:
    """What is left of that log are single episodes, but they were not taken one by one."""
    data = ove.Trajectories.concat([cart_pole(3, seed=seed) for seed in range(3)])
    assert not ove.Trajectories.concat([data[:4], data[5:]]).metadata.selected_episodes


def test_a_writer_that_gets_picked_episodes(data: ove.Trajectories, tmp_path: Path) -> None:
    for name, least in (("all", 0), ("best", 15)):
        with ove.EpisodeWriter(tmp_path / name, ove.Metadata(), flush_every=8) as writer:
            for one in data:
                if one.returns()[0] > least:
                    writer.add(one)
        written = ove.Trajectories.load(tmp_path / name)
        assert written.metadata.selected_episodes == (name == "best")
        assert guaranteed(written) == (name == "all")


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
def test_a_filtered_minari_dataset(
    data: ove.Trajectories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    dataset = ove.to_minari(data, "test/cartpole-v0", progress=False)
    best = dataset.filter_episodes(lambda episode: bool(episode.rewards.sum() > 15))
    assert 0 < len(best) < len(data)
    part = ove.from_minari(best, progress=False)
    assert part.metadata.selected_episodes
    assert not guaranteed(part)
    assert guaranteed(ove.from_minari(dataset, progress=False))
    everything = dataset.filter_episodes(lambda episode: True)
    assert guaranteed(ove.from_minari(everything, progress=False))


def test_missing_episodes_of_a_wrapper_are_counted_instead() -> None:
    env = gym.make("CartPole-v1")
    policy = ove.UniformPolicy(env.action_space, rng=0)
    log = ove.LogActionProbability(env, policy, reward_range=(0, 1), total_timesteps=2000)
    observation, _ = log.reset(seed=0)
    for _ in range(2000):
        observation, _, terminated, truncated, _ = log.step(policy.predict(observation)[0])
        if terminated or truncated:
            observation, _ = log.reset()
    logged = log.trajectories()
    part = logged[logged.returns() > 15]
    assert not part.metadata.selected_episodes
    slices = ove.Trajectories.concat([logged[i : i + 1] for i in good(logged)])
    assert not slices.metadata.selected_episodes
    whole, missing = (
        ove.evaluate(d, policy, gamma=0.9, quantities=["mean"], approximate=None)["mean"].interval
        for d in (logged, part)
    )
    assert missing.guaranteed
    assert missing.lower <= whole.lower
