"""Environments that overwrite arrays they returned or received do not change the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecEnv,
    VecEnvWrapper,
    VecFrameStack,
    VecNormalize,
)

import ove_sb3 as ove
from tests.policies.toys import CASES, Toy, make_model

ENDS = ["PPO-discrete", "PPO-box", "PPO-dict", "PPO-image", "MaskablePPO-discrete", "DQN-discrete"]


_KEPT = 40  # arrays, of many steps


class Scribble:
    """Overwrites in place, at the next call, the arrays it was given last."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def show(self, *values: Any) -> None:
        self.seen = [*self.seen[-_KEPT:], *values]

    def overwrite(self) -> None:
        for value in self.seen:
            self._overwrite(value)

    def _overwrite(self, value: Any) -> None:
        if isinstance(value, dict):
            for entry in list(value.values()):
                self._overwrite(entry)
            if "TimeLimit.truncated" in value:
                value["TimeLimit.truncated"] = not value["TimeLimit.truncated"]
        elif isinstance(value, (list, tuple)):
            for entry in value:
                self._overwrite(entry)
        elif isinstance(value, np.ndarray):
            value[...] = ~value if value.dtype == np.bool_ else np.zeros_like(value) + 77


def owned(observation: Any) -> Any:
    """Writable copies of the arrays."""
    if isinstance(observation, Mapping):
        return {key: np.array(value) for key, value in observation.items()}
    return np.array(observation)


class Scribbling(gym.Wrapper[Any, Any, Any, Any]):
    """A single environment.

    With `patient` it overwrites nothing in `reset`: DummyVecEnv calls that before anyone has seen
    the end of an episode, which would be lost to stable-baselines3 as well.
    """

    def __init__(self, env: gym.Env[Any, Any], *, patient: bool = False) -> None:
        super().__init__(env)
        self.ink, self.patient = Scribble(), patient

    def reset(self, **options: Any) -> Any:
        if not self.patient:
            self.ink.overwrite()
        observation, info = self.env.reset(**options)
        observation = owned(observation)
        self.ink.show(observation, info)
        return observation, info

    def step(self, action: Any) -> Any:
        taken = np.array(action)
        self.ink.overwrite()
        observation, reward, terminated, truncated, info = self.env.step(taken)
        observation = owned(observation)
        self.ink.show(action, observation, info)
        return observation, reward, terminated, truncated, info

    def action_masks(self) -> Any:
        masks = np.array(self.env.get_wrapper_attr("action_masks")())
        self.ink.show(masks)
        return masks


class VecScribbling(VecEnvWrapper):
    """A vectorized environment that returns its own arrays, not copies."""

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv)
        self.ink = Scribble()

    def reset(self) -> Any:
        self.ink.overwrite()
        observations = self.venv.reset()
        self.ink.show(observations)
        return observations

    def step_async(self, actions: Any) -> None:
        self.venv.step_async(np.array(actions))
        self.ink.overwrite()
        self.ink.show(actions)
        self.ink.overwrite()

    def step_wait(self) -> Any:
        outcome = self.venv.step_wait()
        self.ink.show(*outcome)
        return outcome

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        results = self.venv.env_method(method_name, *args, indices=indices, **kwargs)
        if method_name == "action_masks":
            results = [np.array(mask) for mask in results]
            self.ink.show(results)
        return results


def same(one: ove.Trajectories, other: ove.Trajectories) -> None:
    for name in ("observations", "actions", "log_probs", "rewards", "lengths", "terminated"):
        assert_equal(getattr(one, name), getattr(other, name), name)
    for name in ("truncated", "action_masks", "final_observations", "overlaps"):
        assert_equal(getattr(one, name), getattr(other, name), name)


def assert_equal(one: Any, other: Any, name: str) -> None:
    if isinstance(one, Mapping):
        assert set(one) == set(other)
        for key in one:
            assert_equal(one[key], other[key], f"{name}[{key}]")
    elif one is None:
        assert other is None, name
    else:
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other, name)


def toy(case: str) -> Toy:
    _, actions, observations, _ = CASES[case]
    return Toy(actions, observations, early=0.1)


def venv_of(case: str, *, scribble: bool = False) -> DummyVecEnv:
    def make() -> gym.Env[Any, Any]:
        return Scribbling(toy(case), patient=True) if scribble else toy(case)

    venv = DummyVecEnv([make, make])
    venv.seed(1)
    return venv


@pytest.mark.parametrize("case", ENDS)
@pytest.mark.parametrize("kind", ["single", "vectorized"])
def test_collect(case: str, kind: str) -> None:
    model = make_model(case)
    envs: tuple[Any, Any]
    if kind == "single":
        envs = toy(case), Scribbling(toy(case))
    else:
        envs = venv_of(case), VecScribbling(venv_of(case))
    one, other = (ove.collect(model, env, 12, seed=3) for env in envs)
    assert one.final_observations is not None
    same(one, other)


@pytest.mark.parametrize("case", ENDS)
def test_single_wrapper(case: str) -> None:
    logs = []
    for scribble in (False, True):
        model = make_model(case)
        model.set_random_seed(0)
        inner = toy(case)
        env = ove.LogActionProbability(Scribbling(inner) if scribble else inner, model)
        for episode in range(6):
            observation, _ = env.reset(seed=episode)
            ended = False
            while not ended:
                # The model must see what the environment returned, so the loop copies it.
                seen = owned(observation)
                options = {"action_masks": inner.action_masks()} if "Mask" in case else {}
                action, _ = model.predict(seen, **options)
                observation, _, terminated, truncated, _ = env.step(np.array(action))
                ended = terminated or truncated
        logs.append(env.trajectories())
        if scribble:
            env.unwrapped.reset()
            env.env.ink.overwrite()  # type: ignore[attr-defined]
    same(*logs)


def train(case: str, *, scribble: bool, normalize: bool = False, stack: bool = False) -> Any:
    venv: VecEnv = venv_of(case, scribble=scribble)
    if stack:
        venv = VecFrameStack(venv, 2)
    if normalize:
        venv = VecNormalize(venv, norm_obs_keys=["a"] if "dict" in case else None)
    logged = ove.VecLogActionProbability(venv)
    model = make_model(case, venv=logged)
    model.set_random_seed(0)
    logged.set_model(model)
    if "DQN" in case:
        model.learning_starts = 20
    model.learn(192)
    return logged.trajectories(), model


@pytest.mark.filterwarnings("ignore::ove_sb3.errors.DependenceWarning")
@pytest.mark.parametrize(
    ("case", "normalize"),
    [*((case, False) for case in ENDS), ("PPO-discrete", True), ("MaskablePPO-discrete", True)],
)
def test_vectorized_wrapper_in_a_loop(case: str, normalize: bool) -> None:
    logs = []
    for scribble in (False, True):
        venv: VecEnv = venv_of(case)
        venv = VecScribbling(venv) if scribble else venv
        venv = VecNormalize(venv, training=False) if normalize else venv
        model = make_model(case, n_envs=2)
        logged = ove.VecLogActionProbability(venv, model)
        model.set_random_seed(0)
        observations = owned(logged.reset())
        for _ in range(60):
            masks = logged.env_method("action_masks") if "Mask" in case else None
            options = {} if masks is None else {"action_masks": np.stack(masks)}
            actions, _ = model.predict(observations, **options)
            observations = owned(logged.step(np.array(actions))[0])
        logs.append(logged.trajectories())
    same(*logs)


@pytest.mark.filterwarnings("ignore::ove_sb3.errors.DependenceWarning")
@pytest.mark.parametrize(
    ("case", "options"),
    [
        *((case, {}) for case in ENDS),
        ("PPO-box", {"normalize": True}),
        ("PPO-dict", {"normalize": True}),
        ("PPO-discrete", {"stack": True}),
    ],
)
def test_vectorized_wrapper_in_learn(case: str, options: dict[str, bool]) -> None:
    one, first = train(case, scribble=False, **options)
    other, second = train(case, scribble=True, **options)
    for ours, theirs in zip(first.policy.parameters(), second.policy.parameters(), strict=True):
        assert (ours == theirs).all()
    same(one, other)


class Reusing(gym.Wrapper[Any, Any, Any, Any]):
    """Returns every observation in the same buffer."""

    buffer: Any = None

    def reset(self, **options: Any) -> Any:
        observation, info = self.env.reset(**options)
        if self.buffer is None:
            self.buffer = np.empty_like(observation)
        self.buffer[...] = observation
        return self.buffer, info

    def step(self, action: Any) -> Any:
        observation, *outcome = self.env.step(action)
        self.buffer[...] = observation
        return self.buffer, *outcome


def test_environments_that_reuse_their_buffer() -> None:
    """Final observations are kept too: DummyVecEnv would return those of the next episode."""
    model = make_model("PPO-discrete")
    right = ove.collect(model, toy("PPO-discrete"), 5, seed=0)
    reused = ove.collect(model, Reusing(toy("PPO-discrete")), 5, seed=0)
    same(right, reused)


def test_distributions_of_users_may_change_their_input() -> None:
    class Model:
        observation_space, action_space = Toy().observation_space, Toy().action_space

    def function(model: Any, observations: Any, **_: Any) -> Any:
        observations *= 0.0
        return ove.action_distribution(ove.UniformPolicy(model.action_space), observations)

    ove.register_policy(Model, function)
    data = ove.collect(Model(), Toy(), 3, seed=0)
    assert np.asarray(data.observations).std() > 0.5
