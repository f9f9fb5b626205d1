"""The model that is logged must be the one that acts, on the observations that are logged."""

from __future__ import annotations

import _thread
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.atari_wrappers import MaxAndSkipEnv
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
    VecTransposeImage,
)

import ove_sb3 as ove
from tests.collection.test_wrappers import play
from tests.policies.toys import Toy, make_model, toys


def ppo(venv: Any, **options: Any) -> PPO:
    return PPO("MlpPolicy", venv, n_steps=20, batch_size=20, device="cpu", **options)


def run(venv: Any, model: Any, n_steps: int = 25) -> None:
    observations = venv.reset()
    for _ in range(n_steps):
        observations, _, _, _ = venv.step(model.predict(observations)[0])


# --- another model acts


@pytest.mark.parametrize("first_learns", [False, True])
def test_another_model_that_learns_is_refused(first_learns: bool) -> None:
    venv = ove.VecLogActionProbability(toys(1))
    first, second = ppo(venv, seed=0), ppo(venv, seed=1)
    venv.set_model(first)
    if first_learns:
        first.learn(60)
    with pytest.raises(ove.InvalidInputError, match=r"another object, of class PPO.*BindLogger"):
        second.learn(60)
    venv.set_model(second)
    second.learn(60)
    assert venv.trajectories().metadata.adaptive


def test_another_model_that_learns_in_a_single_wrapper_is_refused() -> None:
    env = ove.LogActionProbability(Toy())
    first, second = ppo(Monitor(env)), ppo(DummyVecEnv([lambda: Monitor(env)]))
    env.set_model(first)
    with pytest.raises(ove.InvalidInputError, match="model that acts"):
        second.learn(20)
    uniform = ove.UniformPolicy(env.action_space)
    env.set_model(uniform)
    with pytest.raises(ove.InvalidInputError, match="of class UniformPolicy"):
        second.learn(20)


def test_another_model_that_is_evaluated_is_refused() -> None:
    venv = ove.VecLogActionProbability(VecMonitor(toys(1)))
    first, second = ppo(venv, seed=0), ppo(venv, seed=1)
    venv.set_model(first)
    evaluate_policy(first, venv, 2, deterministic=False)
    with pytest.raises(ove.InvalidInputError, match="model that acts"):
        evaluate_policy(second, venv, 2, deterministic=False)


def test_binding_follows_the_model_that_learns() -> None:
    venv = ove.VecLogActionProbability(toys(1))
    for seed in (0, 1):
        ppo(venv, seed=seed).learn(20, callback=ove.BindLogger())
    assert venv.trajectories().metadata.adaptive


def test_a_callback_may_log_another_model() -> None:
    fixed = make_model("PPO-discrete")
    logged = ove.VecLogActionProbability(VecMonitor(toys(1)), fixed)
    learner = ppo(toys(1))

    class Log(EvalCallback):
        def _on_step(self) -> bool:
            run(logged, fixed, 10)
            return True

    learner.learn(20, callback=Log(toys(1)))
    assert not logged.trajectories().metadata.adaptive


# --- the policy of a model instead of the model


def test_the_policy_of_a_model_that_learns_is_refused(tmp_path: Path) -> None:
    venv = ove.VecLogActionProbability(toys(1, actions="box"))
    model = SAC("MlpPolicy", venv, device="cpu", learning_starts=1000)
    venv.set_model(model.policy)
    with pytest.raises(ove.InvalidInputError, match=r"policy of this SAC.*set_model\(model\)"):
        model.learn(20)
    venv = ove.VecLogActionProbability(toys(1))
    learner = ppo(venv)
    venv.set_model(learner.policy)
    with pytest.raises(ove.InvalidInputError, match="policy of this PPO"):
        learner.learn(20)
    run(venv, learner.policy)  # in a loop of one's own
    assert not venv.trajectories().metadata.adaptive


# --- wrappers between the model and the log


def trained(tmp_path: Path) -> PPO:
    venv = VecNormalize(toys(1))
    model = ppo(venv, seed=0)
    model.learn(40)
    model.save(tmp_path / "model")
    venv.save(str(tmp_path / "normalizer.pkl"))
    return model


def load(tmp_path: Path, venv: Any) -> VecNormalize:
    normalizer = VecNormalize.load(str(tmp_path / "normalizer.pkl"), venv)
    normalizer.training = False
    return normalizer


@pytest.mark.parametrize("single", [False, True])
def test_a_normalizer_that_the_model_lacks_is_refused(tmp_path: Path, single: bool) -> None:
    trained(tmp_path)
    model = PPO.load(tmp_path / "model", device="cpu")
    if single:
        env: Any = ove.LogActionProbability(Toy(), model)
        log, venv = env, load(tmp_path, DummyVecEnv([lambda: Monitor(env)]))
    else:
        log = ove.VecLogActionProbability(toys(1), model)
        venv = load(tmp_path, log)
    with pytest.raises(ove.InvalidInputError, match=r"VecNormalize.*set_model\(model\)"):
        run(venv, model)
    model.set_env(venv)
    log.set_model(model)
    run(venv, model)
    data = log.trajectories()
    assert not data.metadata.adaptive
    seen = venv.normalize_obs(np.asarray(data.observations))
    by_hand = ove.log_prob(model.policy, seen, data.actions)
    np.testing.assert_allclose(data.log_probs, by_hand, atol=1e-5)


def test_a_normalizer_with_the_same_statistics_is_accepted(tmp_path: Path) -> None:
    model = trained(tmp_path)
    log = ove.VecLogActionProbability(toys(1), model)
    venv = load(tmp_path, log)
    run(venv, model)
    assert len(log.trajectories()) == 2
    statistics: Any = venv.obs_rms
    statistics.mean = statistics.mean + 1.0
    with pytest.raises(ove.InvalidInputError, match="as its own"):
        run(venv, model)


def test_normalized_rewards_and_uniform_actions_are_accepted() -> None:
    model, uniform = make_model("PPO-discrete"), ove.UniformPolicy(Toy().action_space)
    for policy, normalize in ((model, False), (uniform, True)):
        log = ove.VecLogActionProbability(toys(1), policy)
        run(VecMonitor(VecNormalize(log, norm_obs=normalize)), policy)
        assert len(log.trajectories()) == 2


def test_built_in_policies_do_not_see_normalized_observations() -> None:
    model, uniform = make_model("PPO-discrete"), ove.UniformPolicy(Toy().action_space)
    mixture = ove.MixturePolicy([model, uniform], [0.5, 0.5])
    log = ove.VecLogActionProbability(toys(1), mixture)
    with pytest.raises(ove.InvalidInputError, match="VecNormalize around"):
        run(VecNormalize(log), mixture)
    with pytest.raises(ove.InvalidInputError, match="takes original observations"):
        ove.VecLogActionProbability(VecNormalize(toys(1)), mixture)


class Negated(gym.ObservationWrapper[Any, Any, Any]):
    def observation(self, observation: Any) -> Any:
        return -observation


class Mirrored(gym.ActionWrapper[Any, Any, Any]):
    def action(self, action: Any) -> Any:
        return 3 - action


# Attributes of other wrappers, before gymnasium 1.0.
@pytest.mark.filterwarnings("ignore:.*to get variables from other wrappers is deprecated.*")
@pytest.mark.parametrize(
    "wrap",
    [
        gym.wrappers.NormalizeObservation,
        lambda env: Monitor(gym.wrappers.NormalizeReward(Negated(env))),
        Mirrored,
        MaxAndSkipEnv,
    ],
)
def test_wrappers_that_change_what_is_seen_or_done_are_refused(wrap: Any) -> None:
    model = make_model("PPO-discrete")
    env = ove.LogActionProbability(Toy(), model)
    with pytest.raises(ove.InvalidInputError, match="Put the logging wrapper around"):
        play(wrap(env), model, 1)
    play(Monitor(gym.wrappers.TransformReward(env, lambda r: -float(r))), model, 2)
    outside = ove.LogActionProbability(wrap(Toy()), model)
    play(outside, model, 2)
    assert len(env.trajectories()) == len(outside.trajectories()) == 2


@pytest.mark.filterwarnings("ignore:.*variables from other wrappers")  # of gymnasium 0.29
def test_wrappers_of_several_environments() -> None:
    model = make_model("PPO-discrete")
    uniform = ove.UniformPolicy(Toy().action_space)
    logs = [ove.LogActionProbability(Toy(), model) for _ in range(2)]
    inner = gym.vector.SyncVectorEnv([lambda log=log: log for log in logs])  # type: ignore[misc]
    # One class for both kinds of environments, before gymnasium 1.0.
    normalize = getattr(gym.wrappers, "vector", gym.wrappers).NormalizeObservation
    venv = normalize(inner)
    observations, _ = venv.reset(seed=0)
    with pytest.raises(ove.InvalidInputError, match="NormalizeObservation"):
        venv.step(model.predict(observations.astype(np.float32))[0])
    for log in logs:
        log.set_model(uniform)
    venv.reset(seed=0)
    venv.step(np.array([uniform.action_space.sample() for _ in logs]))
    stacked = VecFrameStack(toys(1), 2)
    run(ove.VecLogActionProbability(stacked, ppo(stacked)), ppo(stacked))


def test_images_are_transposed_by_the_policy() -> None:
    log = ove.VecLogActionProbability(toys(1, observations="image"))
    model = PPO("CnnPolicy", VecTransposeImage(log), n_steps=20, batch_size=20, device="cpu")
    log.set_model(model)
    model.learn(20)
    assert len(log.trajectories()) == 2


def test_an_environment_that_acts_by_itself() -> None:
    """Wrappers outside an environment that runs a logged one do not see its observations."""
    model = make_model("PPO-discrete")
    log = ove.LogActionProbability(Toy(), model)

    class Options(Toy):
        def step(self, action: Any) -> Any:
            play(log, model, 1)
            return super().step(action)

    play(gym.wrappers.NormalizeObservation(Options()), model, 1)
    assert len(log.trajectories()) == 10


def test_a_step_that_no_python_code_calls() -> None:
    policy = ove.TabularPolicy([[0.5, 0.5]], rng=0)
    env = ove.LogActionProbability(OneStep(), policy)
    env.reset(seed=0)
    _thread.start_new_thread(env.step, (int(policy.predict(np.array(0))[0]),))
    for _ in range(1_000):
        with suppress(ove.InvalidInputError):  # no episode yet
            if env.trajectories():
                break
        time.sleep(0.01)
    assert env.trajectories().log_probs.tolist() == [np.log(0.5)]


class OneStep(gym.Env[Any, Any]):
    """One step, reward 1."""

    observation_space = gym.spaces.Discrete(1)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 0, 1.0, True, False, {}
