"""Built-in policies: their distributions, SB3's predict protocol, and bounds on ratios."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.evaluation import evaluate_policy

import ove_sb3 as ove

from .distribution_checks import check_distribution
from .toys import (
    ACTIONS,
    OBSERVATIONS,
    make_model,
    near,
    one_observation,
    ou_noise,
    repeat,
    toys,
)

ONE = np.zeros((1, 3), np.float32)


def policies(space: str) -> dict[str, Any]:
    case = f"PPO-{space}"
    model = make_model(case)
    built: dict[str, Any] = {
        "uniform": ove.UniformPolicy(ACTIONS[space]),
        "mixture": ove.MixturePolicy([model, ove.UniformPolicy(ACTIONS[space])], [0.7, 0.3]),
    }
    if space != "box1":  # and components of a mixture are not independent in more dimensions
        built["epsilon"] = ove.EpsilonGreedyPolicy(model, 0.4)
    return built


@pytest.mark.parametrize("space", ["discrete", "multidiscrete", "multibinary", "box1"])
def test_draws_follow_the_distribution(space: str) -> None:
    for name, policy in policies(space).items():
        policy._rng = np.random.default_rng(1)
        observations = np.repeat(ONE, 20_000, axis=0)
        draws, _ = policy.predict(observations)
        check_distribution(ove.action_distribution(policy, observations), draws)
        data = ove.collect(policy, toys(3, actions=space), 6, seed=0)
        assert (ove.log_prob(policy, data) == data.log_probs).all(), name


def test_a_mixture_bounds_the_ratio() -> None:
    model = make_model("PPO-box")
    other = near(model, "PPO-box", 0.5)
    mixture = ove.MixturePolicy([model, other], [0.25, 0.75])
    assert mixture.max_ratio(model) == 4.0
    data = ove.collect(mixture, toys(20, actions="box"), 400, seed=0)
    ratios = np.exp(ove.log_prob(model, data) - data.log_probs)
    assert 3.0 < ratios.max() <= 4.0 + 1e-6
    with pytest.raises(ove.InvalidInputError, match="one of the 2 policies"):
        mixture.max_ratio(make_model("PPO-box"))
    with pytest.raises(ove.InvalidInputError, match="add up to 1"):
        ove.MixturePolicy([model, other], [0.5, 0.6])
    with pytest.raises(ove.InvalidInputError, match="one entry per policy"):
        ove.MixturePolicy([model, other], [1.0])
    with pytest.raises(ove.InvalidInputError, match="share the action space"):
        ove.MixturePolicy([model, make_model("PPO-discrete")], [0.5, 0.5])
    with pytest.raises(ove.UnsupportedPolicyError, match="Ornstein-Uhlenbeck noise in a mixture"):
        ove.MixturePolicy([make_model("TD3-box", action_noise=ou_noise())], [1.0])


def test_a_mixture_with_memory() -> None:
    memory, plain = make_model("RecurrentPPO-discrete"), make_model("PPO-discrete")
    mixture = ove.MixturePolicy([memory, plain], [0.5, 0.5])
    data = ove.collect(mixture, toys(5, early=0.1), 100, seed=0)
    again = ove.log_prob(mixture, data.observations, data.actions, lengths=data.lengths)
    np.testing.assert_allclose(again, data.log_probs, atol=1e-5)
    ratios = np.exp(ove.log_prob(memory, data) - data.log_probs)
    assert ratios.max() <= 2.0 + 1e-4


def test_tables_and_softmax() -> None:
    table = np.array([[0.1, 0.9], [1.0, 0.0]])
    distribution = ove.action_distribution(ove.TabularPolicy(table), np.array([0, 1, 1]))
    np.testing.assert_allclose(np.exp(distribution.log_prob([1, 0, 1])), [0.9, 1.0, 0.0])
    soft = ove.SoftmaxPolicy(np.log(np.array([[1.0, 3.0]])), temperature=0.5)
    distribution = ove.action_distribution(soft, np.array([0]))
    assert np.exp(distribution.log_prob([1]))[0] == pytest.approx(0.9)
    single, _ = ove.TabularPolicy(table).predict(np.int64(1))
    assert single == 0
    dqn = make_model("DQN-discrete")
    values = dqn.q_net(dqn.policy.obs_to_tensor(ONE)[0]).detach().numpy()[0].astype(float)
    distribution = ove.action_distribution(ove.SoftmaxPolicy(dqn, 2.0), ONE)
    expected = np.exp(values / 2) / np.exp(values / 2).sum()
    np.testing.assert_allclose(np.exp(distribution.log_p[0]), expected, atol=1e-6)  # type: ignore[attr-defined]
    with pytest.raises(ove.InvalidInputError, match=r"add up to 1 in every row.*row 1"):
        ove.TabularPolicy([[0.5, 0.5], [0.5, 0.6]])
    with pytest.raises(ove.InvalidInputError, match="states from 0 to 1"):
        ove.action_distribution(ove.TabularPolicy(table), np.array([2]))
    with pytest.raises(ove.UnsupportedPolicyError, match="action values"):
        ove.SoftmaxPolicy(make_model("PPO-discrete"))


def test_epsilon_greedy_of_a_bare_policy() -> None:
    dqn = make_model("DQN-discrete")
    greedy, _ = dqn.predict(ONE, deterministic=True)
    for policy in (dqn, dqn.policy):  # the model's own exploration is left out
        distribution = ove.action_distribution(ove.EpsilonGreedyPolicy(policy, 0.2), ONE)
        assert np.exp(distribution.log_prob(greedy))[0] == pytest.approx(0.85)
    with pytest.raises(ove.UnsupportedPolicyError, match="no density"):
        ove.EpsilonGreedyPolicy(make_model("PPO-box"), 0.1)
    with pytest.raises(ove.InvalidInputError, match="`epsilon` must lie in"):
        ove.EpsilonGreedyPolicy(dqn, 1.5)


def test_they_work_with_sb3() -> None:
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv

    from .toys import Toy

    venv = DummyVecEnv([lambda: Monitor(Toy()) for _ in range(2)])
    for policy in policies("discrete").values():
        mean, _ = evaluate_policy(policy, venv, n_eval_episodes=20, deterministic=False)
        assert 5.0 < float(mean) < 25.0  # type: ignore[arg-type]


def test_uniform_spaces() -> None:
    shifted = spaces.Discrete(3, start=5)
    distribution = ove.action_distribution(ove.UniformPolicy(shifted), ONE)
    assert distribution.sample(0)[0] in (5, 6, 7)
    np.testing.assert_allclose(distribution.log_prob([7]), -np.log(3))
    with pytest.raises(ove.InvalidInputError, match="Discrete, MultiDiscrete or MultiBinary"):
        ove.UniformPolicy(spaces.MultiBinary((2, 2)))


def test_one_observation_or_a_batch_by_the_space() -> None:
    """The shape of the observation space decides, as in `BasePolicy.predict`."""
    for observations, space in OBSERVATIONS.items():
        space.seed(3)
        one, batch = space.sample(), repeat(space.sample(), 3)
        for name, actions in ACTIONS.items():
            policy = ove.UniformPolicy(actions, space)
            action, state = policy.predict(one)
            assert actions.contains(action), (observations, name)
            assert state is None
            drawn, state = policy.predict(batch)
            assert drawn.shape == (3, *(actions.shape or ()))
            assert state is None
    four = ove.UniformPolicy(spaces.Discrete(2), spaces.Box(-1.0, 1.0, (4,)))
    assert four.predict(np.zeros(4))[0].shape == ()
    assert four.predict(np.zeros((1, 4)))[0].shape == (1,)
    with pytest.raises(ove.InvalidInputError, match=r"got shape \(5,\)"):
        four.predict(np.zeros(5))
    table = ove.TabularPolicy([[0.5, 0.5], [0.0, 1.0]])  # Discrete: a vector is a batch
    assert table.predict(np.int64(1))[0] == 1
    assert table.predict(1)[0].shape == ()
    np.testing.assert_array_equal(table.predict(np.array([1, 1, 1]))[0], [1, 1, 1])


def test_one_observation_or_a_batch_without_a_space() -> None:
    """Vectors and scalars are one observation, everything else is a batch."""
    uniform = ove.UniformPolicy(spaces.Discrete(2))
    for policy in (
        uniform,
        ove.MixturePolicy([uniform], [1.0]),
        ove.EpsilonGreedyPolicy(uniform, 0.1),
    ):
        for one in (np.zeros(4), np.float32(1.0), 3, {"a": np.zeros(2), "b": np.int64(1)}):
            action, state = policy.predict(one)
            assert action.shape == ()
            assert state is None
        dicts = {"a": np.zeros((3, 2)), "b": np.zeros(3)}
        for batch in (np.zeros((3, 4)), np.zeros((3, 8, 8, 1)), dicts):
            assert policy.predict(batch)[0].shape == (3,)
    box = ove.UniformPolicy(ACTIONS["box"])
    assert box.predict(np.zeros(4))[0].shape == (2,)
    assert box.predict(np.zeros((1, 4)))[0].shape == (1, 2)
    with pytest.raises(ove.InvalidInputError, match="must be a batch"):
        uniform.predict({"image": np.zeros((8, 8)), "number": np.zeros(3)})


def test_predict_agrees_with_the_models_of_sb3() -> None:
    """Actions have the same shapes for the same observations."""
    for case in ("PPO-discrete", "PPO-multidiscrete", "PPO-box", "PPO-dict"):
        model = make_model(case)
        policy = ove.MixturePolicy([model], [1.0])
        one = one_observation(case)
        for observation in (one, repeat(one, 1), repeat(one, 5)):
            assert policy.predict(observation)[0].shape == model.predict(observation)[0].shape


def test_states_outside_the_table() -> None:
    for policy in (ove.TabularPolicy([[0.5, 0.5]]), ove.SoftmaxPolicy([[0.0, 1.0]])):
        for state in (-1, 1):
            with pytest.raises(ove.InvalidInputError, match="states from 0 to 0"):
                policy.predict(np.array([0, state]))


def test_softmax_of_a_bare_policy() -> None:
    for case in ("DQN-discrete", "QRDQN-discrete"):
        model = make_model(case)
        for soft in (ove.SoftmaxPolicy(model), ove.SoftmaxPolicy(model.policy)):
            expected, _ = model.predict(ONE, deterministic=True)
            np.testing.assert_array_equal(soft.predict(ONE, deterministic=True)[0], expected)
