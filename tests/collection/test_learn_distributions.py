"""Actions drawn in `learn` follow the logged distribution, for every algorithm and the warm-up."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sb3_contrib import ARS
from stable_baselines3 import PPO
from stable_baselines3.common.noise import OrnsteinUhlenbeckActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import ove_sb3 as ove
from ove_sb3.collection.action_source import ActionSource
from ove_sb3.policies import box
from ove_sb3.policies.dispatch import as_policy
from ove_sb3.policies.sb3.actor_critic import ActorCriticAdapter
from ove_sb3.policies.sb3.dqn import GreedyAdapter
from ove_sb3.policies.sb3.noise import GaussianNoise
from tests.policies.distribution_checks import check_uniform, columns, pit
from tests.policies.toys import CASES, Toy, make_model, toys

from .spy import Spy

ON_POLICY = ("PPO", "A2C", "TRPO", "RecurrentPPO", "MaskablePPO")
WARM_UP = 800  # a third of what off-policy algorithms do here
# sb3-contrib 2.9 cannot train RecurrentPPO on MultiBinary: torch refuses its int8 actions.
CELLS = [case for case in CASES if case != "RecurrentPPO-multibinary"]


def learner(case: str, venv: Any, **extra: Any) -> Any:
    """A model that learns in few big steps, so that one step changes its distribution a lot."""
    algorithm = CASES[case][0]
    options: dict[str, Any] = {"learning_rate": 0.02 if algorithm in ON_POLICY else 0.003}
    if algorithm in ON_POLICY:
        options["n_steps"] = 35 if CASES[case][2] != "image" else 20
        if algorithm != "A2C":
            options["batch_size"] = 2 * options["n_steps"]
        if algorithm in ("PPO", "MaskablePPO"):
            options |= {"clip_range": 1.0, "n_epochs": 10 if algorithm == "PPO" else 3}
        if algorithm == "RecurrentPPO":
            options |= {"batch_size": 280, "n_epochs": 3}
        if algorithm == "TRPO":
            options["target_kl"] = 0.05
    else:
        options |= {"learning_starts": WARM_UP, "train_freq": 20, "batch_size": 32}
    if algorithm in ("DQN", "QRDQN"):
        options |= {"exploration_initial_eps": 0.8, "exploration_final_eps": 0.5}
        options["exploration_fraction"] = 0.8
    if CASES[case][3].get("use_sde"):
        options["sde_sample_freq"] = 1
    model = make_model(case, venv=venv, **{**options, **extra})
    if algorithm == "RecurrentPPO":  # a memory that matters
        with torch.no_grad():
            for parameter in model.policy.lstm_actor.parameters():
                parameter.mul_(3.0)
            model.policy.action_net.weight.mul_(5.0)
    return model


def slow_noise() -> OrnsteinUhlenbeckActionNoise:
    sigma = np.array([0.4, 0.6])
    return OrnsteinUhlenbeckActionNoise(np.zeros(2), sigma, theta=0.3, dt=0.3)


def learn(
    case: str,
    spy: Spy,
    *,
    n_envs: int | None = None,
    wrap: Callable[[Any], Any] | None = None,
    **extra: Any,
) -> NDArray[np.float64]:
    """Train with a logging wrapper; return the uniforms, (n_steps, n_envs, columns)."""
    algorithm, space, observations, _ = CASES[case]
    n_envs = n_envs or (1 if algorithm in ("DQN", "QRDQN") else 8)
    inner = toys(n_envs, actions=space, observations=observations, early=0.1)
    venv = ove.VecLogActionProbability(inner if wrap is None else wrap(inner))
    model = learner(case, venv, **extra)
    venv.set_model(model)
    before = torch.nn.utils.parameters_to_vector(model.policy.parameters()).detach().clone()
    model.learn(2400 if observations != "image" else 800)
    after = torch.nn.utils.parameters_to_vector(model.policy.parameters())
    assert not torch.equal(before, after)
    return uniforms(spy, venv.trajectories())


def uniforms(spy: Spy, data: ove.Trajectories) -> NDArray[np.float64]:
    rng = np.random.default_rng(5)
    phases, order = spy.phases(), spy.logged_order()
    # The log holds the distribution's value for the executed action, to the last bit.
    claimed = np.concatenate([distribution.log_prob(actions) for distribution, actions in phases])
    np.testing.assert_array_equal(data.log_probs, claimed[order])
    executed = np.concatenate([actions for _, actions in phases])
    np.testing.assert_array_equal(data.actions, executed[order])
    assert np.isfinite(claimed).all(), "an action of probability 0 was drawn"
    u = np.concatenate([pit(distribution, actions, rng) for distribution, actions in phases])
    return u.reshape(len(spy.steps), -1, columns(phases[0][0]))


@pytest.mark.parametrize("case", CELLS)
def test_draws_in_learn_follow_the_logged_distribution(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_uniform(learn(case, Spy(monkeypatch)))


@pytest.mark.parametrize("case", ["TD3-box", "DDPG-box"])
def test_with_noise_that_remembers(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ornstein-Uhlenbeck noise, on its own and on top of the uniform actions of the warm-up."""
    spy = Spy(monkeypatch)
    check_uniform(learn(case, spy, action_noise=slow_noise()))
    assert len(spy.phases()) == 2


@pytest.mark.parametrize("case", ["PPO-box", "RecurrentPPO-discrete", "DQN-discrete", "SAC-box"])
def test_under_statistics_that_change(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """VecNormalize keeps updating the mean and variance of the observations."""
    check_uniform(learn(case, Spy(monkeypatch), wrap=VecNormalize))


@pytest.mark.parametrize("case", ["A2C-multibinary", "QRDQN-discrete", "SAC-box", "TD3-box"])
def test_with_the_wrapper_of_a_single_environment(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy(monkeypatch)
    env = ove.LogActionProbability(Toy(CASES[case][1], early=0.1))
    model = learner(case, DummyVecEnv([lambda: env]))
    env.set_model(model)
    model.learn(1500)
    check_uniform(uniforms(spy, env.trajectories()))


def test_the_phases_are_those_of_the_algorithm(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    learn("SAC-box", spy)
    (warm, _), (later, _) = spy.phases()
    assert (len(warm), len(later)) == (WARM_UP, 2400 - WARM_UP)


def test_ars_is_refused() -> None:
    """ARS acts deterministically, with perturbed weights that change every few episodes."""
    venv = ove.VecLogActionProbability(toys(1))
    model = ARS("MlpPolicy", venv, n_delta=2, device="cpu", seed=0)
    venv.set_model(model)
    with pytest.raises(ove.UnsupportedPolicyError, match="ARS while it learns"):
        model.learn(100)


# --- wrong distributions, each of which the test above must notice

Patch = pytest.MonkeyPatch


def scaled(owner: Any, name: str, by: float) -> Callable[[Patch], None]:
    original = getattr(owner, name)

    def plant(patch: Patch) -> None:
        if isinstance(original, property):
            get: Any = original.fget
            patch.setattr(owner, name, property(lambda self: by * get(self)))
        else:
            patch.setattr(owner, name, lambda *args: by * original(*args))

    return plant


def noise_sd(patch: Patch) -> None:
    original = GaussianNoise.parameters

    def parameters(*args: Any) -> Any:
        mean, sd = original(*args)
        return mean, 1.2 * sd

    patch.setattr(GaussianNoise, "parameters", parameters)


def policy_sd(patch: Patch) -> None:
    original = box._positive
    patch.setattr(box, "_positive", lambda sd: original(1.2 * sd))


def no_warm_up(patch: Patch) -> None:
    patch.setattr(ActionSource, "_warming_up", lambda self: False)


def no_masks(patch: Patch) -> None:
    patch.setattr(ActorCriticAdapter, "_masks", lambda *_: None)


def no_memory(patch: Patch) -> None:
    patch.setattr(ActionSource, "_state_before_draw", lambda self: None)


def no_episode_ends(patch: Patch) -> None:
    def end_step(self: ActionSource, dones: Any) -> None:
        self._start[:] = False

    patch.setattr(ActionSource, "end_step", end_step)


def first_epsilon(patch: Patch) -> None:
    patch.setattr(GreedyAdapter, "epsilon", property(lambda adapter: 0.8))


def first_policy(patch: Patch) -> None:
    """Distribution of the policy that training started from."""
    original = ActionSource.__init__

    def start(source: ActionSource, model: Any, *args: Any) -> None:
        original(source, model, *args)
        source.policy = as_policy(copy.deepcopy(model.policy))

    patch.setattr(ActionSource, "__init__", start)


def other_update(by: int) -> Callable[[Patch], None]:
    """Distribution of the policy of another rollout, `by` updates away from the draw."""

    def plant(patch: Patch) -> None:
        train, distribution = PPO.train, ActorCriticAdapter.distribution
        policies: list[Any] = []

        def kept(model: Any) -> None:
            policies.append(copy.deepcopy(model.policy))
            train(model)

        with pytest.MonkeyPatch.context() as first:
            first.setattr(PPO, "train", kept)
            learn("PPO-discrete", Spy(first))
        updates = [0]

        def counted(model: Any) -> None:
            updates[0] += 1
            train(model)

        def shifted(adapter: Any, *args: Any, **kwargs: Any) -> Any:
            at = min(max(updates[0] + by, 0), len(policies) - 1)
            return distribution(ActorCriticAdapter(policies[at], None), *args, **kwargs)

        patch.setattr(PPO, "train", counted)
        patch.setattr(ActorCriticAdapter, "last_log_probs", lambda *_: None)
        patch.setattr(ActorCriticAdapter, "distribution", shifted)

    return plant


WRONG: dict[str, tuple[str, Callable[[Patch], None]]] = {
    "policy before the last update": ("PPO-discrete", other_update(-1)),
    "policy after the next update": ("PPO-discrete", other_update(1)),
    "policy at the start": ("SAC-box", first_policy),
    "epsilon 20% too small": ("DQN-discrete", scaled(GreedyAdapter, "epsilon", 0.8)),
    "epsilon of the first step": ("QRDQN-discrete", first_epsilon),
    "warm-up as the policy (DQN)": ("DQN-discrete", no_warm_up),
    "warm-up as the policy (SAC)": ("SAC-box", no_warm_up),
    "warm-up as the policy (TD3)": ("TD3-box", no_warm_up),
    "action noise 20% too wide": ("DDPG-box", noise_sd),
    "Gaussian 20% too wide": ("A2C-box", policy_sd),
    "squashed Gaussian 20% too wide": ("CrossQ-box", policy_sd),
    "gSDE 20% too wide": ("PPO-gsde", policy_sd),
    "masks ignored": ("MaskablePPO-discrete", no_masks),
    "masks ignored (MultiDiscrete)": ("MaskablePPO-multidiscrete", no_masks),
    "LSTM without memory": ("RecurrentPPO-discrete", no_memory),
    "LSTM never reset": ("RecurrentPPO-discrete", no_episode_ends),
    "noise without memory": ("TD3-box", no_memory),
    "noise never reset": ("TD3-box", no_episode_ends),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_distribution_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, plant = WRONG[name]
    extra: dict[str, Any] = {"action_noise": slow_noise()} if name.startswith("noise ") else {}
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=r"^(KS|chi-square) of|probability 0"):
        check_uniform(learn(case, Spy(monkeypatch), **extra))


def test_one_coin_for_several_environments_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marginals are correct, but environments are dependent, as the wrapper warns."""
    with pytest.warns(ove.DependenceWarning):
        u = learn("DQN-discrete", Spy(monkeypatch), n_envs=4)
    with pytest.raises(AssertionError, match="differences between environments"):
        check_uniform(u)
