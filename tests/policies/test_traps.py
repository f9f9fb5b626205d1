"""Every known trap of action probabilities, with the wrong answer next to the right one."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from scipy import stats
from stable_baselines3.common import preprocessing as sb3_preprocessing
from stable_baselines3.common.vec_env import VecNormalize

import ove_sb3 as ove
from ove_sb3.policies.observations import as_batch, is_image_space

from .toys import CASES, Toy, make_model, near, repeat, toys


def weights(data: ove.Trajectories, log_ratios: Any) -> Any:
    return np.exp(np.add.reduceat(log_ratios, data.starts))


def far_from_one(values: Any) -> bool:
    return bool(abs(values.mean() - 1.0) > 5 * values.std(ddof=1) / np.sqrt(len(values)))


def collected(case: str, n: int = 3000, seed: int = 3) -> tuple[Any, ove.Trajectories, Any]:
    model = make_model(case)
    data = ove.collect(model, toys(50, actions=CASES[case][1]), n, seed=seed)
    return model, data, near(model, case)


def evaluate_actions(model: Any, data: ove.Trajectories) -> Any:
    """SB3's own log-density, taken at the clipped action."""
    with torch.no_grad():
        observations = torch.as_tensor(np.array(data.observations))
        actions = torch.as_tensor(np.array(data.actions))
        return model.policy.evaluate_actions(observations, actions)[1].numpy().astype(float)


def test_density_at_the_clipped_action() -> None:
    model, data, _ = collected("PPO-box")
    candidate = make_model("PPO-box")
    candidate.policy.load_state_dict(model.policy.state_dict())
    with torch.no_grad():
        candidate.policy.log_std += 0.15
    right = weights(data, ove.log_prob(candidate, data) - data.log_probs)
    wrong = weights(data, evaluate_actions(candidate, data) - evaluate_actions(model, data))
    assert not far_from_one(right)
    assert far_from_one(wrong)
    inside = (np.abs(model.policy.scale_action(data.actions)) < 0.999).all(axis=1)
    mine, theirs = data.log_probs, evaluate_actions(model, data)
    np.testing.assert_allclose(mine[inside], theirs[inside], atol=1e-4)
    assert np.abs(mine[~inside] - theirs[~inside]).max() > 0.1


def test_shapes_are_never_broadcast() -> None:
    model, data, _ = collected("PPO-discrete", 5)
    column = ove.log_prob(model, data.observations, data.actions[:, None])
    np.testing.assert_allclose(column, data.log_probs, atol=1e-6)
    model = make_model("PPO-box1")
    data = ove.collect(model, toys(2, actions="box1"), 4, seed=0)
    flat = ove.log_prob(model, data.observations, data.actions[:, 0])
    np.testing.assert_allclose(flat, data.log_probs, atol=1e-5)
    assert flat.shape == (40,)


def test_the_lstm_has_a_memory() -> None:
    model, data, _ = collected("RecurrentPPO-discrete", 50)
    rolled = ove.log_prob(
        model, data.observations, data.actions, lengths=data.lengths, batch_size=64
    )
    np.testing.assert_allclose(rolled, data.log_probs, atol=1e-5)
    forgotten = ove.action_distribution(model, data.observations).log_prob(data.actions)
    first = data.starts
    np.testing.assert_allclose(forgotten[first], data.log_probs[first], atol=1e-5)
    assert np.abs(forgotten - data.log_probs).max() > 0.05
    # Step by step, with the state handed on, it is what SB3 computes.
    episode = data[0]
    state, theirs = None, None
    for t in range(10):
        row = np.array(episode.observations[t : t + 1])  # type: ignore[index]
        start = np.array([t == 0])
        distribution = ove.action_distribution(model, row, state=state, episode_start=start)
        assert distribution.log_prob(episode.actions[t : t + 1])[0] == pytest.approx(
            episode.log_probs[t], abs=1e-5
        )
        state = distribution.state
        _, theirs = model.predict(row, state=theirs, episode_start=start)
        np.testing.assert_allclose(state[0], theirs[0], atol=1e-5)


def test_episodes_of_many_lengths_are_rolled_apart() -> None:
    model = make_model("RecurrentPPO-discrete")
    data = ove.collect(model, toys(7, early=0.2), 60, seed=0)
    assert len(set(data.lengths)) > 5
    for size in (1, 16, 4096):
        again = ove.log_prob(
            model, data.observations, data.actions, lengths=data.lengths, batch_size=size
        )
        np.testing.assert_allclose(again, data.log_probs, atol=1e-5)


def test_every_environment_flips_its_own_coin() -> None:
    model = make_model("DQN-discrete")
    model.exploration_rate = 0.5
    data = ove.collect(model, toys(8), 1600, seed=0)
    explored = (data.log_probs < np.log(0.3)).reshape(-1, 10)
    # Episodes end in groups of eight that ran together: their explorations are independent.
    together = explored.reshape(-1, 8, 10).sum(axis=1).ravel()
    expected = 8 * explored.mean() * (1 - explored.mean())
    assert together.var() == pytest.approx(expected, rel=0.15)


def test_epsilon_of_the_model_and_ties() -> None:
    model = make_model("DQN-discrete")
    with torch.no_grad():  # all values equal: ties go to one action
        for parameter in model.policy.q_net.parameters():
            parameter.zero_()
    p = np.exp(ove.action_distribution(model, np.zeros((1, 3), np.float32)).log_p)  # type: ignore[attr-defined]
    np.testing.assert_allclose(p, [[0.775, 0.075, 0.075, 0.075]])
    model.exploration_rate = 0.0
    data = ove.collect(model, toys(1), 2, seed=0)
    assert (data.actions == 0).all()


@pytest.mark.parametrize("case", ["SAC-box", "TQC-box", "CrossQ-box"])
def test_squashed_density_in_environment_units(case: str) -> None:
    """SB3's own value wants the action in [-1, 1], leaves out the scaling, and adds 1e-6."""
    model, data, _ = collected(case, 50)
    scaled = model.policy.scale_action(data.actions).astype(np.float32)
    model.policy.set_training_mode(False)
    with torch.no_grad():
        observations = torch.as_tensor(np.array(data.observations))
        mean, log_std, _ = model.actor.get_action_dist_params(observations)
        kind = model.actor.action_dist.proba_distribution(mean, log_std)
        theirs = kind.log_prob(torch.as_tensor(scaled)).numpy()
    inside = (np.abs(scaled) < 0.99).all(axis=1)
    assert inside.sum() > 50
    jacobian = np.log((model.action_space.high - model.action_space.low) / 2).sum()
    np.testing.assert_allclose(data.log_probs[inside], (theirs - jacobian)[inside], atol=2e-3)
    assert abs(jacobian) > 0.3


def test_saturated_actions_are_atoms() -> None:
    model = make_model("SAC-box")
    with torch.no_grad():
        model.actor.mu.bias += torch.tensor([9.0, 0.0])
    data = ove.collect(model, toys(20, actions="box"), 400, seed=0)
    assert (data.actions[:, 0] > 0.999999).mean() > 0.3
    assert np.isfinite(data.log_probs).all()
    other = make_model("SAC-box")
    other.policy.load_state_dict(model.policy.state_dict())
    with torch.no_grad():
        other.actor.mu.bias -= 0.1
    ratios = np.exp(ove.log_prob(other, data) - data.log_probs)
    assert not far_from_one(ratios)


@pytest.mark.parametrize("case", ["CrossQ-box", "PPO-discrete", "SAC-box"])
def test_training_mode_is_left_as_it_was(case: str) -> None:
    model, data, _ = collected(case, 10)
    model.policy.set_training_mode(True)
    modes = [module.training for module in model.policy.modules()]
    statistics = {k: v.clone() for k, v in model.policy.state_dict().items()}
    again = ove.log_prob(model, data.observations, data.actions)
    np.testing.assert_allclose(again, data.log_probs, atol=1e-3)
    assert [module.training for module in model.policy.modules()] == modes
    for name, value in model.policy.state_dict().items():
        assert torch.equal(value, statistics[name]), name


def test_distributions_do_not_share_state() -> None:
    model = make_model("PPO-discrete")
    first = ove.action_distribution(model, np.zeros((2, 3), np.float32))
    before = first.log_prob([0, 1]).copy()
    ove.action_distribution(model, np.ones((2, 3), np.float32)).log_prob([0, 1])
    np.testing.assert_array_equal(first.log_prob([0, 1]), before)


def test_images_of_either_layout() -> None:
    model = make_model("PPO-image")
    data = ove.collect(model, toys(2, observations="image"), 3, seed=0)
    assert data.observations.shape[1:] == (36, 36, 1)  # type: ignore[union-attr]
    moved = np.moveaxis(np.asarray(data.observations), -1, 1)
    again = ove.log_prob(model, moved, data.actions)
    np.testing.assert_allclose(again, data.log_probs, atol=1e-5)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 255, (36, 36, 3), np.uint8),
        spaces.Box(0, 255, (3, 36, 36), np.uint8),
        spaces.Box(0, 255, (36, 36), np.uint8),
        spaces.Box(0, 254, (36, 36, 3), np.uint8),
        spaces.Box(0, 255, (36, 36, 3), np.int16),
        spaces.Box(0.0, 1.0, (36, 36, 3), np.float32),
        spaces.MultiBinary((2, 3, 4)),
    ],
    ids=str,
)
def test_images_are_those_of_sb3(space: spaces.Space[Any]) -> None:
    """Images and their channel order are recognized without importing SB3."""
    assert is_image_space(space) == sb3_preprocessing.is_image_space(space)
    if isinstance(space, spaces.Box) and is_image_space(space):
        first = sb3_preprocessing.is_image_space_channels_first(space)
        other = (36, 36, 3) if first else (3, 36, 36)
        assert as_batch(np.zeros((2, *other), np.uint8), space).n == 2
        with pytest.raises(ove.InvalidInputError, match="must be a batch"):
            as_batch(np.zeros((2, 36, 3, 36), np.uint8), space)


def test_short_episodes_are_not_favored() -> None:
    """The first n to finish would be short ones, so each environment contributes a fixed share."""
    model = ove.UniformPolicy(Toy().action_space)
    lengths = np.concatenate(
        [ove.collect(model, toys(20, early=0.3), 20, seed=s).lengths for s in range(150)]
    )
    t = np.arange(1, 11)
    p = 0.3 * 0.7 ** (t - 1)
    p[-1] = 0.7**9
    counts = np.bincount(lengths, minlength=11)[1:]
    assert stats.chisquare(counts, p * counts.sum()).pvalue > 1e-4


def test_normalized_observations_are_not_logged() -> None:
    venv = VecNormalize(toys(4))
    venv.reset()
    for _ in range(50):
        venv.step(np.zeros(4, int))
    model = make_model("PPO-discrete", venv=venv)
    rms: Any = venv.obs_rms
    mean, count = rms.mean.copy(), rms.count
    data = ove.collect(model, venv, 20, seed=0)
    assert (rms.mean == mean).all()
    assert rms.count == count
    bare = make_model("PPO-discrete")
    bare.policy.load_state_dict(model.policy.state_dict())
    assert np.abs(ove.log_prob(bare, data) - data.log_probs).max() > 0.01
    given = ove.log_prob(bare, data, vec_normalize=venv)
    np.testing.assert_allclose(given, data.log_probs, atol=1e-6)


def test_a_policy_without_the_atoms_of_the_candidate() -> None:
    """Behavior SAC never reaches the bounds, candidate TD3 often does: a support violation."""
    behavior = make_model("SAC-box")
    data = ove.collect(behavior, toys(20, actions="box"), 200, seed=0)
    candidate = make_model("TD3-box")
    with pytest.warns(ove.SupportWarning, match="never"):
        ove.log_prob(candidate, data)


def test_reproducible_and_without_global_seeds() -> None:
    model = make_model("PPO-box")
    state = np.random.get_state()[1].copy(), torch.get_rng_state()  # type: ignore[index]  # noqa: NPY002
    first, second = (ove.collect(model, toys(3, actions="box"), 7, seed=5) for _ in range(2))
    np.testing.assert_array_equal(first.actions, second.actions)
    np.testing.assert_array_equal(first.observations, second.observations)
    other = ove.collect(model, toys(3, actions="box"), 7, seed=6)
    assert not np.array_equal(other.actions, first.actions)
    assert (np.random.get_state()[1] == state[0]).all()  # type: ignore[index]  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), state[1])


def test_single_observations_get_a_batch_dimension() -> None:
    model = make_model("PPO-dict")
    distribution = ove.action_distribution(model, {"a": np.zeros(2, np.float32), "b": np.int64(1)})
    assert len(distribution) == 1
    assert distribution.sample(0).shape == (1,)
    assert repeat(1, 2).shape == (2,)


class _Overwriting(gym.Env[Any, Any]):
    """Changes the action it is given in place, and hands out one observation buffer again."""

    observation_space = spaces.Box(-1.0, 10.0, (1,), np.float64)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self) -> None:
        self.buffer = np.zeros(1)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.buffer[:] = 0.0
        return self.buffer, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(action[0])
        action[:] = 0.5
        self.buffer += 1.0
        return self.buffer, reward, bool(self.buffer[0] >= 3.0), False, {}


def test_collect_records_what_the_environment_cannot_change_later() -> None:
    data = ove.collect(ove.UniformPolicy(_Overwriting.action_space), _Overwriting(), 5, seed=0)
    np.testing.assert_array_equal(data.actions[:, 0], data.rewards.astype(np.float32))
    np.testing.assert_array_equal(np.asarray(data.observations)[:, 0], np.tile([0.0, 1.0, 2.0], 5))
