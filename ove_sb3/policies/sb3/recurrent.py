"""RecurrentPPO: the LSTM is unrolled over whole episodes, from its zero state."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecNormalize
from typing_extensions import override

from ove_sb3.errors import InvalidInputError, UnsupportedPolicyError
from ove_sb3.policies.distribution import ActionDistribution
from ove_sb3.policies.observations import Observation
from ove_sb3.policies.policy import NO_CONTEXT, Masks, PolicyContext
from ove_sb3.policies.registry import register_adapter

from . import acting
from .actor_critic import ActorCriticAdapter


class RecurrentAdapter(ActorCriticAdapter):
    """RecurrentPPO. As in SB3, `state` holds hidden and cell arrays, (n_layers, n, size) each."""

    recurrent = True

    def __init__(self, policy: Any, normalizer: VecNormalize | None) -> None:
        super().__init__(policy, normalizer)
        if policy.squash_output:
            raise UnsupportedPolicyError(
                "`model` must not be RecurrentPPO with squash_output=True: its `learn` clips what "
                "its `predict` unscales, so the executed action is not well defined. Train with "
                "squash_output=False."
            )

    @override
    def distribution(
        self, observations: Observation, context: PolicyContext = NO_CONTEXT
    ) -> ActionDistribution:
        policy: Any = self.policy
        with self._forward():
            features = self.reader.features(observations)
            n = len(features)
            starts = np.zeros(n) if context.episode_start is None else context.episode_start
            state = self._state(context.state, n)
            start = torch.as_tensor(starts, dtype=torch.float32, device=policy.device)
            latent, after = policy._process_sequence(features, state, start, policy.lstm_actor)
            latent = policy.mlp_extractor.forward_actor(latent)
            distribution = self._head(latent, context.action_masks, observations)
        distribution.state = (after[0].cpu().numpy(), after[1].cpu().numpy())
        return distribution

    @override
    def unroll(
        self, observations: Observation, lengths: NDArray[np.int64], action_masks: Masks | None
    ) -> ActionDistribution:
        policy: Any = self.policy
        n, longest = len(lengths), int(lengths.max())
        time = np.arange(longest)[:, None] < lengths[None, :]  # (longest, n): not padding
        episode, step = np.nonzero(time.T)
        with self._forward():
            features = self.reader.features(observations)
            padded = features.new_zeros(longest, n, features.shape[1])
            padded[step, episode] = features
            output, _ = policy.lstm_actor(padded)
            latent = policy.mlp_extractor.forward_actor(output[step, episode])
            return self._head(latent, action_masks, observations)

    def _state(self, state: Any, n: int) -> tuple[torch.Tensor, torch.Tensor]:
        policy: Any = self.policy
        layers, _, size = policy.lstm_hidden_state_shape
        if state is None:
            zero = torch.zeros(layers, n, size, device=policy.device)
            return zero, zero
        shapes = [np.shape(part) for part in state] if isinstance(state, (tuple, list)) else None
        if shapes != [(layers, n, size)] * 2:
            raise InvalidInputError(
                f"`state` must be a pair of arrays of shape {(layers, n, size)}, got "
                f"{shapes or type(state)}. Pass the `state` of the previous distribution."
            )
        hidden, cell = (torch.as_tensor(part, dtype=torch.float32) for part in state)
        return hidden.to(policy.device), cell.to(policy.device)


register_adapter(
    "sb3_contrib.ppo_recurrent.ppo_recurrent.RecurrentPPO",
    make=acting.policy_of,
    acting=acting.MODEL,
)
register_adapter(
    "sb3_contrib.common.recurrent.policies.RecurrentActorCriticPolicy",
    make=RecurrentAdapter,
    acting=(*acting.ACTOR_CRITIC, "_process_sequence"),
)
