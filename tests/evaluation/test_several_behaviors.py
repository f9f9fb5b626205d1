"""Logs of several fixed policies, one after the other: there is no one behavior to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium import spaces

import ove_sb3 as ove
from ove_sb3.data.metadata import Metadata, merge


class Coin(gym.Env[Any, Any]):
    """One step; the reward is the action."""

    observation_space = spaces.Discrete(1)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 0, float(action), True, False, {}


def policy(chance: float, seed: int = 0) -> ove.TabularPolicy:
    return ove.TabularPolicy([[1.0 - chance, chance]], rng=seed)


def wrapped(path: Path, chances: Sequence[float]) -> ove.Trajectories:
    """Logs of these policies in one directory."""
    for k, chance in enumerate(chances):
        acting = policy(chance, k)
        env = ove.LogActionProbability(
            gym.wrappers.TimeLimit(Coin(), 1),
            acting,
            path,
            reward_range=(0, 1),
            total_timesteps=200,
            durability="normal",
        )
        observation, _ = env.reset(seed=k)
        for _ in range(200):
            env.step(int(acting.predict(observation)[0]))
            observation, _ = env.reset()
        env.close()
    return ove.Trajectories.load(path)


def collected(chances: Sequence[float]) -> ove.Trajectories:
    return ove.Trajectories.concat(
        [
            ove.collect(
                policy(chance),
                gym.wrappers.TimeLimit(Coin(), 1),
                200,
                seed=k,
                reward_range=(0, 1),
                progress=False,
            )
            for k, chance in enumerate(chances)
        ]
    )


def evaluate(data: ove.Trajectories) -> ove.Evaluation:
    return ove.evaluate(data, policy(0.6), gamma=1.0, quantities=["mean"], approximate=None)


@pytest.mark.parametrize("kind", ["wrapped", "collected"])
def test_several_policies_are_not_one_behavior(kind: str, tmp_path: Path) -> None:
    chances = (0.7, 0.55)
    data = wrapped(tmp_path / "log", chances) if kind == "wrapped" else collected(chances)
    for log in (data, data[10:], data.split(0.5, rng=0)[0]):
        result = evaluate(log)
        assert result["mean"].interval.guaranteed
        assert result["mean"].behavior_interval is None
        with pytest.raises(ove.InvalidInputError, match="several policies wrote the log"):
            result.check("mean <= behavior")
        assert result.check("mean <= 1")


@pytest.mark.parametrize("kind", ["wrapped", "collected"])
def test_the_same_policy_in_several_runs_is_one_behavior(kind: str, tmp_path: Path) -> None:
    chances = (0.7, 0.7)
    data = wrapped(tmp_path / "log", chances) if kind == "wrapped" else collected(chances)
    assert not data.metadata.several_behaviors
    interval = evaluate(data)["mean"].behavior_interval
    assert interval is not None
    assert interval.guaranteed
    assert evaluate(data).check("mean <= behavior") is not None


def test_watch_refuses_the_comparison(tmp_path: Path) -> None:
    wrapped(tmp_path / "log", (0.7, 0.55))
    with pytest.raises(ove.InvalidInputError, match="several policies wrote the log"):
        ove.watch(tmp_path / "log", policy(0.6), ["mean <= behavior"], gamma=1.0, timeout=0.0)


def test_policies_of_an_assignment_are_named() -> None:
    data = collected((0.7, 0.55))
    mixture = ove.as_mixture(data, [policy(0.7), policy(0.55)], [0] * 200 + [1] * 200)
    assert not mixture.metadata.several_behaviors


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ({"fingerprint": "a"}, {"fingerprint": "b"}, True),
        ({"fingerprint": "a"}, {"fingerprint": "a"}, False),
        ({"fingerprint": "a", "behavior": "PPO"}, {"fingerprint": "a", "behavior": "P"}, False),
        ({"behavior": "PPO"}, {"behavior": "DQN"}, True),
        ({"behavior": "PPO"}, {"behavior": "PPO"}, False),
        ({"behavior": "P", "log_ids": ["a"]}, {"behavior": "P", "log_ids": ["b"]}, True),
        ({"behavior": "P", "log_ids": ["a/1/a"]}, {"behavior": "P", "log_ids": ["a/1/b"]}, False),
        ({"log_ids": ["a"]}, {"log_ids": ["b"]}, False),
        ({"fingerprint": "a"}, {}, False),
        ({"behavior": "PPO"}, {}, False),
        ({"several_behaviors": True}, {}, True),
    ],
)
def test_what_is_not_stated_may_be_the_same(
    one: dict[str, Any], other: dict[str, Any], differ: bool
) -> None:
    for parts in ((one, other), (other, one)):
        assert merge([Metadata(**part) for part in parts]).several_behaviors == differ
