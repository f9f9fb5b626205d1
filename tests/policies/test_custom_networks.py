"""Custom networks: probabilities are those that SB3 computes, for any batch size, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, FlattenExtractor
from torch import nn
from torch.nn.utils import parametrizations

import ove_sb3 as ove

from .toys import make_model, toys

SIZES = (1, 8, 32, 33, 64)
X = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
Unsupported = ove.UnsupportedPolicyError


class Residual(nn.Module):
    """As in SB3's guide, with a forward pass of its own."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.latent_dim_pi = self.latent_dim_vf = n
        self.policy_net = nn.Sequential(nn.Linear(n, n), nn.ReLU())
        self.value_net = nn.Sequential(nn.Linear(n, n), nn.ReLU())

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.forward_actor(x), self.forward_critic(x)

    def forward_actor(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(5.0 * x + self.policy_net(x))

    def forward_critic(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.value_net(x))


class Renamed(Residual):
    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.body = self.policy_net
        del self.policy_net

    def forward_actor(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.body(x))


class Torn(Residual):
    """`learn` and `predict` would act differently."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x, self.forward_critic(x)


class Doubling(BaseFeaturesExtractor):
    def __init__(self, space: Any) -> None:
        super().__init__(space, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2.0 * x + 1.0


class Noisy(Doubling):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn_like(x)


class DoublingFlatten(FlattenExtractor):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2.0 * super().forward(x)


def policy_with(net: type, base: Any = ActorCriticPolicy) -> Any:
    def build(self: Any) -> None:
        self.mlp_extractor = net(self.features_dim)

    return type("Own", (base,), {"_build_mlp_extractor": build})


def ppo(**policy_kwargs: Any) -> Any:
    return make_model("PPO-discrete", policy_kwargs=policy_kwargs)


def changed(change: Callable[[Any], Any], case: str = "PPO-discrete") -> Any:
    model = make_model(case)
    change(model.policy)
    return model


def double(module: Any, args: Any, output: Any) -> Any:
    return 2.0 * output


def set_forward_actor(policy: Any) -> None:
    policy.mlp_extractor.forward_actor = lambda x: -policy.mlp_extractor.policy_net(x)


def set_forward(policy: Any) -> None:
    policy.action_net.forward = lambda x: x[:, :4]


def train_mode_dropout(policy: Any) -> None:
    policy.action_net = nn.Sequential(nn.Dropout(0.5), policy.action_net, nn.BatchNorm1d(4))
    policy.train()


ACTOR_CRITIC: dict[str, Callable[[], Any]] = {
    "residual": lambda: A2C(policy_with(Residual), toys(), device="cpu", seed=0),
    "renamed": lambda: PPO(policy_with(Renamed), toys(), device="cpu", seed=0),
    "forward_actor of an instance": lambda: changed(set_forward_actor),
    "forward of an instance": lambda: changed(set_forward),
    "other activation": lambda: ppo(activation_fn=nn.ELU),
    "no hidden layers": lambda: ppo(net_arch=[]),
    "separate extractors": lambda: ppo(share_features_extractor=False),
    "own extractor": lambda: ppo(features_extractor_class=Doubling),
    "own separate extractors": lambda: ppo(
        features_extractor_class=DoublingFlatten, share_features_extractor=False
    ),
    "hook on a layer": lambda: changed(lambda p: p.action_net.register_forward_hook(double)),
    "hook on a stack": lambda: changed(
        lambda p: p.mlp_extractor.policy_net.register_forward_hook(double)
    ),
    "hook on the extractor": lambda: changed(
        lambda p: p.features_extractor.register_forward_hook(double)
    ),
    "hook inside the extractor": lambda: changed(
        lambda p: p.features_extractor.flatten.register_forward_hook(double)
    ),
    "spectral norm": lambda: changed(lambda p: parametrizations.spectral_norm(p.action_net)),
    "weight norm": lambda: changed(lambda p: parametrizations.weight_norm(p.action_net)),
    "old weight norm": lambda: changed(lambda p: nn.utils.weight_norm(p.action_net)),
    "dropout and batch norm in training": lambda: changed(train_mode_dropout),
}


def by_sb3(model: Any, x: NDArray[Any]) -> NDArray[np.float64]:
    """Log-probabilities of all choices."""
    policy = model.policy
    training = policy.training
    policy.set_training_mode(False)
    with torch.no_grad():
        distribution = policy.get_distribution(policy.obs_to_tensor(x)[0]).distribution
    policy.set_training_mode(training)
    return np.asarray(distribution.logits, dtype=np.float64)


def log_probs_of(model: Any, x: NDArray[Any], **options: Any) -> NDArray[np.float64]:
    distribution = ove.action_distribution(model, x, **options)
    return np.stack([distribution.log_prob(np.full(len(x), a)) for a in range(4)], axis=1)


@pytest.mark.filterwarnings("ignore:.*weight_norm.*is deprecated.*")
@pytest.mark.parametrize("name", ACTOR_CRITIC)
def test_actor_critic(name: str) -> None:
    model = ACTOR_CRITIC[name]()
    training = model.policy.training
    expected = by_sb3(model, X)
    for n in SIZES:
        np.testing.assert_allclose(log_probs_of(model, X[:n]), expected[:n], rtol=1e-5, atol=1e-5)
    assert model.policy.training == training


def test_masked() -> None:
    policy = policy_with(Residual, MaskableActorCriticPolicy)
    model = MaskablePPO(policy, toys(), device="cpu", seed=0)
    masks = np.ones((64, 4), bool)
    expected = by_sb3(model, X)
    for n in SIZES:
        log_probs = log_probs_of(model, X[:n], action_masks=masks[:n])
        np.testing.assert_allclose(log_probs, expected[:n], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["own", "hook", "activation", "spectral"])
@pytest.mark.parametrize("case", ["DQN-discrete", "QRDQN-discrete", "SAC-box", "TD3-box"])
def test_off_policy(case: str, name: str) -> None:
    options: dict[str, Any] = {}
    if name == "own":
        options["features_extractor_class"] = DoublingFlatten
    if name == "activation":
        options["activation_fn"] = nn.ELU
    model = make_model(case, policy_kwargs=options)
    discrete = case.endswith("discrete")
    network = model.policy.q_net if case == "DQN-discrete" else getattr(model.policy, "actor", None)
    if network is None:
        network = model.policy.quantile_net
    head: Any = getattr(
        network, "q_net", getattr(network, "quantile_net", getattr(network, "mu", None))
    )
    if name == "hook":
        network.features_extractor.register_forward_hook(double)
        head.register_forward_hook(double)
    if name == "spectral":
        first = head[0] if isinstance(head, nn.Sequential) else head
        parametrizations.spectral_norm(first)
    model.policy.set_training_mode(False)
    chosen, _ = model.policy.predict(X, deterministic=True)
    for n in SIZES:
        distribution: Any = ove.action_distribution(model, X[:n])
        if discrete:
            np.testing.assert_allclose(np.exp(distribution.log_prob(chosen[:n])), 0.7 + 0.3 / 4)
        elif case == "SAC-box":
            expected = np.tanh(distribution.mean)
            np.testing.assert_allclose(
                distribution.bounds.from_unit(expected), chosen[:n], atol=1e-5
            )
        else:
            expected = distribution.bounds.to_unit(distribution.mean) - np.array([0.1, -0.1])
            np.testing.assert_allclose(
                distribution.bounds.from_unit(expected), chosen[:n], atol=1e-5
            )


def test_normalize_images_is_the_acting_networks() -> None:
    x = np.random.default_rng(0).integers(0, 256, (5, 36, 36, 1)).astype(np.uint8)
    model = make_model("PPO-image")
    scaled = log_probs_of(model, x)
    np.testing.assert_allclose(scaled, by_sb3(model, x), atol=1e-5)
    model.policy.normalize_images = False
    assert np.abs(log_probs_of(model, x) - scaled).max() > 0.1
    np.testing.assert_allclose(log_probs_of(model, x), by_sb3(model, x), rtol=1e-4)


def test_during_learning() -> None:
    """The log-probability logged in `learn` is SB3's own, also for custom networks."""
    venv = ove.VecLogActionProbability(toys(2))
    model = PPO(policy_with(Residual), venv, n_steps=20, batch_size=40, device="cpu", seed=0)
    venv.set_model(model)
    model.learn(40)
    data = venv.trajectories()
    ours = sorted(data.log_probs)
    np.testing.assert_allclose(ours, sorted(model.rollout_buffer.log_probs.ravel()), atol=1e-5)


@pytest.mark.parametrize("name", ["hook on the policy", "hook on the mlp", "torn", "noisy"])
def test_refused(name: str) -> None:
    if name == "torn":
        model: Any = PPO(policy_with(Torn), toys(), device="cpu", seed=0)
    elif name == "noisy":
        model = ppo(features_extractor_class=Noisy)
    else:
        model = make_model("PPO-discrete")
        module = model.policy if name == "hook on the policy" else model.policy.mlp_extractor
        module.register_forward_hook(lambda *_: None)
    state = torch.get_rng_state()
    for n in (3, 64):
        with pytest.raises(
            Unsupported, match=r"forward hooks|forward_actor|deterministic networks"
        ):
            ove.action_distribution(model, X[:n])
    assert torch.equal(state, torch.get_rng_state())


def test_methods_of_an_instance_are_refused() -> None:
    model = make_model("PPO-discrete")
    model.policy.extract_features = lambda *args: None
    with pytest.raises(Unsupported, match="overrides `extract_features`"):
        ove.action_distribution(model, X)


def assign(policy: Any, state: dict[str, torch.Tensor]) -> None:
    policy.load_state_dict(state, assign=True)


def copy_in(policy: Any, state: dict[str, torch.Tensor]) -> None:
    policy.load_state_dict(state)


def by_data(policy: Any, state: dict[str, torch.Tensor]) -> None:
    for name, parameter in policy.named_parameters():
        parameter.data = state[name].clone()


def bias_only(policy: Any, state: dict[str, torch.Tensor]) -> None:
    policy.action_net.bias.data = state["action_net.bias"].clone()


def into_data(policy: Any, state: dict[str, torch.Tensor]) -> None:
    for name, parameter in policy.named_parameters():
        parameter.data.copy_(state[name])


def by_vector(policy: Any, state: dict[str, torch.Tensor]) -> None:
    policy.load_from_vector(
        np.concatenate([state[n].ravel() for n, _ in policy.named_parameters()])
    )


def transposed(policy: Any, state: dict[str, torch.Tensor]) -> None:
    inner = policy.mlp_extractor.policy_net[2].weight  # square: the same memory, read otherwise
    inner.data = inner.data.t()


def optimizer_step(policy: Any, state: dict[str, torch.Tensor]) -> None:
    policy.get_distribution(torch.as_tensor(X)).log_prob(torch.zeros(64)).mean().backward()
    torch.optim.SGD(policy.parameters(), lr=10.0).step()


def new_layer(policy: Any, state: dict[str, torch.Tensor]) -> None:
    policy.action_net = nn.Linear(16, 4)


CHANGES = (
    assign, copy_in, by_data, bias_only, into_data, by_vector, transposed, optimizer_step, new_layer
)  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("n", [3, 64])
def test_a_policy_that_is_held_follows_every_change_of_its_weights(change: Any, n: int) -> None:
    model = ppo(net_arch=[16, 16])
    held = ove.MixturePolicy([model], [1.0])
    other = make_model("PPO-discrete", seed=1, policy_kwargs={"net_arch": [16, 16]})
    before = log_probs_of(held, X[:n])
    change(model.policy, other.policy.state_dict())
    expected = by_sb3(model, X[:n])
    assert np.abs(expected - before).max() > 0.05
    np.testing.assert_allclose(log_probs_of(held, X[:n]), expected, atol=1e-5)


def test_noise_set_later_is_followed() -> None:
    model = make_model("TD3-box")
    held = ove.MixturePolicy([model], [1.0])
    actions, _ = model.policy.predict(X)
    before = held.distribution(X).log_prob(actions)
    model.action_noise = NormalActionNoise(np.zeros(2), np.full(2, 0.05))
    assert np.abs(held.distribution(X).log_prob(actions) - before).max() > 0.5
    np.testing.assert_allclose(
        held.distribution(X).log_prob(actions),
        ove.action_distribution(model, X).log_prob(actions),
    )
    sac = make_model("SAC-box")
    held = ove.MixturePolicy([sac], [1.0])
    sac.action_noise = model.action_noise
    with pytest.raises(Unsupported, match="no action noise besides"):
        held.distribution(X)
