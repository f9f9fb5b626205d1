"""Conformance of all registered environments to Gymnasium and stable-baselines3."""

import inspect
import pickle
import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env as gymnasium_check
from stable_baselines3.common.env_checker import check_env as sb3_check
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3.envs as envs

SPECS = [spec for spec in gym.registry.values() if spec.namespace == "ove_sb3"]
IDS = [spec.id for spec in SPECS]
VEC_ENVS = {spec.id: getattr(envs, f"{spec.name}VecEnv") for spec in SPECS}

#: Sections of an environment's docstring, in the order of Gymnasium's documentation.
SECTIONS = [
    "Description",
    "Action Space",
    "Observation Space",
    "Rewards",
    "Starting State",
    "Episode End",
    "Information",
    "Arguments",
    "References",
    "Version History",
]


def test_registry_holds_the_bundled_environments() -> None:
    bundled = {name for name in envs.__all__ if name.endswith("Env") and "Vec" not in name}
    assert {type(gym.make(env_id).unwrapped).__name__ for env_id in IDS} == bundled


@pytest.mark.parametrize("spec", SPECS, ids=IDS)
def test_docstring_follows_the_template(spec: EnvSpec) -> None:
    env_class = type(gym.make(spec).unwrapped)
    doc = inspect.getdoc(env_class) or ""
    assert re.findall(r"^## (.+)$", doc, flags=re.M) == SECTIONS
    arguments = doc.split("----------\n")[1].split("\n\n## ")[0]
    documented = [
        name for line in arguments.splitlines() if line[:1].strip() for name in line.split(", ")
    ]
    assert sorted(documented) == sorted(inspect.signature(env_class).parameters)
    versions = doc.split("## Version History\n")[1]
    assert f"- v{spec.version}: " in versions


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize("render_mode", [None, "ansi", "rgb_array"])
def test_passes_both_checkers(env_id: str, render_mode: str | None) -> None:
    env = gym.make(env_id, render_mode=render_mode)
    gymnasium_check(env.unwrapped)
    sb3_check(env)
    sb3_check(env.unwrapped)


@pytest.mark.parametrize("env_id", IDS)
def test_make_imports_the_module(env_id: str) -> None:
    assert gym.make(f"ove_sb3.envs:{env_id}").unwrapped.spec is not None


@pytest.mark.parametrize("env_id", IDS)
def test_declares_horizon_and_reward_range(env_id: str) -> None:
    env: Any = gym.make(env_id)
    assert env.spec.max_episode_steps == env.unwrapped.horizon
    low, high = env.unwrapped.reward_range
    rewards = []
    for seed in range(50):
        env.reset(seed=seed)
        env.action_space.seed(seed)
        for _ in range(env.unwrapped.horizon):
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            rewards.append(reward)
            if terminated or truncated:
                break
        assert terminated or truncated
    assert low <= min(rewards) <= max(rewards) <= high
    assert len(set(rewards)) > 1


@pytest.mark.parametrize("env_id", IDS)
def test_seed_and_key_replay_the_episode(env_id: str) -> None:
    env: Any = gym.make(env_id).unwrapped
    action = env.action_space.sample()

    def episode(**how: Any) -> tuple[Any, ...]:
        first, info = env.reset(**how)
        steps = []
        for _ in range(env.horizon):
            observation, reward, terminated, truncated, _ = env.step(action)
            steps.append((float(np.sum(observation)), reward))
            if terminated or truncated:
                break
        return info["key"], float(np.sum(first)), steps

    seeded = episode(seed=7)
    following = episode()
    assert episode(seed=7) == seeded
    assert following[0] != seeded[0]
    assert episode(options={"key": following[0]}) == following


@pytest.mark.parametrize("env_id", IDS)
def test_running_episode_can_be_pickled(env_id: str) -> None:
    env: Any = gym.make(env_id).unwrapped
    env.reset(seed=4)
    copy = pickle.loads(pickle.dumps(env))
    action = env.action_space.sample()
    np.testing.assert_equal(copy.step(action), env.step(action))


@pytest.mark.parametrize("env_id", IDS)
def test_step_requires_a_running_episode(env_id: str) -> None:
    env: Any = gym.make(env_id).unwrapped
    with pytest.raises(gym.error.ResetNeeded, match="reset"):
        env.step(env.action_space.sample())
    env.reset(seed=0)
    for _ in range(env.horizon):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            break
    with pytest.raises(gym.error.ResetNeeded, match="reset"):
        env.step(env.action_space.sample())


@pytest.mark.parametrize("env_id", IDS)
def test_unknown_render_mode(env_id: str) -> None:
    env: Any = gym.make(env_id).unwrapped
    with pytest.raises(ValueError, match="render_mode"):
        type(env)(render_mode="human")


@pytest.mark.parametrize("env_id", IDS)
def test_render_before_reset_and_after_the_end(env_id: str) -> None:
    for mode, kind in (("ansi", str), ("rgb_array", np.ndarray)):
        env: Any = gym.make(env_id, render_mode=mode).unwrapped
        empty: Any = env.render()
        env.reset(seed=0)
        env.step(env.action_space.sample())
        after: Any = env.render()
        assert type(empty) is type(after) is kind
        assert not np.array_equal(empty, after)
        if mode == "rgb_array":
            picture = np.asarray(after)
            assert picture.dtype == np.uint8
            assert picture.shape[2:] == (3,)


@pytest.mark.parametrize("env_id", IDS)
def test_batched_environment_equals_dummy_vec_env(env_id: str) -> None:
    n, steps = 5, 130  # one-step environments draw keys more than once
    single: Any = DummyVecEnv([lambda: gym.make(env_id) for _ in range(n)])
    batched = VEC_ENVS[env_id](n)
    single.seed(11)
    batched.seed(11)
    np.testing.assert_array_equal(single.reset(), batched.reset())
    assert [i["key"] for i in single.reset_infos] == [i["key"] for i in batched.reset_infos]
    single.action_space.seed(3)
    ended = 0
    for _ in range(steps):
        actions = np.array([single.action_space.sample() for _ in range(n)])
        expected, actual = single.step(actions), batched.step(actions)
        np.testing.assert_array_equal(expected[0], actual[0])
        np.testing.assert_array_equal(expected[1].astype(np.float32), actual[1].astype(np.float32))
        np.testing.assert_array_equal(expected[2], actual[2])
        for one, other in zip(expected[3], actual[3], strict=True):
            assert one.get("TimeLimit.truncated", False) == other.get("TimeLimit.truncated", False)
            assert ("terminal_observation" in one) == ("terminal_observation" in other)
            if "terminal_observation" in one:
                ended += 1
                np.testing.assert_array_equal(
                    one["terminal_observation"], other["terminal_observation"]
                )
    assert ended > n


@pytest.mark.parametrize("env_id", IDS)
def test_batched_environment_attributes_and_errors(env_id: str) -> None:
    venv = VEC_ENVS[env_id](3)
    with pytest.raises(gym.error.ResetNeeded, match="reset"):
        venv.step(np.array([venv.action_space.sample() for _ in range(3)]))
    assert venv.get_attr("reward_range") == [venv.env.reward_range] * 3
    assert venv.get_attr("horizon", indices=[0, 2]) == [venv.env.horizon] * 2
    assert venv.env_is_wrapped(gym.Wrapper) == [False] * 3
    with pytest.raises(NotImplementedError, match="share one environment"):
        venv.set_attr("horizon", 3)
    with pytest.raises(NotImplementedError, match="does not render"):
        venv.get_images()
    with pytest.raises(ValueError, match="num_envs"):
        VEC_ENVS[env_id](0)
    venv.reset()
    with pytest.raises(gym.error.InvalidAction, match="shape"):
        venv.step(np.array([venv.action_space.sample() for _ in range(4)]))
    venv.close()


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Chess"):
        _ = envs.ChessVecEnv
