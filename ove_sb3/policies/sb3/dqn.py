"""DQN and QRDQN: epsilon-greedy in the action values of a network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from numpy.typing import NDArray
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecNormalize
from typing_extensions import override

from ove_sb3.policies.discrete import Categorical, epsilon_greedy
from ove_sb3.policies.distribution import ActionDistribution
from ove_sb3.policies.fingerprint import Part, value_parts
from ove_sb3.policies.observations import Observation
from ove_sb3.policies.policy import NO_CONTEXT, PolicyContext
from ove_sb3.policies.registry import register_adapter
from ove_sb3.policies.uniform import epsilon_greedy_range

from . import acting
from .adapter import NetworkAdapter
from .generators import numpy_generator, space_generator
from .networks import refuse_nan


class GreedyAdapter(NetworkAdapter):
    """DQN and QRDQN: uniform with probability epsilon, else the best of the network's values.

    Parameters
    ----------
    policy : BasePolicy
    network : torch.nn.Module
        Gives the action values, (n, k), or their quantiles, (n, quantiles, k).
    model : BaseAlgorithm or None
        Has the ``exploration_rate``; None for a policy that never explores.
    """

    def __init__(
        self,
        policy: BasePolicy,
        network: torch.nn.Module,
        model: Any,
        normalizer: VecNormalize | None,
    ) -> None:
        super().__init__(policy, network, normalizer)
        self.model = model
        names = ("q_net", "quantile_net", "action_net")
        self._head = next(name for name in names if hasattr(network, name))
        self.n_quantiles: int | None = getattr(network, "n_quantiles", None)

    @property
    def epsilon(self) -> float:
        """Current probability of a uniform choice."""
        return 0.0 if self.model is None else float(self.model.exploration_rate)

    @property
    @override
    def min_probability(self) -> float:
        return epsilon_greedy_range(self.epsilon, self.action_space)[0]

    @property
    @override
    def max_probability(self) -> float:
        return epsilon_greedy_range(self.epsilon, self.action_space)[1]

    @override
    def distribution(
        self, observations: Observation, context: PolicyContext = NO_CONTEXT
    ) -> ActionDistribution:
        values = self.action_values(observations)
        log_p = epsilon_greedy(values.argmax(axis=1), values.shape[1], self.epsilon)
        return Categorical(log_p, self.action_space)  # type: ignore[arg-type]

    def action_values(self, observations: Observation) -> NDArray[Any]:
        """Action values of the network, (n, k)."""
        with self._forward():
            head: Any = getattr(self.network, self._head)
            values: torch.Tensor = head(self.reader.features(observations))
            if self.n_quantiles is not None:
                n_choices = int(self.action_space.n)  # type: ignore[attr-defined]
                values = values.view(-1, self.n_quantiles, n_choices).mean(dim=1)
        array = values.cpu().numpy()
        refuse_nan(array, observations)
        return array

    @override
    def generators(self) -> Iterable[tuple[Any, Any]]:
        if self.epsilon == 0.0:
            return ()
        return (*numpy_generator(), *space_generator(self.model.action_space))

    @override
    def _learned_parts(self) -> Iterator[Part]:
        yield from super()._learned_parts()
        yield from value_parts(self.epsilon)


def _value_network(policy: Any) -> Any:
    acting.check_acts_as(policy, ("DQNPolicy", "QRDQNPolicy"), acting.POLICY)
    network = policy.q_net if hasattr(policy, "q_net") else policy.quantile_net
    acting.check_acts_as(network, ("QNetwork", "QuantileNetwork"), acting.NETWORK)
    return network


def _of_model(model: Any, normalizer: VecNormalize | None) -> GreedyAdapter:
    return GreedyAdapter(model.policy, _value_network(model.policy), model, normalizer)


def _without_exploration(model: Any, normalizer: VecNormalize | None) -> GreedyAdapter:
    policy = getattr(model, "policy", model)
    return GreedyAdapter(policy, _value_network(policy), None, normalizer)


register_adapter(
    "stable_baselines3.dqn.dqn.DQN",
    "sb3_contrib.qrdqn.qrdqn.QRDQN",
    make=_of_model,
    acting=acting.MODEL,
    without_exploration=_without_exploration,
)
register_adapter(
    "stable_baselines3.dqn.policies.DQNPolicy",
    "sb3_contrib.qrdqn.policies.QRDQNPolicy",
    make=acting.refuse_bare_policy(
        "Pass the model, or ove_sb3.EpsilonGreedyPolicy(policy, epsilon)."
    ),
    without_exploration=_without_exploration,
)
