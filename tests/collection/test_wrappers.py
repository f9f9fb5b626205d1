"""The wrapper of single environments: custom loops, Monitor, gymnasium's rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env as sb3_check_env
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

import ove_sb3 as ove
from ove_sb3.core.stopping import number_of
from tests.policies.toys import CASES, Toy, make_model, toys


def play(env: Any, model: Any, n: int, **options: Any) -> None:
    for i in range(n):
        observation, _ = env.reset(seed=i)
        ended, state, start = False, None, np.ones(1, bool)
        while not ended:
            if "action_masks" in options:
                options["action_masks"] = env.unwrapped.action_masks()
            action, state = model.predict(observation, state=state, episode_start=start, **options)
            observation, _, terminated, truncated, _ = env.step(action)
            ended, start = terminated or truncated, np.zeros(1, bool)


@pytest.mark.parametrize(
    "case",
    [
        "PPO-discrete",
        "PPO-box",
        "PPO-box1",
        "PPO-multibinary",
        "PPO-dict",
        "RecurrentPPO-discrete",
        "MaskablePPO-discrete",
        "DQN-discrete",
        "SAC-box",
    ],
)
def test_loops_of_ones_own(case: str, tmp_path: Path) -> None:
    _, space, observations, _ = CASES[case]
    model = make_model(case)
    env = ove.LogActionProbability(Toy(space, observations), model, tmp_path, flush_every=2)
    options = {"action_masks": None} if case.startswith("MaskablePPO") else {}
    play(env, model, 5, **options)
    env.reset()  # an unfinished episode is not logged
    assert len(env.trajectories()) == 5
    env.close()
    data = ove.Trajectories.load(tmp_path)
    assert len(data) == 5
    assert data.metadata.behavior == CASES[case][0]
    assert (ove.log_prob(model, data) == data.log_probs).all()
    again = ove.log_prob(
        model,
        data.observations,
        data.actions,
        lengths=data.lengths,
        action_masks=data.action_masks,
    )
    np.testing.assert_allclose(again, data.log_probs, atol=1e-4)
    if space != "box" and not isinstance(data.observations, dict):
        np.testing.assert_allclose(data.rewards, data.actions.reshape(50, -1).sum(axis=1))
    assert not data.metadata.adaptive


def test_a_changed_model_makes_the_log_adaptive() -> None:
    model = make_model("PPO-discrete")
    env = ove.LogActionProbability(Toy(), model)
    play(env, model, 2)
    before = env.trajectories().metadata
    assert before.fingerprint is not None
    model.learn(32)
    play(env, model, 2)
    data = env.trajectories()
    assert data.metadata.adaptive
    assert data.metadata.fingerprint is None
    (record,) = data.metadata.begun.values()
    assert (record.begun, record.ended) == (4, 4)


@pytest.mark.filterwarnings("ignore:.*The environment.*is different from the unwrapped version.*")
@pytest.mark.filterwarnings("ignore:.*to get variables from other wrappers is deprecated.*")
@pytest.mark.filterwarnings("ignore:.*A Box observation space .* value is.*infinity.*")
def test_rules_of_gymnasium() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", device="cpu", seed=0)
    env = ove.LogActionProbability(gym.make("CartPole-v1"), model, flush_every=3)
    check_env(env, skip_render_check=True)
    sb3_check_env(env)
    assert isinstance(env, gym.utils.RecordConstructorArgs)
    assert env._saved_kwargs["model"] is model
    assert env._saved_kwargs["flush_every"] == 3
    assert env.spec is not None
    assert env.spec.id == "CartPole-v1"


def test_inside_monitor_and_learn() -> None:
    env = ove.LogActionProbability(gym.wrappers.TimeLimit(Toy(early=0.1), 10))
    model = PPO("MlpPolicy", Monitor(env), n_steps=25, batch_size=25, device="cpu", seed=0)
    env.set_model(model)
    model.learn(200)
    data = env.trajectories()
    assert data.metadata.adaptive
    assert (data.rewards == data.actions).all()
    assert data.n_steps >= 180


def test_under_vec_normalize() -> None:
    """The model sees normalized observations; the wrapper below logs and evaluates the original."""
    env = ove.LogActionProbability(Toy())
    venv = VecNormalize(DummyVecEnv([lambda: env]), clip_obs=1.0)
    model = PPO("MlpPolicy", venv, n_steps=20, batch_size=20, n_epochs=1, device="cpu", seed=0)
    env.set_model(model)
    logged: list[Any] = []
    callback_log = model.rollout_buffer
    from stable_baselines3.common.callbacks import BaseCallback

    class Watch(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            logged.append(callback_log.log_probs[:, 0].copy())

    model.learn(100, callback=Watch())
    np.testing.assert_allclose(env.trajectories().log_probs, np.concatenate(logged), atol=1e-5)
    assert np.abs(np.asarray(env.trajectories().observations)).max() > 1.5


def limited() -> gym.Env[Any, Any]:
    return Monitor(gym.wrappers.TimeLimit(Toy(), 7))


@pytest.mark.parametrize(
    "kind", ["one", "nested", "made", "vec", "mixed", "unlimited", "elsewhere"]
)
def test_the_horizon_of_a_time_limit_is_known(kind: str) -> None:
    model = make_model("PPO-discrete")
    if kind in ("one", "nested", "made"):
        env: Any = limited()
        if kind == "nested":
            env = gym.wrappers.TimeLimit(env, 9)
        if kind == "made":
            env, model = gym.wrappers.TimeLimit(gym.make("CartPole-v1"), 7), None
        logged: Any = ove.LogActionProbability(env)
    else:
        makers: list[Any] = [limited, limited]
        if kind == "mixed":
            makers = [limited, lambda: gym.wrappers.TimeLimit(Toy(), 5)]
        if kind == "unlimited":
            makers = [limited, Toy]
        venv = SubprocVecEnv(makers) if kind == "elsewhere" else DummyVecEnv(makers)
        logged = ove.VecLogActionProbability(VecNormalize(venv))
    assert logged._logger.recorder.metadata.horizon == (None if kind == "unlimited" else 7)
    logged.close()
    if kind == "one":
        assert ove.collect(model, limited(), 2, seed=0).metadata.horizon == 7


@pytest.mark.parametrize("n_envs", [1, 3])
def test_episodes_that_end_while_another_is_under_way_are_counted(n_envs: int) -> None:
    model = make_model("PPO-discrete")
    venv = ove.VecLogActionProbability(toys(n_envs, early=0.2), model)
    observations = venv.reset()
    begun = [0] * n_envs
    ended: list[tuple[int, int]] = []
    for now in range(1, 101):
        if now == 50:  # a reset in the middle does not end an episode
            observations = venv.reset()  # every environment was in an episode
            begun = [now - 1] * n_envs
        actions, _ = model.predict(observations)
        observations, _, dones, _ = venv.step(actions)
        for i in np.flatnonzero(dones):
            ended.append((begun[i], now))
            begun[i] = now
    data = venv.trajectories()
    # Those that were reset, and the one that each environment is left in.
    (record,) = data.metadata.begun.values()
    assert (record.begun, record.ended) == (2 * n_envs + len(data), len(data))
    assert (record.n_envs, record.n_steps, record.planned_steps) == (n_envs, 100 * n_envs, None)
    assert data.metadata.incomplete_fraction == pytest.approx(2 * n_envs / record.begun)
    assert data.begins is not None
    numbers = number_of(data.begins)
    order = np.argsort(numbers)
    assert [ended[k][0] for k in order] == sorted(begin for begin, _ in ended)
    # The numbers that are missing are those of the episodes that were reset, and the last ones.
    unfinished = sorted(set(range(record.begun)) - set(numbers.tolist()))
    assert len(unfinished) == 2 * n_envs
    counts = [sum(end > begin for _, end in ended[:k]) for k, (begin, _) in enumerate(ended)]
    if n_envs == 1:
        assert data.overlaps is None
        assert set(counts) == {0}
    else:
        assert data.overlaps is not None
        assert data.overlaps.tolist() == counts
        assert max(counts) > 2
