"""ARS with discrete actions: always the action with the largest output of the network."""

from __future__ import annotations

from typing import Any

from stable_baselines3.common.vec_env import VecNormalize

from ove_sb3.errors import UnsupportedPolicyError
from ove_sb3.policies.policy import Policy
from ove_sb3.policies.registry import register_adapter

from . import acting
from .dqn import GreedyAdapter


def _of_policy(policy: Any, normalizer: VecNormalize | None) -> Policy:
    if not hasattr(policy.action_space, "n"):
        raise UnsupportedPolicyError(
            "`model` must be stochastic on a Box: ARS is deterministic and its actions have no "
            "density. Use it with a Discrete action space only."
        )
    return GreedyAdapter(policy, policy, None, normalizer)


register_adapter("sb3_contrib.ars.ars.ARS", make=acting.policy_of, acting=acting.MODEL)
register_adapter("sb3_contrib.ars.policies.ARSPolicy", make=_of_policy, acting=acting.POLICY)
