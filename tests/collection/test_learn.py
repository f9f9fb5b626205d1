"""The wrapper around `learn`: right probabilities for every algorithm, and unchanged training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import NormalActionNoise, VectorizedActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack, VecNormalize

import ove_sb3 as ove
from tests.policies.toys import CASES, Toy, make_model, near, normal_noise, ou_noise, toys

ON_POLICY = ("PPO", "A2C", "TRPO", "RecurrentPPO", "MaskablePPO")


def learner(case: str, venv: Any, **extra: Any) -> Any:
    """A model that learns fast enough to change within a short test, warm-up included."""
    algorithm = CASES[case][0]
    options: dict[str, Any] = {"learning_rate": 3e-4}
    if algorithm in ON_POLICY:
        options["n_steps"] = 7  # updates in the middle of the ten-step episodes
        if algorithm != "A2C":
            options["batch_size"] = 28
        if algorithm in ("PPO", "RecurrentPPO", "MaskablePPO"):
            options["n_epochs"] = 1
        if algorithm == "TRPO":
            options["target_kl"] = 1e-4
    else:
        options |= {"learning_starts": 300, "train_freq": 20, "batch_size": 32}
    if algorithm in ("DQN", "QRDQN"):
        options |= {"exploration_fraction": 0.8, "exploration_final_eps": 0.6}
    if CASES[case][3].get("use_sde"):
        options["sde_sample_freq"] = 1
    return make_model(case, venv=venv, **{**options, **extra})


def check_ratios(data: ove.Trajectories, log_probs: NDArray[np.float64]) -> None:
    """The mean ratio is 1, of single steps and of whole episodes, within four standard errors."""
    log_ratios = log_probs - data.log_probs
    for weights in (np.exp(log_ratios), np.exp(np.add.reduceat(log_ratios, data.starts))):
        assert weights.std() > 0.02, "a test without power"
        error = weights.std(ddof=1) / np.sqrt(len(weights))
        assert abs(weights.mean() - 1.0) < 4.0 * error, f"{weights.mean()} +- {error}"


# sb3-contrib 2.9 cannot train RecurrentPPO on MultiBinary: torch refuses its int8 actions.
LEARNED = [case for case in CASES if case not in ("PPO-image", "RecurrentPPO-multibinary")]


@pytest.mark.parametrize("case", LEARNED)
def test_probabilities_logged_during_learn(case: str) -> None:
    algorithm, space, observations, _ = CASES[case]
    n_envs = 1 if algorithm in ("DQN", "QRDQN") else 8
    venv = ove.VecLogActionProbability(toys(n_envs, actions=space, observations=observations))
    model = learner(case, venv)
    venv.set_model(model)
    candidate = near(model, case)
    before = torch.nn.utils.parameters_to_vector(model.policy.parameters()).detach().clone()
    model.learn(2000 if n_envs == 1 else 2240)
    after = torch.nn.utils.parameters_to_vector(model.policy.parameters())
    assert not torch.equal(before, after)
    data = venv.trajectories()
    assert data.metadata.adaptive
    assert data.metadata.fingerprint is None
    assert (data.lengths == 10).all()
    assert data.n_steps == model.num_timesteps - model.num_timesteps % (10 * n_envs)
    if algorithm not in ON_POLICY:
        # Compare with policies that keep close to what each phase did.
        warm, late = data[: 240 // 10], data[400 // 10 :]
        assert len(np.unique(np.round(warm.log_probs, 5))) == 1 or "noise" in CASES[case][3]
        data = late if algorithm not in ("DQN", "QRDQN") else data
    if algorithm in ("DQN", "QRDQN"):
        candidate = ove.UniformPolicy(model.action_space)
    check_ratios(data, ove.log_prob(candidate, data))


@pytest.mark.parametrize("noise", [normal_noise, ou_noise])
def test_warm_up_with_action_noise(noise: Any) -> None:
    # Uniform plus noise, clipped. The candidate has atoms and a density unlike the uniform's.
    venv = ove.VecLogActionProbability(toys(4, actions="box"))
    model = learner("TD3-box", venv, learning_starts=10**6, action_noise=noise())
    venv.set_model(model)
    model.learn(8000)
    data = venv.trajectories()
    at_bound = (data.actions == data.actions.max(axis=0)).any(axis=1)
    assert 0.1 < at_bound.mean() < 0.5
    candidate = make_model("PPO-box")
    with torch.no_grad():
        candidate.policy.log_std.fill_(0.3)
        candidate.policy.action_net.weight.mul_(0.1)
    ratios = np.exp(ove.log_prob(candidate, data) - data.log_probs)
    error = ratios.std(ddof=1) / np.sqrt(len(ratios))
    assert error < 0.1
    assert abs(ratios.mean() - 1.0) < 4 * error


@pytest.mark.parametrize("n_envs", [1, 3])
def test_ornstein_uhlenbeck_noise_in_learn(n_envs: int) -> None:
    venv = ove.VecLogActionProbability(toys(n_envs, actions="box"))
    model = learner(
        "TD3-box", venv, learning_starts=0, train_freq=50, gradient_steps=1, action_noise=ou_noise()
    )
    venv.set_model(model)
    model.learn(3000)
    model.learn(15 * n_envs, reset_num_timesteps=False)  # resets the noise, not the episodes
    model.learn(3000, reset_num_timesteps=False)
    data = venv.trajectories()
    candidate = make_model(
        "TD3-box", action_noise=NormalActionNoise(np.zeros(2), np.array([0.3, 0.5]))
    )
    candidate.policy.load_state_dict(model.policy.state_dict())
    check_ratios(data, ove.log_prob(candidate, data))
    if n_envs > 1:
        assert isinstance(model.action_noise, VectorizedActionNoise)


def test_ornstein_uhlenbeck_state_is_that_before_the_draw() -> None:
    """Every logged density equals the one computed by hand from the recorded noise."""
    venv = ove.VecLogActionProbability(toys(1, actions="box"))
    noise = ou_noise()
    model = learner(
        "TD3-box", venv, learning_starts=0, train_freq=10, gradient_steps=0, action_noise=noise
    )
    venv.set_model(model)
    drawn: list[NDArray[Any]] = []

    class Watch(BaseCallback):
        def _on_step(self) -> bool:
            drawn.append(np.array(noise.noise_prev))
            return True

    model.learn(40, callback=Watch())
    data = venv.trajectories()
    step = np.arange(40) % 10
    before = np.where((step == 0)[:, None], [0.2, 0.0], np.roll(drawn, 1, axis=0))
    shift = before + 2.0 * (np.array([0.1, -0.1]) - before) * 0.3
    std = np.array([0.8, 1.2]) * np.sqrt(0.3)
    mean, _ = model.predict(data.observations)
    unit = 2 * (mean - model.action_space.low) / (model.action_space.high - model.action_space.low)
    center = unit - 1 + shift
    scaled = model.policy.scale_action(data.actions).astype(float)
    inside = (np.abs(scaled) < 0.999).all(axis=1)
    assert inside.sum() > 10
    z = (scaled - center) / std
    half = (model.action_space.high - model.action_space.low) / 2
    by_hand = (-0.5 * z**2 - np.log(std * half) - 0.5 * np.log(2 * np.pi)).sum(axis=1)
    np.testing.assert_allclose(data.log_probs[inside], by_hand[inside], atol=2e-3)


@pytest.mark.parametrize("algorithm", ["DQN", "SAC"])
def test_warm_up_is_uniform(algorithm: str) -> None:
    case = "DQN-discrete" if algorithm == "DQN" else "SAC-box"
    venv = ove.VecLogActionProbability(toys(1, actions=CASES[case][1]))
    model = learner(case, venv, learning_starts=100)
    venv.set_model(model)
    model.learn(200)
    data = venv.trajectories()
    expected = -np.log(4.0) if algorithm == "DQN" else -np.log(2.0 * 3.0)
    np.testing.assert_allclose(data.log_probs[:100], expected, atol=1e-12)
    assert (np.abs(data.log_probs[100:] - expected) > 1e-3).mean() > 0.9


def test_epsilon_is_read_at_the_draw() -> None:
    venv = ove.VecLogActionProbability(toys(1))
    model = learner("DQN-discrete", venv, learning_starts=0, train_freq=10, gradient_steps=0)
    venv.set_model(model)
    model.exploration_rate = 1.0
    epsilons: list[float] = []

    class Watch(BaseCallback):
        def _on_step(self) -> bool:
            epsilons.append(model.exploration_rate)  # that of the draw: updated afterward
            return True

    model.learn(500, callback=Watch())
    data = venv.trajectories()
    epsilon = np.array(epsilons)
    assert epsilon[0] > 0.9
    assert epsilon[-1] < 0.7
    p = np.exp(data.log_probs)
    explored = np.abs(p - epsilon / 4) < 1e-12
    greedy = np.abs(p - (1 - epsilon + epsilon / 4)) < 1e-12
    assert (explored | greedy).all()
    assert 0 < explored.sum() < 500


@pytest.mark.parametrize("case", ["PPO-discrete", "RecurrentPPO-discrete", "MaskablePPO-discrete"])
def test_logged_values_are_those_of_sb3_at_the_draw(case: str) -> None:
    """SB3's rollout buffer holds the probabilities of the draws, also after later updates."""
    venv = ove.VecLogActionProbability(toys(3))
    model = learner(case, venv)
    venv.set_model(model)
    logged: list[NDArray[Any]] = []

    class Watch(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            logged.append(model.rollout_buffer.log_probs.copy())

    model.learn(3 * 7 * 20, callback=Watch())
    data = venv.trajectories()
    theirs = np.concatenate(logged).reshape(14, 10, 3).swapaxes(1, 2).reshape(-1)
    np.testing.assert_allclose(data.log_probs, theirs, atol=1e-5)


def test_masks_are_those_of_the_draw() -> None:
    venv = ove.VecLogActionProbability(toys(2))
    model = learner("MaskablePPO-discrete", venv)
    venv.set_model(model)
    model.learn(2 * 7 * 20)
    data = venv.trajectories()
    assert data.action_masks is not None
    step = np.tile(np.arange(10), len(data))
    expected = (np.arange(4)[None] + step[:, None]) % 2 == 0
    assert (data.action_masks == expected).all()
    assert data.action_masks[np.arange(data.n_steps), data.actions].all()
    model.learn(2 * 7 * 20, use_masking=False)
    later = venv.trajectories()[len(data) :]
    assert later.action_masks is not None
    assert later.action_masks.all()
    taken = expected[np.arange(data.n_steps) % 10, data.actions]
    assert taken.all()


@pytest.mark.parametrize(
    "case",
    [
        "PPO-discrete",
        "PPO-box",
        "PPO-gsde",
        "RecurrentPPO-box",
        "MaskablePPO-discrete",
        "SAC-box",
        "TD3-box",
        "QRDQN-discrete",
        "CrossQ-box",
    ],
)
def test_training_is_bit_identical(case: str) -> None:
    algorithm, space, _, _ = CASES[case]
    weights = []
    for logged in (False, True):
        inner = toys(1 if algorithm == "QRDQN" else 2, actions=space)
        venv: Any = ove.VecLogActionProbability(inner) if logged else inner
        model = learner(case, venv)
        if logged:
            venv.set_model(model)
        model.learn(600)
        weights.append(torch.nn.utils.parameters_to_vector(model.policy.parameters()).detach())
    assert torch.equal(*weights)


def test_observations_and_rewards_belong_to_their_step() -> None:
    """No reset observations at the end of episodes, and no rewards that SB3 modified in place."""
    venv = ove.VecLogActionProbability(toys(3, early=0.2))
    model = learner("PPO-discrete", venv)
    venv.set_model(model)
    model.learn(600)
    data = venv.trajectories()
    assert len(set(data.lengths)) > 3
    assert (data.rewards == data.actions).all()
    assert (data.lengths[data.truncated] == 10).all()
    assert (data.terminated | data.truncated).all()
    assert data.terminated.any()
    assert data.truncated.any()


class Clock(Toy):
    """Shows the time and the last action."""

    last = -1.0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.last = float(action)
        return super().step(action)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self.last = -1.0
        return super().reset(**options)

    def _observe(self, shift: float) -> Any:
        return np.array([self.time, self.last, shift], np.float32)


def test_observations_are_those_before_the_action() -> None:
    clocks = DummyVecEnv([lambda: Clock(early=0.2) for _ in range(3)])
    venv = ove.VecLogActionProbability(clocks)
    model = learner("PPO-discrete", venv)
    venv.set_model(model)
    model.learn(600)
    for data in (venv.trajectories(), ove.collect(model, clocks, 50, seed=0)):
        step = np.arange(data.n_steps) - np.repeat(data.starts, data.lengths)
        seen = np.asarray(data.observations)
        np.testing.assert_array_equal(seen[:, 0], step)
        before = np.where(step == 0, -1, np.roll(data.actions, 1))
        np.testing.assert_array_equal(seen[:, 1], before)
        final = np.asarray(data.final_observations)
        np.testing.assert_array_equal(final[:, 0], data.lengths)
        np.testing.assert_array_equal(final[:, 1], data.actions[np.cumsum(data.lengths) - 1])


def test_vec_normalize_logs_the_original() -> None:
    inner = toys(2, actions="discrete")
    normalized = VecNormalize(inner, clip_obs=2.0)
    venv = ove.VecLogActionProbability(normalized)
    model = learner("PPO-discrete", venv)
    venv.set_model(model)
    seen: list[NDArray[Any]] = []
    logged: list[NDArray[Any]] = []

    class Watch(BaseCallback):
        def _on_step(self) -> bool:
            seen.append(np.array(normalized.get_original_obs()))
            return True

        def _on_rollout_end(self) -> None:
            logged.append(model.rollout_buffer.log_probs.copy())

    model.learn(2 * 7 * 10, callback=Watch())
    data = venv.trajectories()
    assert (data.rewards == data.actions).all()
    original = np.stack(seen)  # after each step: what the next step starts from
    first = data[0]
    np.testing.assert_array_equal(first.observations[1:], original[:9, 0])  # type: ignore[index]
    theirs = np.concatenate(logged)
    np.testing.assert_allclose(first.log_probs, theirs[:10, 0], atol=1e-5)
    # As a candidate the model normalizes by itself, with its statistics as they are now.
    venv.reset()
    normalized.training = False
    fresh = ove.collect(model, normalized, 4, seed=0)
    stats: Any = normalized.obs_rms
    by_hand = np.clip((fresh.observations - stats.mean) / np.sqrt(stats.var + 1e-8), -2, 2)
    tensor = torch.as_tensor(by_hand, dtype=torch.float32)
    with torch.no_grad():
        _, expected, _ = model.policy.evaluate_actions(
            tensor, torch.as_tensor(fresh.actions.copy())
        )
    np.testing.assert_allclose(fresh.log_probs, expected.numpy(), atol=1e-5)
    again = ove.log_prob(model, fresh.observations, fresh.actions)
    np.testing.assert_allclose(again, expected.numpy(), atol=1e-5)
    assert (fresh.rewards == fresh.actions).all()


def test_subprocesses(tmp_path: Path) -> None:
    inner = SubprocVecEnv([lambda: Toy() for _ in range(2)], start_method="fork")
    venv = ove.VecLogActionProbability(inner, path=tmp_path / "log", flush_every=3)
    model = learner("PPO-discrete", venv)
    venv.set_model(model)
    model.learn(2 * 7 * 10)
    venv.close()
    data = ove.Trajectories.load(tmp_path / "log")
    assert len(data) == 14
    assert (data.rewards == data.actions).all()


def test_frame_stack_is_logged_as_the_policy_sees_it() -> None:
    venv = ove.VecLogActionProbability(VecFrameStack(toys(2), n_stack=3))
    model = PPO("MlpPolicy", venv, n_steps=10, batch_size=20, device="cpu")
    venv.set_model(model)
    model.learn(40)
    data = venv.trajectories()
    assert data.observations.shape == (40, 9)  # type: ignore[union-attr]
    with pytest.raises(ove.InvalidInputError, match="VecNormalize as its outermost wrapper"):
        ove.VecLogActionProbability(VecFrameStack(VecNormalize(toys(2)), n_stack=3))


def test_one_coin_for_all_environments_is_a_warning() -> None:
    venv = ove.VecLogActionProbability(toys(4))
    model = learner("DQN-discrete", venv)
    venv.set_model(model)
    with pytest.warns(ove.DependenceWarning, match="decides once for all of its 4 environments"):
        model.learn(400)


def test_a_shared_noise_matrix_is_refused() -> None:
    for case, frequency in (("PPO-gsde", -1), ("PPO-gsde", 4), ("SAC-gsde", -1)):
        venv = ove.VecLogActionProbability(toys(2, actions="box"))
        extra = {"learning_starts": 0} if case == "SAC-gsde" else {}
        model = learner(case, venv, sde_sample_freq=frequency, **extra)
        venv.set_model(model)
        with pytest.raises(ove.UnsupportedPolicyError, match="sde_sample_freq=1"):
            model.learn(200)


def test_warm_up_of_models_that_learn_later_is_not_taken_for_the_policy() -> None:
    """A custom loop that calls `predict` has no warm-up, whatever `learning_starts` says."""
    venv = ove.VecLogActionProbability(toys(1, actions="box"))
    model = learner("SAC-box", venv, learning_starts=10**6)
    venv.set_model(model)
    observations = venv.reset()
    for _ in range(100):
        actions, _ = model.predict(observations)
        observations, _, _, _ = venv.step(actions)
    data = venv.trajectories()
    assert not data.metadata.adaptive
    assert (ove.log_prob(model, data) == data.log_probs).all()
    again = ove.log_prob(model, data.observations, data.actions)
    np.testing.assert_allclose(again, data.log_probs, atol=1e-4)


def test_model_names_are_kept() -> None:
    assert {cls.__name__ for cls in (PPO, DQN, SAC, TD3)} <= {case[0] for case in CASES.values()}
