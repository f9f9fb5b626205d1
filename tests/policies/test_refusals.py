"""Every unsupported case is refused, with an error that says what to do."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib import ARS
from stable_baselines3 import DDPG, DQN, PPO, TD3
from stable_baselines3.common.noise import ActionNoise, NormalActionNoise
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import DummyVecEnv
from stable_baselines3.dqn import policies as dqn
from stable_baselines3.sac import policies as sac
from stable_baselines3.td3 import policies as td3

import ove_sb3 as ove

from .toys import CASES, Toy, make_model, normal_noise, ou_noise, repeat, toys

OBSERVATIONS = np.zeros((3, 3), np.float32)
SMALL: dict[str, Any] = {"device": "cpu", "buffer_size": 10}
Unsupported = ove.UnsupportedPolicyError


def distribution(model: Any, **options: Any) -> ove.ActionDistribution:
    return ove.action_distribution(model, OBSERVATIONS, **options)


def test_deterministic_policies_on_a_box() -> None:
    for case in ("PPO-box", "SAC-box"):
        with pytest.raises(ove.InvalidInputError, match=r"`deterministic` must be False.*noise"):
            distribution(make_model(case), deterministic=True)
    model = make_model("TD3-box")
    model.action_noise = None
    with pytest.raises(Unsupported, match=r"must have action noise.*NormalActionNoise"):
        distribution(model)
    with pytest.raises(Unsupported, match="ARS is deterministic"):
        distribution(ARS("MlpPolicy", toys(actions="box"), device="cpu"))


def test_deterministic_policies_with_discrete_actions() -> None:
    model = make_model("PPO-discrete")
    mode, _ = model.predict(OBSERVATIONS, deterministic=True)
    p = np.exp([distribution(model, deterministic=True).log_prob([a] * 3) for a in range(4)])
    assert (p == (np.arange(4)[:, None] == mode)).all()
    data = ove.collect(model, toys(2), 4, seed=0, deterministic=True)
    assert (data.log_probs == 0).all()
    assert (ove.log_prob(model, data, deterministic=True) == 0).all()
    assert (ove.log_prob(model, data) < 0).all()
    ars = ARS("MlpPolicy", toys(), device="cpu", seed=0)
    chosen, _ = ars.predict(OBSERVATIONS)
    assert (distribution(ars).log_prob(chosen) == 0).all()
    assert (distribution(ars).log_prob((chosen + 1) % 4) == -np.inf).all()


def test_masks() -> None:
    model = make_model("MaskablePPO-discrete")
    with pytest.raises(ove.InvalidInputError, match="`action_masks` must be given"):
        distribution(model)
    masks = np.ones((3, 4), bool)
    masks[1] = False
    with pytest.raises(ove.InvalidInputError, match=r"at least one choice.*row 1"):
        distribution(model, action_masks=masks)
    with pytest.raises(ove.InvalidInputError, match=r"shape \(3, 4\)"):
        distribution(model, action_masks=np.ones((3, 5), bool))
    multi = make_model("MaskablePPO-multidiscrete")
    with pytest.raises(ove.InvalidInputError, match="at least one choice"):
        distribution(multi, action_masks=[[True, True, True, False, False]] * 3)
    with pytest.raises(ove.InvalidInputError, match="method `action_masks`"):
        ove.collect(model, gym.wrappers.TimeLimit(_Unmasked(), 5), 1)


class _Unmasked(Toy):
    action_masks = property()


def test_other_cases() -> None:
    recurrent = make_model("RecurrentPPO-box")
    recurrent.policy._squash_output = True
    with pytest.raises(Unsupported, match="squash_output"):
        distribution(recurrent)
    sac = make_model("SAC-box", action_noise=normal_noise())
    with pytest.raises(Unsupported, match="no action noise besides"):
        distribution(sac)
    with pytest.raises(Unsupported, match="register_policy"):
        ove.action_distribution(object(), OBSERVATIONS)
    with pytest.raises(Unsupported, match=r"EpsilonGreedyPolicy\(policy"):
        distribution(make_model("DQN-discrete").policy)
    with pytest.raises(Unsupported, match="with its action noise"):
        distribution(make_model("TD3-box").policy)
    with pytest.raises(Unsupported, match="positive sigma"):
        distribution(
            make_model("TD3-box", action_noise=NormalActionNoise(np.zeros(2), np.zeros(2)))
        )
    with pytest.raises(Unsupported, match="NormalActionNoise or Ornstein"):
        distribution(make_model("TD3-box", action_noise=_Strange()))


class _Strange(ActionNoise):
    def __call__(self) -> np.ndarray:
        return np.zeros(2)


def test_an_ornstein_uhlenbeck_candidate() -> None:
    model = make_model("TD3-box", action_noise=ou_noise())
    data = ove.collect(model, toys(3, actions="box"), 6, seed=0)
    assert (ove.log_prob(model, data) == data.log_probs).all()
    other = make_model("TD3-box", seed=1, action_noise=ou_noise())
    with pytest.raises(Unsupported, match="clipping hides it"):
        ove.log_prob(other, data)


def test_classes_that_act_by_themselves() -> None:
    class Own(ActorCriticPolicy):
        def _predict(self, observation: Any, deterministic: bool = False) -> torch.Tensor:
            return torch.zeros(len(observation), dtype=torch.int64)

    with pytest.raises(Unsupported, match=r"overrides `_predict`.*register_policy"):
        distribution(PPO(Own, toys(), device="cpu"))

    class Lazy(DQN):
        def predict(self, *args: Any, **kwargs: Any) -> Any:
            return super().predict(*args, **{**kwargs, "deterministic": True})

    with pytest.raises(Unsupported, match="overrides `predict`"):
        distribution(Lazy("MlpPolicy", toys(), device="cpu", buffer_size=10))


def test_networks_that_act_by_themselves() -> None:
    """Even if they have the name of the class they replace."""

    def of_td3(name: str, method: str) -> type:
        return type(name, (td3.Actor,), {method: lambda self, *args: torch.zeros(1, 2)})

    for name in ("Own", "Actor"):
        for method in ("forward", "extract_features"):

            class OwnActor(td3.TD3Policy):
                actor_class = of_td3(name, method)

                def make_actor(self, features_extractor: Any = None) -> Any:
                    options = self._update_features_extractor(self.actor_kwargs, features_extractor)
                    return self.actor_class(**options)

            for cls in (TD3, DDPG):
                model = cls(OwnActor, toys(actions="box"), action_noise=normal_noise(), **SMALL)
                with pytest.raises(Unsupported, match=rf"overrides `{method}`.*register_policy"):
                    distribution(model)

    class OwnPolicy(td3.TD3Policy):
        def _predict(self, observation: Any, deterministic: bool = False) -> torch.Tensor:
            return -super()._predict(observation, deterministic)

    model = TD3(OwnPolicy, toys(actions="box"), action_noise=normal_noise(), **SMALL)
    with pytest.raises(Unsupported, match=r"TD3Policy does, .*OwnPolicy overrides `_predict`"):
        distribution(model)
    model = make_model("TD3-box")
    model.policy.actor = torch.nn.Linear(3, 2)
    with pytest.raises(
        Unsupported, match="through the class Actor of stable-baselines3, got Linear"
    ):
        distribution(model)

    class QNetwork(dqn.QNetwork):
        def forward(self, obs: Any) -> torch.Tensor:
            return -super().forward(obs)

    class OwnValues(dqn.DQNPolicy):
        def make_q_net(self) -> dqn.QNetwork:
            return QNetwork(**self._update_features_extractor(self.net_args)).to(self.device)

    class Greedier(dqn.DQNPolicy):
        def _predict(self, obs: Any, deterministic: bool = True) -> torch.Tensor:
            return torch.zeros(len(obs), dtype=torch.int64)

    for policy, name in ((OwnValues, "forward"), (Greedier, "_predict")):
        with pytest.raises(Unsupported, match=f"overrides `{name}`"):
            distribution(DQN(policy, toys(), **SMALL))

    class Actor(sac.Actor):
        def forward(self, obs: Any, deterministic: bool = False) -> torch.Tensor:
            return super().forward(obs, True)

    model = make_model("SAC-box")
    model.policy.actor.__class__ = Actor
    with pytest.raises(Unsupported, match="overrides `forward`"):
        distribution(model)


def test_registration() -> None:
    class Mine:
        observation_space = Toy().observation_space
        action_space = Toy().action_space

    def uniform(model: Any, observations: Any, **_: Any) -> ove.ActionDistribution:
        policy = ove.UniformPolicy(model.action_space)
        return ove.action_distribution(policy, observations)

    with pytest.raises(Unsupported, match="Mine"):
        distribution(Mine())
    ove.register_policy(Mine, uniform)
    data = ove.collect(Mine(), toys(2), 6, seed=0)
    np.testing.assert_allclose(data.log_probs, -np.log(4))
    np.testing.assert_allclose(ove.log_prob(Mine(), data), -np.log(4))
    with pytest.raises(ove.InvalidInputError, match="`cls` must be a class"):
        ove.register_policy(Mine(), uniform)  # type: ignore[arg-type]
    with pytest.raises(ove.InvalidInputError, match="must be callable"):
        ove.register_policy(Mine, 3)  # type: ignore[arg-type]


def test_spaces_that_do_not_fit() -> None:
    data = ove.collect(make_model("PPO-discrete"), toys(2), 4, seed=0)
    with pytest.raises(ove.InvalidInputError, match="action space of the log"):
        ove.log_prob(make_model("PPO-box"), data)
    with pytest.raises(ove.InvalidInputError, match="action space of `env`"):
        ove.collect(make_model("PPO-box"), toys(2), 4)
    with pytest.raises(ove.InvalidInputError, match="different environments"):
        ove.log_prob(make_model("PPO-discrete"), np.zeros((5, 7)), np.zeros(5))
    with pytest.raises(ove.InvalidInputError, match="must be a dict"):
        ove.log_prob(make_model("PPO-dict"), np.zeros((5, 3)), np.zeros(5))
    with pytest.raises(ove.InvalidInputError, match="gymnasium id"):
        ove.collect(make_model("PPO-discrete"), object(), 4)
    with pytest.raises(ove.InvalidInputError, match="`n_envs` must be 1"):
        ove.collect(make_model("PPO-discrete"), toys(2), 4, n_envs=3)
    narrow = spaces.Box(np.array([1e6], np.float32), np.array([1e6 + 0.25], np.float32))
    with pytest.raises(ove.InvalidInputError, match="dtype can tell apart"):
        ove.UniformPolicy(narrow)
    with pytest.raises(ove.InvalidInputError, match="bounded for a uniform distribution"):
        ove.UniformPolicy(spaces.Box(-np.inf, np.inf, (1,)))


class _Other(Toy):
    """An environment with another observation space than the model's."""

    def __init__(self, space: Any) -> None:
        super().__init__()
        self.observation_space = space


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1.0, 1.0, (5,)),
        spaces.Discrete(3),
        spaces.Dict({"a": spaces.Box(-1.0, 1.0, (3,))}),
    ],
)
def test_observations_that_do_not_fit(space: Any) -> None:
    model = make_model("PPO-discrete")
    both = r"observation space of `env`, (Box\(.*\(5,\)|Discrete\(3\)|Dict).*got Box\(.*\(3,\)"
    with pytest.raises(ove.InvalidInputError, match=both):
        ove.collect(model, _Other(space), 2)
    with pytest.raises(ove.InvalidInputError, match=both):
        ove.LogActionProbability(_Other(space), model)
    with pytest.raises(ove.InvalidInputError, match=both):
        ove.VecLogActionProbability(DummyVecEnv([lambda: _Other(space)]), model)
    with pytest.raises(ove.InvalidInputError, match="action space of `env`"):
        ove.LogActionProbability(Toy("box"), model)


def test_observations_that_cannot_be_logged() -> None:
    class Unused(_Other):
        def reset(self, **_: Any) -> Any:
            raise AssertionError("refused too late")

    env = Unused(spaces.Tuple((spaces.Discrete(3), spaces.Discrete(2))))
    policy = ove.UniformPolicy(env.action_space)
    for refused in (
        lambda: ove.collect(policy, env, 2),
        lambda: ove.LogActionProbability(env, policy),
    ):
        with pytest.raises(ove.InvalidInputError, match=r"got Tuple.*spaces\.flatten"):
            refused()


CASES_OF_NAN = ("PPO-discrete", "PPO-box", "PPO-dict", "RecurrentPPO-box", "DQN-discrete",
                "SAC-box", "TD3-box")  # fmt: skip


@pytest.mark.parametrize("case", CASES_OF_NAN)
def test_observations_that_are_not_numbers(case: str) -> None:
    _, actions, observations, _ = CASES[case]
    model = make_model(case)
    data = ove.collect(model, Toy(actions, observations), 6, seed=0)
    seen = copy.deepcopy(data.observations)
    entry = seen["a"] if isinstance(seen, dict) else seen
    entry[34, 1] = np.nan
    entry[57, 0] = np.nan
    bad = replace(data, observations=seen, metadata=ove.Metadata())
    place = r"`observations` must hold no NaN, got some at episode 3, step 4"
    with pytest.raises(ove.InvalidInputError, match=place):
        ove.log_prob(model, bad)
    if not model.policy.__class__.__name__.startswith("Recurrent"):
        with pytest.raises(ove.InvalidInputError, match="got some at row 34"):
            ove.log_prob(model, seen, data.actions)

    class Broken(Toy):
        def _observe(self, shift: float) -> Any:
            observation = super()._observe(shift)
            if self.time == 3:
                broken = observation["a"] if isinstance(observation, dict) else observation
                broken[0] = np.nan
            return observation

    with pytest.raises(ove.InvalidInputError, match="`observations` must hold no NaN"):
        ove.collect(model, Broken(actions, observations), 2, seed=0)
    with torch.no_grad():
        for parameter in model.policy.parameters():
            parameter.fill_(np.nan)
    with pytest.raises(ove.InvalidInputError, match=r"network gives NaN at episode 0, step 0"):
        ove.log_prob(model, replace(data, metadata=ove.Metadata()))


def test_actions_that_do_not_fit() -> None:
    discrete, box = make_model("PPO-discrete"), make_model("PPO-box")
    with pytest.raises(ove.InvalidInputError, match="integers from 0 to 3, got 4"):
        distribution(discrete).log_prob([0, 4, 1])
    with pytest.raises(ove.InvalidInputError, match="integers from 0 to 3"):
        distribution(discrete).log_prob([0.5, 0, 1])
    with pytest.raises(ove.InvalidInputError, match=r"`actions` must have shape \(3,\)"):
        distribution(discrete).log_prob([[0, 1], [1, 0], [0, 0]])
    with pytest.raises(ove.InvalidInputError, match="clip it to the bounds"):
        distribution(box).log_prob([[0.0, 1.0], [0.0, 3.5], [0.0, 1.0]])
    with pytest.raises(ove.InvalidInputError, match="`actions` must be given"):
        ove.log_prob(discrete, OBSERVATIONS)
    with pytest.raises(ove.InvalidInputError, match="`actions` must have one entry"):
        ove.log_prob(discrete, OBSERVATIONS, [0, 1])


def test_memory_needs_lengths() -> None:
    model = make_model("RecurrentPPO-discrete")
    with pytest.raises(ove.InvalidInputError, match="`lengths` must be given"):
        ove.log_prob(model, OBSERVATIONS, [0, 1, 2])
    with pytest.raises(ove.InvalidInputError, match="add up to"):
        ove.log_prob(model, OBSERVATIONS, [0, 1, 2], lengths=[2])
    with pytest.raises(ove.InvalidInputError, match="`state` must be a pair"):
        distribution(model, state=np.zeros(3))
    with pytest.raises(ove.InvalidInputError, match="`episode_start` must have"):
        distribution(model, episode_start=[True])


def test_loops_of_ones_own() -> None:
    td3 = make_model("TD3-box")
    env = ove.LogActionProbability(Toy("box"), td3)
    observation, _ = env.reset(seed=0)
    with pytest.raises(ove.InvalidInputError, match="must carry the model's action noise"):
        env.step(td3.predict(observation)[0])
    action = ove.action_distribution(td3, repeat(observation, 1)).sample(0)[0]
    env.step(action)
    ou = make_model("TD3-box", action_noise=ou_noise())
    env = ove.LogActionProbability(Toy("box"), ou)
    env.reset(seed=0)
    with pytest.raises(Unsupported, match="state of the noise is not known"):
        env.step(np.array([0.3, 1.0], np.float32))
    gsde = make_model("PPO-gsde")
    env = ove.LogActionProbability(Toy("box"), gsde)
    observation, _ = env.reset(seed=0)
    env.step(gsde.predict(observation)[0])
    with pytest.raises(Unsupported, match="the same one twice"):
        env.step(gsde.predict(observation)[0])
    env = ove.LogActionProbability(Toy())
    env.reset()
    with pytest.raises(ove.InvalidInputError, match="`model` must be set"):
        env.trajectories()
    env.set_model(make_model("PPO-discrete"))
    env.step(0)
    with pytest.raises(ove.InvalidInputError, match="after an episode has ended"):
        env.trajectories()
