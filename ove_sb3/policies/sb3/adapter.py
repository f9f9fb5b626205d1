"""Base class of the adapters of stable-baselines3 models: a network that is run on observations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecNormalize
from typing_extensions import override

from ove_sb3.errors import InvalidInputError, UnsupportedPolicyError
from ove_sb3.policies.bounds import BoxBounds
from ove_sb3.policies.fingerprint import Part, space_parts, tensor_parts, value_parts
from ove_sb3.policies.policy import Policy

from .fingerprint import normalizer_parts, settings_parts, structure_parts
from .networks import ObservationReader, evaluation_mode


class NetworkAdapter(Policy):
    """A stable-baselines3 policy, evaluated by its networks.

    Parameters
    ----------
    policy : BasePolicy
    network : torch.nn.Module
        The acting part of it.
    normalizer : VecNormalize or None
        Applied to the observations first.
    extractor : str
        Name of the features extractor in `network`.
    """

    def __init__(
        self,
        policy: BasePolicy,
        network: torch.nn.Module,
        normalizer: VecNormalize | None,
        extractor: str = "features_extractor",
    ) -> None:
        self.policy, self.network, self.normalizer = policy, network, normalizer
        self.observation_space, self.action_space = policy.observation_space, policy.action_space
        self.reader = ObservationReader(policy, network, extractor, normalizer)
        self._checked = False  # that a forward pass is deterministic
        if np.any(getattr(self.action_space, "start", 0)):
            raise InvalidInputError(
                f"`action_space` must start at 0 for a policy of stable-baselines3, got "
                f"{self.action_space}."
            )
        if isinstance(self.action_space, spaces.Box):
            self.bounds = BoxBounds(self.action_space)

    @override
    def fingerprint_parts(self) -> Iterator[Part]:
        # The class of the policy is known to act as its library's does: see `acting`.
        yield from value_parts((self.policy.squash_output, self.policy.normalize_images))
        yield from space_parts(self.observation_space)
        yield from space_parts(self.action_space)
        yield from structure_parts(self.network)
        yield from self._learned_parts()

    @override
    def mutable_parts(self) -> Iterator[Part]:
        yield from value_parts((self.policy.squash_output, self.policy.normalize_images))
        yield from settings_parts(self.network)
        yield from self._learned_parts()

    def _learned_parts(self) -> Iterator[Part]:
        """Weights, statistics and exploration."""
        yield from tensor_parts(self.network)
        yield from normalizer_parts(self.normalizer)

    @override
    def generators(self) -> Iterable[tuple[Any, Any]]:
        if self.policy.device.type == "cuda":
            return ((torch.cuda, torch.cuda.get_rng_state(self.policy.device).numpy()),)
        return ((torch, torch.get_rng_state().numpy()),)

    @contextmanager
    def _forward(self) -> Iterator[None]:
        """Context of forward passes: evaluation mode; networks that draw numbers are refused."""
        for module in self._bypassed_modules():
            if module._forward_hooks or module._forward_pre_hooks:
                raise UnsupportedPolicyError(
                    f"`model` must have no forward hooks on its {type(module).__name__}: they may "
                    "change actions in unknown ways. Remove them, or hook the layers inside."
                )
        before = None if self._checked else torch.get_rng_state()
        with evaluation_mode(self.network):
            yield
        if before is not None:
            if not torch.equal(before, torch.get_rng_state()):
                torch.set_rng_state(before)
                raise UnsupportedPolicyError(
                    "`model` must have deterministic networks, but their forward pass draws "
                    "random numbers: the probability of an action would be an average over these. "
                    "Remove layers that add noise in evaluation mode."
                )
            self._checked = True

    def _bypassed_modules(self) -> tuple[torch.nn.Module, ...]:
        """Modules whose hooks would not run, because their submodules are called one by one."""
        return (self.policy, self.network)
