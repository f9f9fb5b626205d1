"""Wrappers that make every episode depend on earlier ones: the label follows."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from stable_baselines3.common.atari_wrappers import EpisodicLifeEnv
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecMonitor

import ove_sb3 as ove
from tests.collection.test_wrappers import play
from tests.policies.toys import Toy

UNIFORM = ove.UniformPolicy(Toy().action_space)
NORMALIZE = [gym.wrappers.NormalizeReward, gym.wrappers.NormalizeObservation]
# Before gymnasium 1.0 one class normalizes both kinds of environments, and cannot be fixed.
VECTOR = getattr(gym.wrappers, "vector", gym.wrappers)
CAN_BE_FIXED = hasattr(gym.wrappers.NormalizeReward, "update_running_mean")


def make(normalize: Any, *, fixed: bool = False) -> gym.Env[Any, Any]:
    env = normalize(gym.wrappers.TimeLimit(Toy(), 10))
    if fixed:
        env.update_running_mean = False
    return Monitor(env)


@pytest.mark.parametrize("normalize", NORMALIZE)
def test_collect_notices(normalize: Any) -> None:
    data = ove.collect(UNIFORM, make(normalize), 20, seed=0, reward_range=(0, 1000))
    result = ove.evaluate(data, UNIFORM, gamma=0.9, quantities=["mean"])
    assert not result["mean"].interval.guaranteed
    assert any("running statistics" in reason for reason in result["mean"].interval.reasons)
    several = DummyVecEnv([Toy, lambda: make(normalize)])
    assert ove.collect(UNIFORM, VecMonitor(several), 4, seed=0).metadata.changing_environment
    if CAN_BE_FIXED:
        fixed = ove.collect(UNIFORM, make(normalize, fixed=True), 20, seed=0, reward_range=(0, 9))
        assert not fixed.metadata.changing_environment
        again = ove.evaluate(fixed, UNIFORM, gamma=0.9, quantities=["mean"])
        assert again["mean"].interval.guaranteed


@pytest.mark.filterwarnings("ignore:.*variables from other wrappers")  # of gymnasium 0.29
@pytest.mark.parametrize("normalize", ["NormalizeReward", "NormalizeObservation"])
def test_collect_notices_in_vectorized_environments(normalize: str) -> None:
    inside = gym.vector.SyncVectorEnv([lambda: make(getattr(gym.wrappers, normalize))])
    around = getattr(VECTOR, normalize)(gym.vector.SyncVectorEnv([Toy, Toy]))
    assert ove.collect(UNIFORM, inside, 2, seed=0).metadata.changing_environment
    if isinstance(around, gym.vector.VectorEnv):
        assert ove.collect(UNIFORM, around, 2, seed=0).metadata.changing_environment
    else:  # before gymnasium 1.0, where a wrapper of several environments counts as a single one
        with pytest.raises(ove.InvalidInputError, match="action space of `env`"):
            ove.collect(UNIFORM, around, 2, seed=0)
    plain = gym.vector.SyncVectorEnv([Toy, Toy])
    assert not ove.collect(UNIFORM, plain, 2, seed=0).metadata.changing_environment


@pytest.mark.parametrize("normalize", NORMALIZE)
def test_wrappers_notice(normalize: Any) -> None:
    env = ove.LogActionProbability(make(normalize), UNIFORM)
    play(env, UNIFORM, 2)
    assert env.trajectories().metadata.changing_environment
    makers: list[Any] = [Toy, lambda: make(normalize)]
    for inner in (DummyVecEnv(makers), SubprocVecEnv(makers, start_method="fork")):
        venv = ove.VecLogActionProbability(inner, UNIFORM)
        venv.reset()
        for _ in range(10):
            venv.step(venv.action_space.sample()[None].repeat(2))
        assert venv.trajectories().metadata.changing_environment
        venv.close()


def test_ordinary_environments_do_not_change() -> None:
    for venv in (SubprocVecEnv([Toy, Toy], start_method="fork"), gym.vector.AsyncVectorEnv([Toy])):
        assert not ove.collect(UNIFORM, venv, 2, seed=0).metadata.changing_environment
        venv.close()
    env = ove.LogActionProbability(Monitor(Toy()), UNIFORM)
    play(env, UNIFORM, 2)
    assert not env.trajectories().metadata.changing_environment


@pytest.mark.parametrize("outer_is_fixed", [True, False])
def test_statistics_in_other_processes_count_as_updated(outer_is_fixed: bool) -> None:
    def nested() -> gym.Env[Any, Any]:
        inner = gym.wrappers.NormalizeReward(gym.wrappers.TimeLimit(Toy(), 10))
        outer = gym.wrappers.NormalizeObservation(inner)
        outer.update_running_mean = not outer_is_fixed
        return outer

    venvs: list[Any] = [SubprocVecEnv([nested], start_method="fork")]
    if CAN_BE_FIXED:  # before gymnasium 1.0 the other kind does not tell
        venvs.append(gym.vector.AsyncVectorEnv([nested]))
    for venv in venvs:
        assert ove.collect(UNIFORM, venv, 2, seed=0).metadata.changing_environment
        venv.close()


class Switching(gym.Wrapper[Any, Any, Any, Any]):
    """Updates running statistics in a single step only, number `at`, or in the reset before it."""

    def __init__(self, env: Any, at: int, *, in_reset: bool) -> None:
        super().__init__(env)
        self.inner, self.at, self.in_reset, self.n_steps = env, at, in_reset, 0
        self.inner.update_running_mean = False

    def reset(self, **kwargs: Any) -> Any:
        self.inner.update_running_mean = self.in_reset and self.n_steps >= self.at
        return super().reset(**kwargs)

    def step(self, action: Any) -> Any:
        self.n_steps += 1
        self.inner.update_running_mean = not self.in_reset and self.n_steps == self.at
        return super().step(action)


def switching(*, in_reset: bool) -> Switching:
    inner = gym.wrappers.NormalizeObservation(gym.wrappers.TimeLimit(Toy(), 10))
    return Switching(inner, 43, in_reset=in_reset)


@pytest.mark.parametrize("in_reset", [True, False])
def test_updates_that_are_switched_on_later(tmp_path: Any, in_reset: bool) -> None:
    inside = switching(in_reset=in_reset)
    env = ove.LogActionProbability(inside, UNIFORM)
    play(env, UNIFORM, 2)
    assert env.trajectories().metadata.changing_environment is not CAN_BE_FIXED
    play(env, UNIFORM, 20)
    assert env.trajectories().metadata.changing_environment
    for path in (None, tmp_path / "log"):
        venv = DummyVecEnv([Toy, lambda: switching(in_reset=in_reset)])
        data = ove.collect(UNIFORM, VecMonitor(venv), 80, seed=0, path=path)
        assert data.metadata.changing_environment
    logged = ove.VecLogActionProbability(venv, UNIFORM, tmp_path / "wrapped")
    venv.set_attr("n_steps", 0, indices=1)
    observations = logged.reset()
    for step in range(200):
        observations = logged.step(UNIFORM.predict(observations)[0])[0]
        if step == 30:
            assert logged.trajectories().metadata.changing_environment is not CAN_BE_FIXED
    assert logged.trajectories().metadata.changing_environment


def test_statistics_that_are_fixed_before_logging() -> None:
    normalize = gym.wrappers.NormalizeReward(gym.wrappers.TimeLimit(Toy(), 10))
    env = ove.LogActionProbability(normalize)
    play(env, UNIFORM, 3)
    normalize.update_running_mean = False
    env.reset(seed=1)
    env.set_model(UNIFORM)
    play(env, UNIFORM, 3)
    assert env.trajectories().metadata.changing_environment is not CAN_BE_FIXED


class Lives(Toy):
    """A game of three lives, each of ten steps; only the last ends it."""

    ale = property(lambda self: self)

    def lives(self) -> int:
        return 3 - self.time // 10

    def step(self, action: Any) -> Any:
        observation, reward, _, _, info = super().step(action)
        return observation, reward, self.lives() == 0, False, info


def test_episodes_that_are_lives_of_a_game() -> None:
    for venv in (
        DummyVecEnv([lambda: EpisodicLifeEnv(Lives())]),
        SubprocVecEnv([lambda: EpisodicLifeEnv(Lives())], start_method="fork"),
        gym.vector.SyncVectorEnv([lambda: EpisodicLifeEnv(Lives())]),
    ):
        data = ove.collect(UNIFORM, venv, 6, seed=0)
        assert (
            data.lengths.tolist() == [10, 9, 9] * 2
        )  # the other two begin with a step of their own
        assert data.metadata.changing_environment
        venv.close()
    env = ove.LogActionProbability(EpisodicLifeEnv(Lives()), UNIFORM)
    play(env, UNIFORM, 6)
    about: dict[str, Any] = {"return_range": (-100, 100), "horizon": 10, "quantities": ["mean"]}
    result = ove.evaluate(env.trajectories(), UNIFORM, gamma=0.9, **about)
    assert not result["mean"].interval.guaranteed
    assert any("EpisodicLifeEnv" in reason for reason in result["mean"].interval.reasons)
    whole = ove.collect(UNIFORM, Lives(), 2, seed=0)
    assert whole.lengths.tolist() == [30, 30]
    assert not whole.metadata.changing_environment
